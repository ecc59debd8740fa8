/** Polls for new rows while the page is visible. Stops when the viewer is idle, because each request wakes the objects. */
import { localTimes } from "./times.ts";

const MAX_ROWS = 200;
const SIGNALS_MS = 2_000;
const REJECTIONS_MS = 10_000;
const RETRY_MAX_MS = 60_000;
const IDLE_MS = 10 * 60_000;

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

export function startLive(): void {
  const page = document.querySelector<HTMLElement>("[data-live]");
  if (page !== null) new Live(page).start();
}

class Poll {
  failures = 0;
  readonly #url: string;
  readonly #everyMs: number;
  readonly #page: Live;
  /** The server's cursor: the latest rows that the page has. */
  #seen: string;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #runs = false;
  #isAsking = false;

  constructor(url: string, everyMs: number, seen: string, page: Live) {
    this.#url = url;
    this.#everyMs = everyMs;
    this.#seen = seen;
    this.#page = page;
  }

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
    this.#page.update();
    if (!this.#runs) return;
    const waitMs = Math.min(RETRY_MAX_MS, this.#everyMs * 2 ** this.failures);
    this.#timer = setTimeout(() => void this.#next(), waitMs);
  }

  async #ask(): Promise<boolean> {
    const answer = await fetch(`${this.#url}?after=${encodeURIComponent(this.#seen)}`);
    // Signed out, or no member any more: the reloaded page says so.
    if (answer.redirected || answer.status === 401 || answer.status === 404) location.reload();
    if (answer.status === 204) return true;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const seen = fresh.querySelector<HTMLElement>("[data-seen]")?.dataset["seen"];
    if (!answer.ok || seen === undefined) return false;
    this.#seen = seen;
    this.#page.insert(Array.from(fresh.querySelectorAll<HTMLTableRowElement>("tbody tr")));
    return true;
  }
}

class Live {
  readonly #page: HTMLElement;
  readonly #rows = find("[data-live] tbody") as HTMLTableSectionElement;
  readonly #form = find("form[data-filters]") as HTMLFormElement;
  readonly #pause = find("#live-pause");
  readonly #state = find("#live-state");
  readonly #empty = find("#live-empty");
  readonly #polls: Poll[];
  #isPaused = false;
  #isIdle = false;
  #movedAtMs = Date.now();

  constructor(page: HTMLElement) {
    const { live = "", liveSignals = "", liveRejections = "" } = page.dataset;
    this.#page = page;
    this.#polls = [
      new Poll(`${live}/signals`, SIGNALS_MS, liveSignals, this),
      new Poll(`${live}/rejections`, REJECTIONS_MS, liveRejections, this),
    ];
  }

  start(): void {
    this.#form.addEventListener("input", () => this.#filter());
    // After Back, main.ts has reset the form to the filters of the address.
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
    this.update();
  }

  #wake(): void {
    this.#movedAtMs = Date.now();
    this.#isIdle = false;
    this.update();
  }

  update(): void {
    this.#isIdle ||= Date.now() - this.#movedAtMs > IDLE_MS;
    const isStopped = this.#isPaused || this.#isIdle;
    for (const poll of this.#polls) poll.run(!isStopped && !document.hidden);
    this.#pause.textContent = isStopped ? "Resume" : "Pause";
    const isFailing = this.#polls.some(({ failures }) => failures > 0);
    const running = isFailing ? "Reconnecting" : "Live";
    const text = isStopped ? "Paused" : running;
    // Screen readers read each change aloud.
    if (this.#state.textContent !== text) this.#state.textContent = text;
    for (const name of ["good", "pulse"]) this.#state.classList.toggle(name, text === "Live");
  }

  insert(rows: HTMLTableRowElement[]): void {
    for (const row of rows.toReversed()) this.#put(row);
    while (this.#rows.rows.length > MAX_ROWS) this.#rows.deleteRow(-1);
    this.#filter();
  }

  #put(row: HTMLTableRowElement): void {
    const { key = "", at = "" } = row.dataset;
    showClock(row);
    for (const shown of Array.from(this.#rows.rows)) if (shown.dataset["key"] === key) shown.remove();
    const older = Array.from(this.#rows.rows).find((shown) => (shown.dataset["at"] ?? "") <= at);
    this.#rows.insertBefore(row, older ?? null);
  }

  /** Hides rows that do not match the form, as the server does. */
  #filter(): void {
    const { value: status } = find("#status") as HTMLSelectElement;
    const text = (find("[name=text]") as HTMLInputElement).value.trim().toLowerCase();
    for (const row of this.#rows.rows) {
      row.hidden = row.dataset["text"]?.includes(text) !== true || (status !== "" && row.dataset["status"] !== status);
    }
    const isEmpty = Array.from(this.#rows.rows).every(({ hidden }) => hidden);
    this.#page.hidden = isEmpty;
    this.#empty.hidden = !isEmpty;
  }
}

/** Rows stay for a while, so a relative time would become wrong. A date and its time are on two lines if the row is full. */
function showClock(row: HTMLTableRowElement): void {
  localTimes(row);
  const time = row.querySelector("time");
  if (time === null) return;
  const at = new Date(time.dateTime);
  const isToday = at.toDateString() === new Date().toDateString();
  const parts = (isToday ? [clock] : [day, clock]).map((part) => part.format(at).replaceAll(/\s/g, "\u00a0"));
  time.textContent = parts.join(" ");
}

function find(selector: string): HTMLElement {
  const found = document.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`The page has no ${selector}.`);
  return found;
}
