/**
 * The live page: asks for new signals and refused calls while it is seen, and puts their rows in, as the server draws them.
 * It stops after ten minutes without a movement, since each question wakes the workspace's objects.
 */
import { labelCells } from "./cards.ts";
import { localTimes } from "./times.ts";

/** Rows that the live page keeps at most. */
const MAX_ROWS = 200;
const SIGNALS_MS = 2_000;
const REJECTIONS_MS = 10_000;
const RETRY_MAX_MS = 60_000;
const IDLE_MS = 10 * 60_000;

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

export function startLive(): void {
  const page = document.querySelector<HTMLElement>("[data-live]");
  if (page !== null) new Live(page).start();
}

/** Asks one address again and again. */
class Poll {
  failures = 0;
  readonly #url: string;
  readonly #everyMs: number;
  readonly #onRows: (rows: HTMLTableRowElement[]) => void;
  readonly #onAnswer: () => void;
  #seen: string;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #runs = false;
  #asking = false;

  /** @param seen what the page has already. @param onAnswer is called after each answer, and where there is none. */
  constructor(
    url: string,
    everyMs: number,
    seen: string,
    { onRows, onAnswer }: { onRows: (rows: HTMLTableRowElement[]) => void; onAnswer: () => void },
  ) {
    this.#url = url;
    this.#everyMs = everyMs;
    this.#seen = seen;
    this.#onRows = onRows;
    this.#onAnswer = onAnswer;
  }

  /** Asks at once where it has stopped. */
  run(runs: boolean): void {
    if (this.#runs === runs) return;
    this.#runs = runs;
    clearTimeout(this.#timer);
    if (runs && !this.#asking) void this.#next();
  }

  async #next(): Promise<void> {
    this.#asking = true;
    this.failures = (await this.#ask().catch(() => false)) ? 0 : this.failures + 1;
    this.#asking = false;
    this.#onAnswer();
    if (!this.#runs) return;
    const waitMs = Math.min(RETRY_MAX_MS, this.#everyMs * 2 ** this.failures);
    this.#timer = setTimeout(() => void this.#next(), waitMs);
  }

  async #ask(): Promise<boolean> {
    const answer = await fetch(`${this.#url}?after=${encodeURIComponent(this.#seen)}`);
    // Signed out meanwhile, or removed: the page says so when it is loaded again.
    if (answer.redirected || answer.status === 401 || answer.status === 404) location.reload();
    if (answer.status === 204) return true;
    const body = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("tbody");
    if (!answer.ok || body === null) return false;
    this.#seen = body.dataset["seen"] ?? "";
    this.#onRows(Array.from(body.rows));
    return true;
  }
}

class Live {
  readonly #page: HTMLElement;
  readonly #rows: HTMLTableSectionElement;
  readonly #form: HTMLFormElement;
  readonly #pause: HTMLElement;
  readonly #state: HTMLElement;
  readonly #empty: HTMLElement;
  readonly #polls: Poll[];
  #isPaused = false;
  #isIdle = false;
  #movedAtMs = Date.now();

  constructor(page: HTMLElement) {
    this.#page = page;
    this.#rows = find(page, "tbody") as HTMLTableSectionElement;
    this.#form = find(page, "#live-filter") as HTMLFormElement;
    this.#pause = find(page, "#live-pause");
    this.#state = find(page, "#live-state");
    this.#empty = find(page, "#live-empty");
    const { live = "", liveSignals = "", liveRejections = "" } = page.dataset;
    const handlers = { onRows: (rows: HTMLTableRowElement[]) => this.#show(rows), onAnswer: () => this.#update() };
    this.#polls = [
      new Poll(`${live}/signals`, SIGNALS_MS, liveSignals, handlers),
      new Poll(`${live}/rejections`, REJECTIONS_MS, liveRejections, handlers),
    ];
  }

  start(): void {
    this.#form.addEventListener("input", () => this.#filter());
    this.#form.addEventListener("submit", (event) => event.preventDefault());
    this.#pause.addEventListener("click", () => {
      this.#isPaused = !this.#isPaused && !this.#isIdle;
      this.#moved();
    });
    for (const type of ["pointermove", "keydown", "scroll"]) {
      addEventListener(type, () => (this.#movedAtMs = Date.now()), { passive: true });
    }
    document.addEventListener("visibilitychange", () => this.#moved());
    for (const row of this.#rows.rows) showClock(row);
    this.#update();
  }

  #moved(): void {
    this.#movedAtMs = Date.now();
    this.#isIdle = false;
    this.#update();
  }

  #update(): void {
    this.#isIdle ||= Date.now() - this.#movedAtMs > IDLE_MS;
    const stands = this.#isPaused || this.#isIdle;
    for (const poll of this.#polls) poll.run(!stands && !document.hidden);
    this.#pause.textContent = stands ? "Resume" : "Pause";
    const fails = this.#polls.some(({ failures }) => failures > 0);
    this.#say(
      this.#isIdle
        ? "Paused, since nobody has moved here for ten minutes"
        : stands
          ? "Paused"
          : fails
            ? "No answer. Trying again; what arrives meanwhile is shown then."
            : "Live",
    );
  }

  /** Writes the state where screen readers read it aloud; rows are never read. */
  #say(text: string): void {
    if (this.#state.textContent !== text) this.#state.textContent = text;
    this.#state.classList.toggle("pulse", text === "Live");
  }

  #show(rows: HTMLTableRowElement[]): void {
    for (const row of rows.toReversed()) this.#put(row);
    labelCells(this.#page);
    while (this.#rows.rows.length > MAX_ROWS) this.#rows.deleteRow(-1);
    this.#filter();
  }

  /** Puts a row where its time belongs, in place of an earlier one about the same. */
  #put(row: HTMLTableRowElement): void {
    const { key } = row.dataset;
    const shown = Array.from(this.#rows.rows);
    const same = shown.find((other) => key !== undefined && other.dataset["key"] === key);
    showClock(row);
    if (same !== undefined && timeOf(same) === timeOf(row)) {
      same.replaceWith(row);
      return;
    }
    same?.remove();
    const older = shown.find((other) => other !== same && timeOf(other) <= timeOf(row));
    this.#rows.insertBefore(row, older ?? null);
  }

  /** Hides rows that do not fit the form, as the server does (isShown in live.tsx). */
  #filter(): void {
    const { value: status } = find(this.#form, "#status") as HTMLSelectElement;
    const text = (find(this.#form, "#text") as HTMLInputElement).value.trim().toLowerCase();
    let seen = 0;
    for (const row of this.#rows.rows) {
      const cells = Array.from(row.cells).slice(2);
      const within = text === "" || cells.some((cell) => (cell.textContent ?? "").toLowerCase().includes(text));
      row.hidden = !within || (status !== "" && row.dataset["status"] !== status);
      if (!row.hidden) seen++;
    }
    this.#empty.hidden = seen > 0;
  }
}

/** As text that can be compared. */
function timeOf(row: HTMLTableRowElement): string {
  return row.dataset["at"] ?? "";
}

/** Rows stay for a while: "just now" would soon be wrong. */
function showClock(row: HTMLTableRowElement): void {
  localTimes(row);
  const time = row.querySelector("time");
  if (time === null) return;
  time.textContent = clock.format(new Date(time.dateTime));
  time.classList.add("nowrap");
}

function find(page: HTMLElement, selector: string): HTMLElement {
  const found = page.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`The page has no ${selector}.`);
  return found;
}
