/**
 * The live page: asks for new signals and refused calls while it is visible, and inserts their rows as the server draws them.
 * It stops after ten minutes without activity, since each request wakes the workspace's objects.
 */
import { localTimes } from "./times.ts";

const MAX_ROWS = 200;
const SIGNALS_MS = 2_000;
const REJECTIONS_MS = 10_000;
const RETRY_MAX_MS = 60_000;
const IDLE_MS = 10 * 60_000;

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const dayAndClock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function startLive(): void {
  const page = document.querySelector<HTMLElement>("[data-live]");
  if (page !== null) new Live(page).start();
}

/** Requests one address repeatedly. */
class Poll {
  failures = 0;
  readonly #url: string;
  readonly #everyMs: number;
  readonly #onRows: (rows: HTMLTableRowElement[]) => void;
  readonly #onAnswer: () => void;
  #seen: string;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #runs = false;
  #isAsking = false;

  /** @param seen names the rows that the page has. @param onAnswer is called after each answer and each failure. */
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

  /** Starts at once, or stops. */
  run(runs: boolean): void {
    if (this.#runs === runs) return;
    this.#runs = runs;
    clearTimeout(this.#timer);
    if (runs && !this.#isAsking) void this.#next();
  }

  async #next(): Promise<void> {
    this.#isAsking = true;
    this.failures = (await this.#ask().catch(() => false)) ? 0 : this.failures + 1;
    this.#isAsking = false;
    this.#onAnswer();
    if (!this.#runs) return;
    const waitMs = Math.min(RETRY_MAX_MS, this.#everyMs * 2 ** this.failures);
    this.#timer = setTimeout(() => void this.#next(), waitMs);
  }

  async #ask(): Promise<boolean> {
    const answer = await fetch(`${this.#url}?after=${encodeURIComponent(this.#seen)}`);
    // Signed out or removed meanwhile: the reloaded page says so.
    if (answer.redirected || answer.status === 401 || answer.status === 404) location.reload();
    if (answer.status === 204) return true;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const seen = fresh.querySelector<HTMLElement>("[data-seen]")?.dataset["seen"];
    if (!answer.ok || seen === undefined) return false;
    this.#seen = seen;
    this.#onRows(Array.from(fresh.querySelectorAll<HTMLTableRowElement>("tbody tr")));
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
    this.#rows = find("[data-live] tbody") as HTMLTableSectionElement;
    this.#form = find("form[data-filters]") as HTMLFormElement;
    this.#pause = find("#live-pause");
    this.#state = find("#live-state");
    this.#empty = find("#live-empty");
    const { live = "", liveSignals = "", liveRejections = "" } = page.dataset;
    const handlers = { onRows: (rows: HTMLTableRowElement[]) => this.#show(rows), onAnswer: () => this.#update() };
    this.#polls = [
      new Poll(`${live}/signals`, SIGNALS_MS, liveSignals, handlers),
      new Poll(`${live}/rejections`, REJECTIONS_MS, liveRejections, handlers),
    ];
  }

  start(): void {
    this.#form.addEventListener("input", () => this.#filter());
    // The browser may have restored other filters than those of the address (actions.ts resets the form).
    addEventListener("pageshow", () => this.#filter());
    this.#pause.addEventListener("click", () => {
      this.#isPaused = !this.#isPaused && !this.#isIdle;
      this.#wake();
    });
    for (const type of ["pointermove", "keydown", "scroll"]) {
      addEventListener(type, () => (this.#movedAtMs = Date.now()), { passive: true });
    }
    document.addEventListener("visibilitychange", () => this.#wake());
    for (const row of this.#rows.rows) showClock(row);
    this.#update();
  }

  #wake(): void {
    this.#movedAtMs = Date.now();
    this.#isIdle = false;
    this.#update();
  }

  #update(): void {
    this.#isIdle ||= Date.now() - this.#movedAtMs > IDLE_MS;
    const isStopped = this.#isPaused || this.#isIdle;
    for (const poll of this.#polls) poll.run(!isStopped && !document.hidden);
    this.#pause.textContent = isStopped ? "Resume" : "Pause";
    const isFailing = this.#polls.some(({ failures }) => failures > 0);
    this.#setState(
      this.#isIdle ? "Paused after 10 minutes" : isStopped ? "Paused" : isFailing ? "Reconnecting" : "Live",
    );
  }

  /** Screen readers read the state aloud, so it changes only when it must. */
  #setState(text: string): void {
    if (this.#state.textContent !== text) this.#state.textContent = text;
    this.#state.classList.toggle("pulse", text === "Live");
    this.#state.classList.toggle("good", text === "Live");
  }

  #show(rows: HTMLTableRowElement[]): void {
    for (const row of rows.toReversed()) this.#put(row);
    while (this.#rows.rows.length > MAX_ROWS) this.#rows.deleteRow(-1);
    this.#filter();
  }

  /** Inserts a row by its time, and removes the row with the same key. */
  #put(row: HTMLTableRowElement): void {
    const { key = "", at = "" } = row.dataset;
    showClock(row);
    for (const shown of this.#rows.rows) if (shown.dataset["key"] === key) shown.remove();
    const older = Array.from(this.#rows.rows).find((shown) => (shown.dataset["at"] ?? "") <= at);
    this.#rows.insertBefore(row, older ?? null);
  }

  /** Hides rows that do not match the form, as the server does. */
  #filter(): void {
    const values = new FormData(this.#form);
    const [status, text] = ["status", "text"].map((name) => String(values.get(name) ?? "").trim());
    let shown = 0;
    for (const row of this.#rows.rows) {
      const isMatch = row.dataset["text"]?.includes((text ?? "").toLowerCase()) === true;
      row.hidden = !isMatch || (status !== "" && row.dataset["status"] !== status);
      if (!row.hidden) shown++;
    }
    this.#page.hidden = shown === 0;
    this.#empty.hidden = shown > 0;
  }
}

/** Rows stay for a while, so a relative time would soon be wrong. */
function showClock(row: HTMLTableRowElement): void {
  localTimes(row);
  const time = row.querySelector("time");
  if (time === null) return;
  const at = new Date(time.dateTime);
  const isToday = at.toDateString() === new Date().toDateString();
  time.textContent = (isToday ? clock : dayAndClock).format(at);
}

function find(selector: string): HTMLElement {
  const found = document.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`The page has no ${selector}.`);
  return found;
}
