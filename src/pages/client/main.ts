/**
 * The script of the pages. Every page works without it. The content security policy forbids inline handlers, so data
 * attributes connect elements with this script:
 *
 * - `data-copy="#id"`: copies the text of that element.
 * - `data-once` on a form: ignores a second submit while the first is in progress.
 * - `data-swap="#id"` on a submit button: sends the form without leaving the page, and replaces `#id` by that of the answer.
 * - `data-preview="#id"` with `data-preview-url` on a form: posts the form there while somebody types, and replaces `#id`.
 *   With `data-preview-first` also when the page opens.
 * - `data-refresh="3000"` on an element with an id: replaces itself from the same page, until it comes without.
 * - `data-press="#id"` on a select: a choice presses that button.
 * - `data-test-call="URL"` on a form: posts its body there and shows the answer.
 * - `data-fill="PLACEHOLDER"` on a field: writes its text where the page shows the placeholder.
 * - `<time datetime>`: shows the viewer's time zone on hover, with `data-local` (`date` or `time`) as its text.
 * - `data-unsaved="2"` around so many texts with `data-copy`: the page asks before it is left, until they are copied, or a link with
 *   `data-copied` is pressed.
 * - `data-search` on the search field: `/` leads to it, and it suggests records while somebody types.
 * - `data-local-time` on an input: its time is typed in the viewer's time zone.
 */
import { localTimes } from "./times.ts";
import { startLive } from "./live-page.ts";
import { refresh, swap } from "./swap.ts";
import { startSuggestions } from "./suggestions.ts";
import { startTestCalls } from "./test-call.ts";

document.documentElement.classList.add("js");

document.addEventListener("click", (event) => {
  const button = (event.target as Element).closest<HTMLElement>("[data-copy]");
  if (button === null) return;
  const text = document.querySelector(button.dataset["copy"] ?? "")?.textContent ?? "";
  void navigator.clipboard.writeText(text).then(
    () => sayOn(button, "Copied"),
    () => sayOn(button, "Press Ctrl+C"),
  );
});

function sayOn(button: HTMLElement, text: string): void {
  button.dataset["label"] ??= button.textContent ?? "";
  button.textContent = text;
  setTimeout(() => (button.textContent = button.dataset["label"] ?? ""), 2_000);
}

document.addEventListener("submit", (event) => {
  const form = event.target as HTMLFormElement;
  const button = (event as SubmitEvent).submitter as HTMLButtonElement | null;
  const target = button?.dataset["swap"];
  if (target !== undefined) {
    event.preventDefault();
    void swapBy(form, button, target);
    return;
  }
  if (!("once" in form.dataset)) return;
  if (form.dataset["once"] === "sent") event.preventDefault();
  form.dataset["once"] = "sent";
});

/** Sends the form without leaving the page. After sign-out sends it as a page, whose answer keeps the input. */
async function swapBy(form: HTMLFormElement, button: HTMLButtonElement | null, target: string): Promise<void> {
  if ((await swap(form.action, target, new FormData(form, button))) !== "signed_out") return;
  delete button?.dataset["swap"];
  button?.click();
}

// A form that the back-forward cache restores may be sent again.
addEventListener("pageshow", allowForms);

function allowForms(): void {
  for (const form of document.querySelectorAll<HTMLFormElement>("form[data-once]")) form.dataset["once"] = "";
}

const typing = new WeakMap<HTMLFormElement, { timer: ReturnType<typeof setTimeout>; sending: AbortController }>();
for (const type of ["input", "change", "preview"]) {
  document.addEventListener(type, (event) => {
    // A field of the form may stand outside it.
    const target = event.target as HTMLInputElement;
    const form = target.closest<HTMLFormElement>("form") ?? target.form ?? null;
    if (form === null || !("preview" in form.dataset)) return;
    const before = typing.get(form);
    clearTimeout(before?.timer);
    before?.sending.abort();
    const sending = new AbortController();
    // After sign-out a preview is rejected. The page keeps its input, which can still be sent.
    const send = (): void => {
      void swap(form.dataset["previewUrl"] ?? "", form.dataset["preview"] ?? "", new FormData(form), sending.signal);
    };
    typing.set(form, { sending, timer: setTimeout(send, 300) });
  });
}

// A preview is up to date when the page opens, and after a condition is added or removed.
for (const form of document.querySelectorAll("form[data-preview-first]")) askForPreview(form);
document.addEventListener("swapped", (event) => {
  const fresh = event.target as Element;
  const form = fresh.closest("form[data-preview]");
  if (form === null) return;
  askForPreview(form);
  const last = [...fresh.querySelectorAll<HTMLInputElement>("input[name=path]")].at(-1);
  if (last?.value === "") last.focus();
});

// Styles see only the attribute of a path, and offer "same element" by it.
document.addEventListener("input", (event) => {
  const path = (event.target as Element).closest<HTMLInputElement>(".condition > input");
  path?.setAttribute("value", path.value);
});

document.addEventListener("change", (event) => {
  const button = (event.target as HTMLElement).dataset["press"];
  if (button !== undefined) document.querySelector<HTMLButtonElement>(button)?.click();
});

function askForPreview(form: Element): void {
  form.dispatchEvent(new CustomEvent("preview", { bubbles: true }));
}

// Menus that close, questions as modal dialogs, and the shortcut of the search field.
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
document.addEventListener("focusin", (event) => {
  closeMenus(event.target as Element);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeMenus(null);
  if (event.key === "ArrowDown" || event.key === "ArrowUp") moveInMenu(event);
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const search = document.querySelector<HTMLInputElement>("[data-search]");
  if (search === null) return;
  event.preventDefault();
  search.focus();
  search.select();
});
// The back-forward cache restores typed filters above a list that is not filtered by them.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll<HTMLFormElement>("form[data-filters]")) form.reset();
});

function closeMenus(within: Element | null): void {
  for (const menu of document.querySelectorAll<HTMLDetailsElement>("details:is(.menu-of, .switcher)[open]")) {
    if (within !== null && menu.contains(within)) continue;
    if (menu.contains(document.activeElement)) menu.querySelector("summary")?.focus();
    menu.open = false;
  }
}

/** The arrow keys move between the entries of an open menu. */
function moveInMenu(event: KeyboardEvent): void {
  const target = event.target as Element;
  const menu = target.closest<HTMLDetailsElement>("details.menu-of[open]");
  if (menu === null || isTyping(target)) return;
  const entries = [
    ...menu.querySelectorAll<HTMLElement>(":scope > :is(summary, div) :is(a, button, summary), :scope > summary"),
  ];
  const shown = entries.filter((entry) => entry.checkVisibility() && entry.closest(".confirm-body") === null);
  const at = shown.indexOf(target as HTMLElement);
  shown[(at + (event.key === "ArrowDown" ? 1 : -1) + shown.length) % shown.length]?.focus();
  event.preventDefault();
}

// The message of a form is shown once: not after a reload, nor to others with whom the address is shared.
const address = new URL(location.href);
if (address.searchParams.has("done")) {
  address.searchParams.delete("done");
  history.replaceState(history.state, "", address);
}

/** A page with a key or a secret that is shown once asks before it is left, until each is copied. */
const unsaved = document.querySelector<HTMLElement>("[data-unsaved]");
if (unsaved !== null) {
  const copied = new Set<string>();
  let isDone = false;
  document.addEventListener("click", (event) => {
    const target = event.target as Element;
    const button = target.closest<HTMLElement>("[data-unsaved] [data-copy]");
    if (button !== null) copied.add(button.dataset["copy"] ?? "");
    isDone ||= target.closest("[data-copied]") !== null || copied.size >= Number(unsaved.dataset["unsaved"]);
  });
  addEventListener("beforeunload", (event) => {
    if (isDone) return;
    event.preventDefault();
    // If the person stays, the form that would have left may be sent again.
    setTimeout(allowForms);
  });
}

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
  // Enter, pressed twice, must not end a key. A question with a field begins at the field.
  if (
    form.querySelector("button.danger") !== null &&
    form.querySelector(":is(input:not([type=hidden]), select)") === null
  )
    form.querySelector<HTMLElement>("[data-close]")?.focus();
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName))
  );
}

localTimes(document);
document.addEventListener("swapped", (event) => {
  localTimes(event.target as Element);
});
for (const element of document.querySelectorAll<HTMLElement>("[data-refresh]")) refresh(element);
startLive();
startTestCalls();
startSuggestions();
