/**
 * The live page: rows come in on top, over two WebSockets (signals, and refused calls). What senders wrote is put into
 * the page as text only.
 */
import type { LiveMessage } from "../../platform/live-message.ts";
import type { Rejection } from "../../domain/keys/rejection.ts";
import type { LiveSignal } from "../../store/protocol/recorded-signals.ts";
import { rejectionItem, signalItem, type LiveItem } from "../live/live-item.ts";
import { labelCells } from "./cards.ts";
import { liveRow, moreRow } from "./live-row.ts";
import { Stream } from "./stream.ts";
import { leaveIfSignedOut } from "./swap.ts";

/** Rows that the live page keeps at most. */
const LIVE_MAX_ROWS = 200;

export function startLive(): void {
  const page = document.querySelector<HTMLElement>("[data-live]");
  if (page !== null) new Live(page).start();
}

class Live {
  readonly #page: HTMLElement;
  readonly #rows: HTMLTableSectionElement;
  readonly #form: HTMLFormElement;
  readonly #pause: HTMLElement;
  readonly #state: HTMLElement;
  readonly #empty: HTMLElement;
  readonly #streams: Stream[] = [];
  /** The latest of what has come while paused; null where it is not paused. */
  #waiting: { items: LiveItem[]; more: number; count: number } | null = null;
  #everLost = false;

  constructor(page: HTMLElement) {
    this.#page = page;
    this.#rows = find(page, "tbody") as HTMLTableSectionElement;
    this.#form = find(page, "#live-filter") as HTMLFormElement;
    this.#pause = find(page, "#live-pause");
    this.#state = find(page, "#live-state");
    this.#empty = find(page, "#live-empty");
  }

  start(): void {
    this.#form.addEventListener("input", () => this.#filter());
    this.#form.addEventListener("submit", (event) => event.preventDefault());
    this.#pause.addEventListener("click", () => this.#togglePause());
    const keyNames = JSON.parse(this.#page.dataset["liveKeys"] ?? "{}") as Record<string, string>;
    this.#stream("signals", (row) => signalItem(row as LiveSignal));
    this.#stream("rejections", (row) => rejectionItem(row as Rejection, keyNames));
  }

  #stream(name: string, item: (row: unknown) => LiveItem): void {
    const url = new URL(`${this.#page.dataset["live"] ?? ""}/${name}`, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const told = (message: unknown): void => {
      const { rows, more } = message as LiveMessage<unknown>;
      this.#arrived(rows.map(item), more);
    };
    this.#streams.push(new Stream(url.href, Number(this.#page.dataset["liveMs"]), told, () => this.#sayState()));
  }

  #arrived(items: LiveItem[], more: number): void {
    if (this.#waiting === null) return this.#show(items, more);
    const { items: before, more: moreBefore, count } = this.#waiting;
    this.#waiting = {
      items: [...before, ...items].slice(-LIVE_MAX_ROWS),
      more: moreBefore + more,
      count: count + items.length + more,
    };
    this.#pause.textContent = `Resume (${this.#waiting.count} new)`;
  }

  #show(items: LiveItem[], more: number): void {
    // A connection that is opened anew overlaps with the one before it.
    const shown = new Set(Array.from(this.#rows.rows, (row) => row.dataset["key"]));
    for (const item of items.filter(({ key }) => !shown.has(key))) {
      this.#rows.prepend(liveRow(this.#page, item));
    }
    if (more > 0) this.#rows.prepend(moreRow(more));
    labelCells(this.#page);
    while (this.#rows.rows.length > LIVE_MAX_ROWS) this.#rows.deleteRow(-1);
    this.#filter();
  }

  /** Hides rows that do not fit the form, as the server does (isShown in live/live-item.ts). */
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

  #togglePause(): void {
    const waited = this.#waiting;
    this.#waiting = waited === null ? { items: [], more: 0, count: 0 } : null;
    this.#pause.textContent = waited === null ? "Resume" : "Pause";
    if (waited !== null) this.#show(waited.items, waited.more);
    this.#sayState();
  }

  /** Writes the state where screen readers read it aloud; rows are never read. */
  #sayState(): void {
    const states = this.#streams.map(({ state }) => state);
    const state = states.includes("lost") ? "lost" : states.includes("connecting") ? "connecting" : "live";
    this.#everLost ||= state === "lost";
    // A socket that is refused does not learn why.
    if (state === "lost") void leaveIfSignedOut();
    const text =
      state === "lost"
        ? "Reconnecting. What arrives meanwhile is not shown here."
        : state === "connecting"
          ? "Connecting"
          : this.#waiting !== null
            ? "Paused"
            : this.#everLost
              ? "Live again. What arrived in between: reload the page."
              : "Live";
    if (this.#state.textContent !== text) this.#state.textContent = text;
    this.#state.className = `live-state ${state === "live" && this.#waiting === null ? "pulse" : ""}`;
  }
}

function find(page: HTMLElement, selector: string): HTMLElement {
  const found = page.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`The page has no ${selector}.`);
  return found;
}
