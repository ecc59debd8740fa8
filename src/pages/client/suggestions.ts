/**
 * The search field suggests records while somebody types: a combobox, whose list the server makes (search.tsx). The arrow keys choose
 * an entry, Enter opens it, Escape closes the list. Without a chosen entry, Enter sends the form.
 */
import { swap } from "./swap.ts";

const DEBOUNCE_MS = 200;
const MIN_CHARACTERS = 2;
const LIST = "#suggestions";

export function startSuggestions(): void {
  const field = document.querySelector<HTMLInputElement>("[data-search]");
  const form = field?.form ?? null;
  if (field === null || form === null) return;
  const options = () => [...document.querySelectorAll<HTMLElement>(`${LIST} [role=option]`)];
  const chosen = () => options().find((option) => option.ariaSelected === "true");
  let [wanted, asked, isAsking] = ["", "", false];
  let timer: ReturnType<typeof setTimeout> | undefined;

  const choose = (option: HTMLElement | undefined): void => {
    for (const each of options()) each.ariaSelected = String(each === option);
    field.setAttribute("aria-activedescendant", option?.id ?? "");
    option?.scrollIntoView({ block: "nearest" });
  };
  const show = (isOpen: boolean): void => {
    if (!isOpen) document.querySelector(LIST)?.replaceChildren();
    field.ariaExpanded = String(options().length > 0);
    choose(undefined);
  };
  const close = (): void => {
    clearTimeout(timer);
    [wanted, asked] = ["", ""];
    show(false);
  };
  /** One request at a time: what is typed meanwhile is asked for afterwards. */
  const ask = async (): Promise<void> => {
    const text = field.value.trim();
    wanted = text.length < MIN_CHARACTERS ? "" : text;
    if (isAsking) return;
    isAsking = true;
    while (wanted !== asked) {
      asked = wanted;
      const address = `${form.action}/suggestions?${new URLSearchParams({ q: asked }).toString()}`;
      show(asked !== "" && (await swap(address, LIST, null)) === "swapped" && wanted !== "");
    }
    isAsking = false;
  };
  const move = (by: 1 | -1): void => {
    const all = options();
    const option = chosen();
    const from = option === undefined ? (by === 1 ? -1 : all.length) : all.indexOf(option);
    if (all.length === 0) void ask();
    // Beyond the ends nothing is chosen, so that Enter sends the form.
    else choose(all[from + by]);
  };

  field.role = "combobox";
  field.setAttribute("aria-controls", LIST.slice(1));
  field.setAttribute("aria-autocomplete", "list");
  show(false);
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => void ask(), DEBOUNCE_MS);
  });
  field.addEventListener("keydown", (event) => {
    // A key of an input method is no choice.
    if (event.isComposing) return;
    if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp") move(-1);
    else if (event.key === "Enter" && chosen() !== undefined) chosen()?.click();
    else if (event.key === "Escape" && options().length > 0) close();
    else return;
    event.preventDefault();
  });
  field.addEventListener("blur", close);
  // A click on an entry must not take the focus, which would close the list before.
  form.addEventListener("mousedown", (event) => {
    if ((event.target as Element).closest(LIST) !== null) event.preventDefault();
  });
  addEventListener("pagehide", close);
}
