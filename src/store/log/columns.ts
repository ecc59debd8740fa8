/**
 * The lines of a segment by column. A column is one JSON text, which is parsed on first use: most readers need few columns. The
 * texts of all columns are one zstd frame.
 */
import { ADMITTED_VERDICTS } from "../../domain/quota/quota.ts";
import { OCCURRED_FROM } from "../../domain/signal/occurred-at.ts";
import type { Problems } from "../../domain/signal/normalise.ts";
import { ENDPOINT_TYPES, LINE_STATUSES, SIGNAL_KINDS, type LineStatus } from "../../domain/signal/signal.ts";
import { PERSON_FIELDS, type Traits } from "../../domain/signal/traits.ts";
import { ROW_MAX_BYTES } from "../../limits.ts";
import { compress, decompress } from "../../platform/zstd.ts";
import type { Admission } from "../../wire/message.ts";
import type { NamedBy } from "../protocol/stored-signals.ts";
import type { SignalFacts, ListingId } from "./line.ts";

/** The value of a line in one column; 0: absent. */
export type Cell = number | string;

const NAMED_BY: readonly NamedBy[] = ["email", "user_id", "anonymous_id"];
/** By the number that the column holds. */
const TIMELINE_IDS: readonly (readonly ListingId[])[] = [
  [],
  ["user_id"],
  ["anonymous_id"],
  ["user_id", "anonymous_id"],
];

export interface Column {
  name: string;
  is: "number" | "text";
  write(facts: SignalFacts): Cell;
}

/** In stored order: stored lines name columns by position, so new columns are added at the end. */
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
  { name: "personId", is: "number", write: ({ person }) => person?.personId ?? 0 },
  { name: "namedBy", is: "number", write: ({ person }) => (person === null ? 0 : NAMED_BY.indexOf(person.by)) },
  { name: "rulesTried", is: "number", write: ({ rulesTried }) => rulesTried },
  { name: "outcomes", is: "text", write: ({ outcomes }) => (outcomes.length === 0 ? 0 : outcomes.join()) },
  { name: "linkedAfter", is: "number", write: (facts) => writeTime(facts.linkedAtMs, facts.admission.receivedAtMs) },
  { name: "duplicateOf", is: "text", write: ({ duplicateOf }) => duplicateOf ?? 0 },
  { name: "traits", is: "text", write: ({ traits }) => writeTraits(traits) },
  { name: "deletedAfter", is: "number", write: (facts) => writeTime(facts.deletedAtMs, facts.admission.receivedAtMs) },
  { name: "pathSource", is: "text", write: ({ admission }) => admission.pathSource ?? 0 },
  { name: "idempotencyKey", is: "text", write: ({ admission }) => admission.idempotencyKey ?? 0 },
  { name: "timelineIds", is: "number", write: ({ timelineIds }) => timelineIdsCode(timelineIds) },
  { name: "occurredBefore", is: "number", write: ({ admission, occurred }) => admission.receivedAtMs - occurred.ms },
  { name: "occurredFrom", is: "number", write: ({ occurred }) => OCCURRED_FROM.indexOf(occurred.from) },
  {
    name: "linkedRules",
    is: "number",
    write: ({ linkedRulesVersion: version }) => (version === null ? 0 : version + 1),
  },
  { name: "problems", is: "text", write: ({ problems }) => writeProblems(problems) },
  { name: "mapped", is: "number", write: ({ mapped }) => Number(mapped) },
  { name: "template", is: "number", write: ({ admission }) => admission.templateVersion ?? 0 },
  { name: "around", is: "text", write: ({ admission }) => admission.around ?? 0 },
  { name: "topic", is: "text", write: ({ topic }) => topic ?? 0 },
  { name: "excludedBy", is: "text", write: ({ excludedBy }) => excludedBy ?? 0 },
  { name: "sameId", is: "number", write: ({ sameId }) => Number(sameId) },
] as const satisfies readonly Column[];

export type ColumnName = (typeof COLUMNS)[number]["name"];

export function encodeFacts(facts: SignalFacts): Cell[] {
  return COLUMNS.map(({ write }) => write(facts));
}

export function decodeFacts(cell: (name: ColumnName) => Cell): SignalFacts {
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
  if (number("template") > 0) admission.templateVersion = number("template");
  const around = text("around");
  if (around !== null) admission.around = around;
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
    person: personId === 0 ? null : { personId, by: NAMED_BY[number("namedBy")] ?? "email" },
    timelineIds: TIMELINE_IDS[number("timelineIds")] ?? [],
    linkedAtMs: readTime(number("linkedAfter"), receivedAtMs),
    linkedRulesVersion: number("linkedRules") === 0 ? null : number("linkedRules") - 1,
    duplicateOf: text("duplicateOf"),
    sameId: cell("sameId") === 1,
    rulesTried: number("rulesTried"),
    outcomes: outcomesOf(cell("outcomes")),
    excludedBy: text("excludedBy"),
    problems: readProblems(cell("problems")),
    mapped: cell("mapped") === 1,
    topic: text("topic"),
    deletedAtMs: readTime(number("deletedAfter"), receivedAtMs),
  };
}

const PLACES = new Map<ColumnName, number>(COLUMNS.map(({ name }, place) => [name, place]));

export function textOf(cell: Cell): string | null {
  return typeof cell === "string" ? cell : null;
}

export function statusOf(cell: Cell): LineStatus {
  return LINE_STATUSES[Number(cell)] ?? "processed";
}

export function outcomesOf(cell: Cell): number[] {
  return typeof cell === "string" ? cell.split(",").map(Number) : [];
}

function timelineIdsCode(ids: readonly ListingId[]): number {
  return (ids.includes("user_id") ? 1 : 0) + (ids.includes("anonymous_id") ? 2 : 0);
}

/** Traits are one JSON text, so that a new trait needs no migration of stored lines. */
function writeTraits(traits: Traits): Cell {
  return PERSON_FIELDS.some((field) => traits[field] !== undefined) ? JSON.stringify(traits) : 0;
}

function readTraits(cell: Cell): Traits {
  return typeof cell === "string" ? (JSON.parse(cell) as Traits) : {};
}

/** Most lines have none, and the column costs nothing. */
function writeProblems(problems: Problems): Cell {
  return Object.keys(problems).length === 0 ? 0 : JSON.stringify(problems);
}

function readProblems(cell: Cell): Problems {
  return typeof cell === "string" ? (JSON.parse(cell) as Problems) : {};
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

/** The text of a column that is absent in each line. */
const NO_CELLS = "[0]";

interface LinesColumn {
  is: Column["is"];
  /** JSON of the cells, see `textOfColumn`. A column that has its text is not changed in place. */
  text: string | null;
  cells: Cell[] | null;
}

export class Lines {
  #length: number;
  /** In the order of COLUMNS. */
  readonly #columns: readonly LinesColumn[];

  constructor(length = 0, columns: readonly LinesColumn[] = COLUMNS.map(({ is }) => ({ is, text: null, cells: [] }))) {
    this.#length = length;
    this.#columns = columns;
  }

  get length(): number {
    return this.#length;
  }

  column(name: ColumnName): readonly Cell[] {
    const column = this.#columns[PLACES.get(name) ?? 0];
    return column === undefined ? [] : this.#cells(column);
  }

  cell(index: number, name: ColumnName): Cell {
    return this.column(name)[index] ?? 0;
  }

  cells(index: number): Cell[] {
    return this.#columns.map((column) => this.#cells(column)[index] ?? 0);
  }

  facts(index: number): SignalFacts {
    return decodeFacts((name) => this.cell(index, name));
  }

  /** @param cells in the order of COLUMNS; missing cells at the end are absent. */
  push(cells: readonly Cell[]): void {
    for (const [place, column] of this.#columns.entries()) this.#cells(column).push(cells[place] ?? 0);
    this.#length++;
  }

  with(changes: ReadonlyMap<number, SignalFacts>, firstSeq: number): Lines {
    const changed = [...changes].map(([seq, facts]) => ({ index: seq - firstSeq, cells: encodeFacts(facts) }));
    const columns = this.#columns.map((column, place) => {
      const before = this.#cells(column);
      const newCells = changed.filter(({ index, cells }) => cells[place] !== before[index]);
      if (newCells.length === 0 && column.text !== null) return column;
      const after = [...before];
      for (const { index, cells } of newCells) after[index] = cells[place] ?? 0;
      return { is: column.is, text: null, cells: after };
    });
    return new Lines(this.#length, columns);
  }

  /** Leaves out columns at the end that no line uses. */
  pack(): Uint8Array {
    const texts = this.#columns.map((column) => (column.text ??= textOfColumn(this.#cells(column), column.is)));
    while (texts.at(-1) === NO_CELLS) texts.pop();
    return compressed([String(this.#length), ...texts].join("\n"));
  }

  static unpack(bytes: ArrayBuffer): Lines {
    const [length, ...texts] = decompress(bytes).split("\n");
    return new Lines(
      Number(length),
      COLUMNS.map(({ is }, place) => ({ is, text: texts[place] ?? NO_CELLS, cells: null })),
    );
  }

  #cells(column: LinesColumn): Cell[] {
    return (column.cells ??= cellsOfText(column.text ?? NO_CELLS, column.is, this.#length));
  }
}

/** Numbers are stored as differences, which are short. A column of equal cells stores one. */
function textOfColumn(all: readonly Cell[], is: Column["is"]): string {
  const cells = all.every((cell) => cell === all[0]) ? all.slice(0, 1) : all;
  if (is === "text") return JSON.stringify(cells);
  return JSON.stringify(cells.map((cell, index) => Number(cell) - Number(cells[index - 1] ?? 0)));
}

function cellsOfText(text: string, is: Column["is"], length: number): Cell[] {
  const cells = JSON.parse(text) as Cell[];
  const [first = 0] = cells;
  // oxlint-disable-next-line unicorn/no-new-array -- Array.from takes ten times as long
  if (cells.length === 1) return new Array<Cell>(length).fill(first);
  if (is === "number") for (let at = 1; at < cells.length; at++) cells[at] = Number(cells[at]) + Number(cells[at - 1]);
  return cells;
}

// Payloads

/**
 * A payload repeats the names and the event of its line, so a mark stands for each. Valid JSON contains no control character.
 * Names are filled in in reverse order, because one may be part of another.
 */
const MARKS = [
  ["anonymousId", "\u001c"],
  ["userId", "\u001d"],
  ["email", "\u001f"],
  ["event", "\u001b"],
] as const satisfies [ColumnName, string][];
/** A shorter name may be in any word of the payload. */
const NAME_MIN_CHARACTERS = 6;
export const PAYLOAD_END = "\u001e";

type CellsOfLines = Pick<Lines, "cell">;

/** @param payloads null: not kept. No payload is empty. @param lines their names are left out of the payloads. */
export function packPayloads(payloads: readonly (string | null)[], lines: CellsOfLines): Uint8Array {
  const texts = payloads.map((payload, index) => {
    let text = payload ?? "";
    for (const [column, mark] of MARKS) {
      const name = textOf(lines.cell(index, column));
      if (name !== null && name.length >= NAME_MIN_CHARACTERS) text = text.replaceAll(name, mark);
    }
    return text;
  });
  return compressed(texts.join(PAYLOAD_END));
}

/**
 * Payloads as they were sent. Null: not kept, or the payload has a name that a deletion removed from the facts.
 *
 * @param indexes of the wanted payloads, in this order; all by default.
 */
export function unpackPayloads(
  bytes: ArrayBuffer | Uint8Array,
  lines: CellsOfLines,
  indexes?: readonly number[],
): (string | null)[] {
  const texts = decompress(bytes).split(PAYLOAD_END);
  return (indexes ?? [...texts.keys()]).map((index) => {
    let payload = texts[index] ?? "";
    for (const [column, mark] of MARKS.toReversed()) {
      if (!payload.includes(mark)) continue;
      const name = textOf(lines.cell(index, column));
      if (name === null) return null;
      payload = payload.replaceAll(mark, () => name);
    }
    return payload === "" ? null : payload;
  });
}

function compressed(text: string): Uint8Array {
  const bytes = compress(text);
  assertFits(bytes.length, "a segment");
  return bytes;
}

/** The platform rejects rows of more than 2 MB; workerd on a developer's machine does not. @throws Error for a longer row. */
export function assertFits(bytes: number, rowName: string): void {
  if (bytes > ROW_MAX_BYTES) throw new Error(`${rowName} would be a row of ${bytes} bytes`);
}
