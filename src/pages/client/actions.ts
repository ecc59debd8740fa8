/** Menus that close, questions as modal dialogs, and the shortcut of the search field. */

export function startActions(): void {
  document.addEventListener("click", (event) => {
    const target = event.target as Element;
    closeMenus(target);
    const question = target.closest("details.confirm > summary")?.parentElement;
    if (question instanceof HTMLDetailsElement) {
      event.preventDefault();
      ask(question);
    }
    target.closest("[data-close]")?.closest("dialog")?.close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeMenus(null);
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const search = document.querySelector<HTMLInputElement>("[data-search]");
    if (search === null) return;
    event.preventDefault();
    search.focus();
    search.select();
  });
  // A page from the back-forward cache has the text that was typed before it was left, above a list without that filter.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll<HTMLFormElement>("form[data-filters]")) form.reset();
  });
}

/** Closes open menus that do not contain the element. */
function closeMenus(within: Element | null): void {
  for (const menu of document.querySelectorAll<HTMLDetailsElement>("details.menu-of[open]")) {
    if (within !== null && menu.contains(within)) continue;
    if (menu.contains(document.activeElement)) menu.querySelector("summary")?.focus();
    menu.open = false;
  }
}

/** Shows the form of a question in a modal dialog, and puts it back when the dialog closes. */
function ask(question: HTMLDetailsElement): void {
  const form = question.querySelector(".confirm-body");
  if (form === null) return;
  const dialog = document.createElement("dialog");
  const title = form.querySelector("h2");
  if (title !== null) {
    title.id = "dialog-title";
    dialog.setAttribute("aria-labelledby", title.id);
  }
  const menu = question.closest<HTMLDetailsElement>("details.menu-of");
  if (menu !== null) menu.open = false;
  dialog.append(form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    title?.removeAttribute("id");
    question.append(form);
    dialog.remove();
    (menu ?? question).querySelector("summary")?.focus();
  });
  // A click on the backdrop is a click on the dialog itself.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.showModal();
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName))
  );
}
