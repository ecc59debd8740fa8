/**
 * Lines in memory and packed, column by column. A column is unpacked, and the facts of a line are assembled, on first use. A cell
 * is a number or a text; segments and the head store these cells.
 */
import { ADMITTED_VERDICTS } from "../../domain/quota/quota.ts";
import { OCCURRED_FROM } from "../../domain/signal/occurred-at.ts";
import { ENDPOINT_TYPES, LINE_STATUSES, SIGNAL_KINDS, type LineStatus } from "../../domain/signal/signal.ts";
import { PERSON_FIELDS, type Traits } from "../../domain/signal/traits.ts";
import type { Admission } from "../../wire/admission.ts";
import type { NamedBy } from "../protocol/stored-signals.ts";
import type { Facts, ListingId } from "./line.ts";
import {
  packColumn,
  packColumns,
  unpackColumn,
  unpackColumns,
  type Cell,
  type PackedColumn,
  type PayloadNames,
} from "./packing.ts";

const NAMED_BY: readonly NamedBy[] = ["email", "user_id", "anonymous_id"];
/** The ids that list a line, by the number that the column holds. */
const LISTED_BY: readonly (readonly ListingId[])[] = [[], ["user_id"], ["anonymous_id"], ["user_id", "anonymous_id"]];

interface Column {
  name: string;
  is: "number" | "text";
  write(facts: Facts): Cell;
}

/** The columns in stored order: new columns are added at the end, since stored lines name columns by position. */
export const COLUMNS = [
  { name: "id", is: "text", write: ({ admission }) => admission.id },
  { name: "status", is: "number", write: ({ status }) => LINE_STATUSES.indexOf(status) },
  { name: "kind", is: "number", write: ({ kind }) => SIGNAL_KINDS.indexOf(kind) },
  { name: "event", is: "text", write: ({ event }) => event ?? 0 },
  { name: "source", is: "text", write: ({ source }) => source ?? 0 },
  { name: "keyId", is: "text", write: ({ admission }) => admission.keyId },
  { name: "endpoint", is: "number", write: ({ admission }) => ENDPOINT_TYPES.indexOf(admission.endpoint) },
  { name: "verdict", is: "number", write: ({ admission }) => ADMITTED_VERDICTS.indexOf(admission.verdict) },
  { name: "signalLimit", is: "number", write: ({ admission }) => admission.signalLimit },
  { name: "periodStart", is: "number", write: ({ admission }) => admission.periodStartMs },
  { name: "periodEnd", is: "number", write: ({ admission }) => admission.periodEndMs },
  { name: "ordinal", is: "number", write: ({ admission }) => admission.ordinal },
  { name: "receivedAt", is: "number", write: ({ admission }) => admission.receivedAtMs },
  { name: "recordedAfter", is: "number", write: (facts) => facts.recordedAtMs - facts.admission.receivedAtMs },
  { name: "email", is: "text", write: ({ email }) => email ?? 0 },
  { name: "userId", is: "text", write: ({ userId }) => userId ?? 0 },
  { name: "anonymousId", is: "text", write: ({ anonymousId }) => anonymousId ?? 0 },
  { name: "personId", is: "number", write: ({ owner }) => owner?.personId ?? 0 },
  { name: "namedBy", is: "number", write: ({ owner }) => (owner === null ? 0 : NAMED_BY.indexOf(owner.by)) },
  { name: "rulesTried", is: "number", write: ({ rulesTried }) => rulesTried },
  { name: "outcomes", is: "text", write: ({ outcomes }) => (outcomes.length === 0 ? 0 : outcomes.join()) },
  { name: "linkedAfter", is: "number", write: (facts) => writeTime(facts.linkedAtMs, facts.admission.receivedAtMs) },
  { name: "duplicateOf", is: "text", write: ({ duplicateOf }) => duplicateOf ?? 0 },
  { name: "traits", is: "text", write: ({ traits }) => writeTraits(traits) },
  { name: "deletedAfter", is: "number", write: (facts) => writeTime(facts.deletedAtMs, facts.admission.receivedAtMs) },
  { name: "pathSource", is: "text", write: ({ admission }) => admission.pathSource ?? 0 },
  { name: "idempotencyKey", is: "text", write: ({ admission }) => admission.idempotencyKey ?? 0 },
  { name: "listedBy", is: "number", write: ({ listedBy }) => listedByCode(listedBy) },
  { name: "occurredBefore", is: "number", write: ({ admission, occurred }) => admission.receivedAtMs - occurred.ms },
  { name: "occurredFrom", is: "number", write: ({ occurred }) => OCCURRED_FROM.indexOf(occurred.from) },
] as const satisfies readonly Column[];

export type ColumnName = (typeof COLUMNS)[number]["name"];

export function encodeFacts(facts: Facts): Cell[] {
  return COLUMNS.map(({ write }) => write(facts));
}

export function decodeFacts(cell: (name: ColumnName) => Cell): Facts {
  const number = (name: ColumnName): number => Number(cell(name));
  const text = (name: ColumnName): string | null => textOf(cell(name));
  const receivedAtMs = number("receivedAt");
  const admission: Admission = {
    id: text("id") ?? "",
    keyId: text("keyId") ?? "",
    endpoint: ENDPOINT_TYPES[number("endpoint")] ?? "signal_staging",
    verdict: ADMITTED_VERDICTS[number("verdict")] ?? "accepted",
    ordinal: number("ordinal"),
    signalLimit: number("signalLimit"),
    receivedAtMs,
    periodStartMs: number("periodStart"),
    periodEndMs: number("periodEnd"),
  };
  const [pathSource, idempotencyKey] = [text("pathSource"), text("idempotencyKey")];
  if (pathSource !== null) admission.pathSource = pathSource;
  if (idempotencyKey !== null) admission.idempotencyKey = idempotencyKey;
  const personId = number("personId");
  return {
    admission,
    recordedAtMs: receivedAtMs + number("recordedAfter"),
    occurred: {
      ms: receivedAtMs - number("occurredBefore"),
      from: OCCURRED_FROM[number("occurredFrom")] ?? "received",
    },
    kind: SIGNAL_KINDS[number("kind")] ?? "signal",
    status: statusOf(cell("status")),
    event: text("event"),
    source: text("source"),
    email: text("email"),
    userId: text("userId"),
    anonymousId: text("anonymousId"),
    traits: readTraits(cell("traits")),
    owner: personId === 0 ? null : { personId, by: NAMED_BY[number("namedBy")] ?? "email" },
    listedBy: LISTED_BY[number("listedBy")] ?? [],
    linkedAtMs: readTime(number("linkedAfter"), receivedAtMs),
    duplicateOf: text("duplicateOf"),
    rulesTried: number("rulesTried"),
    outcomes: outcomesOf(cell("outcomes")),
    deletedAtMs: readTime(number("deletedAfter"), receivedAtMs),
  };
}

const PLACES = new Map<ColumnName, number>(COLUMNS.map(({ name }, place) => [name, place]));

export function placeOf(name: ColumnName): number {
  return PLACES.get(name) ?? 0;
}

export function textOf(cell: Cell): string | null {
  return typeof cell === "string" ? cell : null;
}

export function statusOf(cell: Cell): LineStatus {
  return LINE_STATUSES[Number(cell)] ?? "processed";
}

export function outcomesOf(cell: Cell): number[] {
  return typeof cell === "string" ? cell.split(",").map(Number) : [];
}

/** The index in LISTED_BY. */
function listedByCode(ids: readonly ListingId[]): number {
  return (ids.includes("user_id") ? 1 : 0) + (ids.includes("anonymous_id") ? 2 : 0);
}

/** Traits are one JSON text, so that a new trait needs no migration of stored lines. */
function writeTraits(traits: Traits): Cell {
  return PERSON_FIELDS.some((field) => traits[field] !== undefined) ? JSON.stringify(traits) : 0;
}

function readTraits(cell: Cell): Traits {
  return typeof cell === "string" ? (JSON.parse(cell) as Traits) : {};
}

/** Writes a time as its distance from another time, in milliseconds; 0: absent. */
function writeTime(ms: number | null, sinceMs: number): number {
  if (ms === null) return 0;
  return ms >= sinceMs ? ms - sinceMs + 1 : ms - sinceMs;
}

function readTime(distance: number, sinceMs: number): number | null {
  if (distance === 0) return null;
  return distance > 0 ? sinceMs + distance - 1 : sinceMs + distance;
}

const LETTERS = "padghr";

/** The letter of a status in the `statuses` of a segment's row. */
export function statusLetter(status: LineStatus): string {
  return LETTERS[LINE_STATUSES.indexOf(status)] ?? "p";
}

/** A column that is younger than the segment: absent in all lines. */
const ABSENT_COLUMN = packColumn([0], "number");

interface LinesColumn {
  is: Column["is"];
  /** Null until the column is packed. A column that has a packed form is not changed in place. */
  packed: PackedColumn | null;
  /** Null until a cell is read. */
  cells: Cell[] | null;
}

export class Lines {
  #length: number;
  /** In the order of COLUMNS. */
  readonly #columns: readonly LinesColumn[];

  constructor(
    length = 0,
    columns: readonly LinesColumn[] = COLUMNS.map(({ is }) => ({ is, packed: null, cells: [] })),
  ) {
    this.#length = length;
    this.#columns = columns;
  }

  get length(): number {
    return this.#length;
  }

  column(name: ColumnName): readonly Cell[] {
    const column = this.#columns[placeOf(name)];
    return column === undefined ? [] : this.#cells(column);
  }

  cell(index: number, name: ColumnName): Cell {
    return this.column(name)[index] ?? 0;
  }

  /** All cells of a line, in the order of COLUMNS. */
  cells(index: number): Cell[] {
    return this.#columns.map((column) => this.#cells(column)[index] ?? 0);
  }

  facts(index: number): Facts {
    return decodeFacts((name) => this.cell(index, name));
  }

  names(index: number): PayloadNames {
    return { userId: textOf(this.cell(index, "userId")), anonymousId: textOf(this.cell(index, "anonymousId")) };
  }

  /** Adds a line. @param cells in the order of COLUMNS; missing cells at the end are absent. */
  push(cells: readonly Cell[]): void {
    for (const [place, column] of this.#columns.entries()) this.#cells(column).push(cells[place] ?? 0);
    this.#length++;
  }

  /** A copy with changed facts, by index of the line. */
  with(changes: ReadonlyMap<number, Facts>): Lines {
    const changed = [...changes].map(([index, facts]) => ({ index, cells: encodeFacts(facts) }));
    const columns = this.#columns.map((column, place) => {
      const before = this.#cells(column);
      const news = changed.filter(({ index, cells }) => cells[place] !== before[index]);
      if (news.length === 0 && column.packed !== null) return column;
      const after = [...before];
      for (const { index, cells } of news) after[index] = cells[place] ?? 0;
      return { is: column.is, packed: null, cells: after };
    });
    return new Lines(this.#length, columns);
  }

  pack(): Uint8Array {
    const columns = this.#columns.map((column) => (column.packed ??= packColumn(this.#cells(column), column.is)));
    return packColumns(columns, this.#length);
  }

  static unpack(bytes: ArrayBuffer): Lines {
    const { length, columns } = unpackColumns(bytes);
    return new Lines(
      length,
      COLUMNS.map(({ is }, place) => ({ is, packed: columns[place] ?? ABSENT_COLUMN, cells: null })),
    );
  }

  #cells(column: LinesColumn): Cell[] {
    return (column.cells ??= column.packed === null ? [] : unpackColumn(column.packed, column.is, this.#length));
  }
}
