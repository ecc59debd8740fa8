/** The editor of a mapping rule: its preview is there at once, and follows when conditions come and go. */
export function startRules(): void {
  for (const form of document.querySelectorAll("form[data-preview-first]")) askForPreview(form);
  document.addEventListener("swapped", (event) => {
    const fresh = event.target as Element;
    const form = fresh.closest("form[data-preview-first]");
    if (form === null) return;
    askForPreview(form);
    const last = [...fresh.querySelectorAll<HTMLInputElement>("input[name=path]")].at(-1);
    if (last?.value === "") last.focus();
  });
}

function askForPreview(form: Element): void {
  form.dispatchEvent(new CustomEvent("preview", { bubbles: true }));
}
