/**
 * The address of a list: search text, filters, sort order and cursor. Each filter is read by one call, which also makes its
 * chip (filters.tsx). A value that makes no sense is not applied, and the page says so.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { IDENTITY_MAX_LENGTH } from "../../limits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";

export interface ActiveFilter {
  label: string;
  /** The value as people read it. */
  value: string;
  /** The filter's parameters in the address. */
  names: readonly string[];
}

/** A range of days in UTC, both ends included. */
export interface DayRange {
  /** The first and the last day as typed, such as `2026-11-21`. Empty: no bound on that side. */
  from: string;
  to: string;
  /** The range in milliseconds since 1970: `sinceMs` is in it, `untilMs` is not. Null: no bound on that side. */
  sinceMs: number | null;
  untilMs: number | null;
}

/** Options that an error names. */
const OPTIONS_NAMED = 8;

type Query = Record<string, string>;

/** A slice of a list that the server filters. `complete` false: the search stopped early and continues from `next`. */
export interface ScannedSlice<Row> extends PageOf<Row> {
  complete: boolean;
}

/** Searches that one page makes at most. */
const SCANS_MAX = 10;

export type Scanned<Slice> = Slice & { scans: number };

/**
 * Searches on until a slice has a match, so that a match far back is found at once. `scans` is the number of searches.
 */
export async function scanOn<Slice extends ScannedSlice<unknown>>(
  slice: Page,
  read: (slice: Page) => Promise<Slice>,
): Promise<Scanned<Slice>> {
  let found = await read(slice);
  let scans = 1;
  for (; found.items.length === 0 && !found.complete && scans < SCANS_MAX; scans++) {
    found = await read({ ...slice, cursor: found.next });
  }
  return { ...found, scans };
}

export class ListAddress {
  readonly path: string;
  /** The filters in use. */
  readonly active: ActiveFilter[] = [];
  readonly errors: string[] = [];
  /** The parameters that have an effect, with the cursor. Addresses of further slices are made from it. */
  readonly query: Query = {};
  readonly #asked: Query;

  constructor(path: string, asked: Query) {
    this.path = path;
    this.#asked = asked;
    for (const name of ["cursor", "back"]) this.#keep(name, asked[name] ?? "");
  }

  /** The slice that the address asks for. */
  slice(limit: number): Page {
    return { cursor: this.query["cursor"] ?? null, limit };
  }

  /** A text of whole characters, since halves of them cannot be compared. @param label null: the text has no chip. */
  text(name: string, label: string | null, maxLength = IDENTITY_MAX_LENGTH): string {
    const value = (this.#asked[name] ?? "").toWellFormed().trim().slice(0, maxLength);
    this.#use(name, label, value, value);
    return value;
  }

  /** One of the options, by its key; `usual` where the address has none. @param label null: the choice has no chip. */
  choice<Key extends string>(
    name: string,
    label: string | null,
    options: Record<Key, string>,
    usual: NoInfer<Key>,
  ): Key {
    const value = this.#asked[name] ?? "";
    if (value === "" || value === usual) return usual;
    if (!Object.hasOwn(options, value)) {
      const names = Object.values<string>(options);
      const some = names.length > OPTIONS_NAMED ? [...names.slice(0, OPTIONS_NAMED), "…"] : names;
      this.errors.push(`“${value.slice(0, 40)}” is not one of: ${some.join(", ")}`);
      return usual;
    }
    this.#use(name, label, value, options[value as Key]);
    return value as Key;
  }

  wholeNumber(name: string, label: string): number | null {
    const value = (this.#asked[name] ?? "").trim();
    if (value === "") return null;
    if (!/^-?\d{1,9}$/.test(value)) {
      this.errors.push(`${label}: enter a whole number.`);
      return null;
    }
    this.#use(name, label, value, value);
    return Number(value);
  }

  /** @param label says what happened on the days, such as `Last seen`. */
  days(label: string): DayRange {
    const [from, to] = [this.#day("from"), this.#day("to")];
    const none = { from: "", to: "", sinceMs: null, untilMs: null };
    if (from !== null && to !== null && from > to) {
      this.errors.push(`“From” (${this.#asked["from"]}) is after “To” (${this.#asked["to"]}). Swap the two days.`);
      return none;
    }
    const range = {
      from: from === null ? "" : (this.#asked["from"] ?? ""),
      to: to === null ? "" : (this.#asked["to"] ?? ""),
      sinceMs: from,
      untilMs: to === null ? null : to + DAY_MS,
    };
    this.#keep("from", range.from);
    this.#keep("to", range.to);
    const value = [range.from === "" ? "" : `from ${range.from}`, range.to === "" ? "" : `until ${range.to}`];
    const text = value.filter((part) => part !== "").join(" ");
    if (text !== "") this.active.push({ label, value: `${text} (UTC)`, names: ["from", "to"] });
    return range;
  }

  /** Records a filter that the page, not this class, has read. */
  use(label: string, value: string, parameters: Query): void {
    for (const [name, text] of Object.entries(parameters)) this.#keep(name, text);
    if (value !== "") this.active.push({ label, value, names: Object.keys(parameters) });
  }

  get isFiltered(): boolean {
    return this.active.length > 0;
  }

  /** Milliseconds since 1970 of the day's first moment; null: no day is asked for, or it is none. */
  #day(name: "from" | "to"): number | null {
    const text = this.#asked[name] ?? "";
    if (text === "") return null;
    const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00.000Z`) : Number.NaN;
    // JavaScript makes a day of March of the 31st of February.
    if (!Number.isNaN(ms) && ms >= 0 && new Date(ms).toISOString().slice(0, 10) === text) return ms;
    this.errors.push(`“${text.slice(0, 40)}” is not a day. Enter it as 2026-11-21.`);
    return null;
  }

  #use(name: string, label: string | null, value: string, shown: string): void {
    this.#keep(name, value);
    if (label !== null && value !== "") this.active.push({ label, value: shown, names: [name] });
  }

  #keep(name: string, value: string): void {
    if (value !== "") this.query[name] = value;
  }
}
