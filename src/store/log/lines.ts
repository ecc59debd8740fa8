/**
 * Lines in memory and packed, column by column. A column is unpacked, and the facts of a line are assembled, on first use. A cell
 * is a number or a text; segments and the head store these cells.
 */
import { ADMITTED_VERDICTS } from "../../domain/quota/quota.ts";
import { ENDPOINT_TYPES, LINE_STATUSES, SIGNAL_KINDS, type LineStatus } from "../../domain/signal/signal.ts";
import { TRAIT_NAMES, type Traits } from "../../domain/signal/traits.ts";
import {
  ByteReader,
  ByteWriter,
  readUuid,
  UUID_BYTES,
  UUID_CHARACTERS,
  uuidMs,
  UuidTexts,
} from "../../platform/bytes.ts";
import type { Admission } from "../../wire/admission.ts";
import type { NamedBy } from "../protocol/stored-signals.ts";
import type { Facts, ListingId } from "./line.ts";

const NAMED_BY: readonly NamedBy[] = ["email", "user_id", "anonymous_id"];
/** The ids that list a line, by the number that the column holds. */
const LISTED_BY: readonly (readonly ListingId[])[] = [[], ["user_id"], ["anonymous_id"], ["user_id", "anonymous_id"]];

/** Names that the payload repeats. They never change while the payload is kept. */
export type PayloadNames = Pick<Facts, "userId" | "anonymousId">;

/** The value of a line in one column; 0: absent. */
export type Cell = number | string;

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
  return TRAIT_NAMES.some((trait) => traits[trait] !== undefined) ? JSON.stringify(traits) : 0;
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

export class Lines {
  #length: number;
  /** Both lists have the order of COLUMNS. A column that has a packed form is not changed in place. */
  readonly #cells: (Cell[] | undefined)[];
  readonly #packed: (PackedColumn | undefined)[];

  constructor(length = 0, packed: readonly (PackedColumn | undefined)[] = [], cells?: readonly (Cell[] | undefined)[]) {
    this.#length = length;
    this.#packed = [...packed];
    this.#cells =
      cells === undefined ? COLUMNS.map((_, place) => (packed[place] === undefined ? [] : undefined)) : [...cells];
  }

  get length(): number {
    return this.#length;
  }

  column(name: ColumnName): readonly Cell[] {
    return this.#column(placeOf(name));
  }

  packed(): PackedColumn[] {
    return COLUMNS.map(({ is }, place) => (this.#packed[place] ??= packColumn(this.#column(place), is)));
  }

  /** Adds a line. @param cells in the order of COLUMNS; missing cells at the end are absent. */
  push(cells: readonly Cell[]): void {
    for (let place = 0; place < COLUMNS.length; place++) this.#column(place).push(cells[place] ?? 0);
    this.#length++;
  }

  facts(index: number): Facts {
    return decodeFacts((name) => this.cell(index, name));
  }

  cell(index: number, name: ColumnName): Cell {
    return this.column(name)[index] ?? 0;
  }

  names(index: number): PayloadNames {
    return { userId: textOf(this.cell(index, "userId")), anonymousId: textOf(this.cell(index, "anonymousId")) };
  }

  cells(index: number): Cell[] {
    return COLUMNS.map((_, place) => this.#column(place)[index] ?? 0);
  }

  /** A copy with changed facts, by index of the line. */
  with(changes: ReadonlyMap<number, Facts>): Lines {
    const packed = [...this.#packed];
    const columns = COLUMNS.map((_, place) =>
      packed[place] === undefined ? [...this.#column(place)] : this.#cells[place],
    );
    for (const [index, facts] of changes) {
      for (const [place, cell] of encodeFacts(facts).entries()) {
        let column = columns[place] ?? this.#column(place);
        if (column[index] === cell) continue;
        if (packed[place] !== undefined) column = [...column];
        column[index] = cell;
        columns[place] = column;
        packed[place] = undefined;
      }
    }
    return new Lines(this.#length, packed, columns);
  }

  #column(place: number): Cell[] {
    const packed = this.#packed[place];
    const { is } = COLUMNS[place] ?? COLUMNS[0];
    return (this.#cells[place] ??= packed === undefined ? [] : unpackColumn(packed, is, this.#length));
  }
}

// A packed column: numbers as differences, UUIDs separately as bytes, each other text once. A column of equal cells stores one.

interface PackedColumn {
  /** Number of stored cells: 1 if all cells are equal. */
  stored: number;
  numbers: Uint8Array;
  ids: Uint8Array;
  uuids: Uint8Array;
  texts: readonly string[];
}

/** Codes of texts among the numbers. REPEATED and above refer to an earlier text of the column. */
const [ABSENT, NEW, NEW_UUID, SIGNAL_ID, REPEATED] = [0, 1, 2, 3, 4] as const;
const ID_PREFIX = "sig_";
const ID_CHARACTERS = ID_PREFIX.length + UUID_CHARACTERS;
const TIME_DIGITS = 12;

const NO_TEXTS: readonly string[] = [];
const uuid = new Uint8Array(UUID_BYTES);
const withoutTime = uuid.subarray(6);
/** Shared writers. This is safe because packing is synchronous. */
const [numbers, ids, uuids] = [new ByteWriter(), new ByteWriter(), new ByteWriter()];

function packColumn(all: readonly Cell[], is: "number" | "text"): PackedColumn {
  for (const writer of [numbers, ids, uuids]) writer.clear();
  const cells = all.every((cell) => cell === all[0]) ? all.slice(0, 1) : all;
  const texts = is === "text" ? writeTexts(cells) : writeNumbers(cells);
  return { stored: cells.length, numbers: numbers.copy(), ids: ids.copy(), uuids: uuids.copy(), texts };
}

function unpackColumn(packed: PackedColumn, is: "number" | "text", count: number): Cell[] {
  const cells = is === "text" ? readTexts(packed) : readNumbers(packed);
  const [first = 0] = cells;
  while (cells.length < count) cells.push(first);
  return cells;
}

function writeNumbers(cells: readonly Cell[]): readonly string[] {
  let before = 0;
  for (const cell of cells) {
    const value = Number(cell);
    numbers.number(value - before);
    before = value;
  }
  return NO_TEXTS;
}

function readNumbers(packed: PackedColumn): Cell[] {
  const differences = new ByteReader(packed.numbers);
  const cells: Cell[] = [];
  for (let value = 0; cells.length < packed.stored;) cells.push((value += differences.number()));
  return cells;
}

function writeTexts(cells: readonly Cell[]): string[] {
  const texts: string[] = [];
  const places = new Map<Cell, number>();
  let beforeMs = 0;
  for (const cell of cells) {
    if (typeof cell === "number") {
      numbers.number(ABSENT);
      continue;
    }
    if (cell.length === ID_CHARACTERS && cell.startsWith(ID_PREFIX) && readUuid(cell, ID_PREFIX.length, uuid)) {
      const ms = uuidMs(uuid);
      numbers.number(SIGNAL_ID);
      numbers.number(ms - beforeMs);
      ids.append(withoutTime);
      beforeMs = ms;
      continue;
    }
    const known = places.get(cell);
    if (known !== undefined) {
      numbers.number(REPEATED + known);
      continue;
    }
    places.set(cell, places.size);
    const isUuid = cell.length === UUID_CHARACTERS && uuids.uuid(cell, 0);
    numbers.number(isUuid ? NEW_UUID : NEW);
    if (!isUuid) texts.push(cell);
  }
  return texts;
}

function readTexts(packed: PackedColumn): Cell[] {
  const codes = new ByteReader(packed.numbers);
  const idEnds = new UuidTexts(packed.ids, withoutTime.length);
  const uuidTexts = new UuidTexts(packed.uuids, UUID_BYTES);
  const texts = packed.texts.values();
  const [cells, known]: [Cell[], string[]] = [[], []];
  let [ms, idBegin] = [0, ""];
  while (cells.length < packed.stored) {
    const code = codes.number();
    if (code === ABSENT) cells.push(0);
    else if (code === SIGNAL_ID) {
      const later = codes.number();
      if (later !== 0 || idBegin === "") {
        ms += later;
        const digits = ms.toString(16).padStart(TIME_DIGITS, "0");
        idBegin = `${ID_PREFIX}${digits.slice(0, 8)}-${digits.slice(8)}-`;
      }
      cells.push(idBegin + idEnds.next());
    } else if (code >= REPEATED) cells.push(known[code - REPEATED] ?? 0);
    else {
      const text = code === NEW ? String(texts.next().value) : uuidTexts.next();
      known.push(text);
      cells.push(text);
    }
  }
  return cells;
}
