/** Lines in memory, column by column: a column is unpacked, and a line's facts are put together, when somebody asks for them. */
import {
  ByteReader,
  ByteWriter,
  readUuid,
  UUID_BYTES,
  UUID_CHARACTERS,
  uuidMs,
  UuidTexts,
} from "../../platform/bytes.ts";
import {
  type Cell,
  type ColumnName,
  COLUMNS,
  decodeFacts,
  encodeFacts,
  type PayloadNames,
  placeOf,
  textOf,
} from "./line-cells.ts";
import type { Facts } from "./line.ts";

export class Lines {
  #length: number;
  /** Cells in the order of COLUMNS, one for every line; a column that is packed does not change any more. */
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

  /** The columns packed, in the order of COLUMNS. */
  packed(): PackedColumn[] {
    return COLUMNS.map(({ is }, place) => (this.#packed[place] ??= packColumn(this.#column(place), is)));
  }

  /** Adds a line. @param cells in the order of COLUMNS; what is missing at their end is absent. */
  push(cells: readonly Cell[]): void {
    for (let place = 0; place < COLUMNS.length; place++) this.#column(place).push(cells[place] ?? 0);
    this.#length++;
  }

  /** @param index of a line that is there. */
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

  /** The same lines, but for those with other facts, by their index. */
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

// A column of a segment's lines as bytes: numbers as their differences, UUIDs apart, as they are, other texts once each. What
// is said of every line alike is said once.

interface PackedColumn {
  /** How many cells are written: one, where all are alike. */
  said: number;
  numbers: Uint8Array;
  /** What follows the time in the ids of signals. */
  ids: Uint8Array;
  uuids: Uint8Array;
  texts: readonly string[];
}

/** How a text stands among the numbers; HAD and above name one that the column has had already. */
const [ABSENT, NEW, NEW_UUID, SIGNAL_ID, HAD] = [0, 1, 2, 3, 4] as const;
const ID_PREFIX = "sig_";
const ID_CHARACTERS = ID_PREFIX.length + UUID_CHARACTERS;
const TIME_DIGITS = 12;

const NO_TEXTS: readonly string[] = [];
const uuid = new Uint8Array(UUID_BYTES);
/** What follows the time in a UUID of version 7. */
const withoutTime = uuid.subarray(6);
/** These writers are used again and again, which is safe because nothing here waits for anything. */
const [numbers, ids, uuids] = [new ByteWriter(), new ByteWriter(), new ByteWriter()];

function packColumn(all: readonly Cell[], is: "number" | "text"): PackedColumn {
  for (const writer of [numbers, ids, uuids]) writer.clear();
  const cells = isOne(all) ? all.slice(0, 1) : all;
  const texts = is === "text" ? writeTexts(cells) : writeNumbers(cells);
  return { said: cells.length, numbers: numbers.copy(), ids: ids.copy(), uuids: uuids.copy(), texts };
}

/** Reads a column back. @param count of lines. */
function unpackColumn(packed: PackedColumn, is: "number" | "text", count: number): Cell[] {
  const cells = is === "text" ? readTexts(packed) : readNumbers(packed);
  const [first = 0] = cells;
  while (cells.length < count) cells.push(first);
  return cells;
}

function isOne(cells: readonly Cell[]): boolean {
  const [first] = cells;
  for (const cell of cells) if (cell !== first) return false;
  return true;
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
  for (let value = 0; cells.length < packed.said;) cells.push((value += differences.number()));
  return cells;
}

function writeTexts(cells: readonly Cell[]): string[] {
  const texts: string[] = [];
  const had = new Map<Cell, number>();
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
    const known = had.get(cell);
    if (known !== undefined) {
      numbers.number(HAD + known);
      continue;
    }
    had.set(cell, had.size);
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
  const [cells, had]: [Cell[], string[]] = [[], []];
  let [ms, idBegin] = [0, ""];
  while (cells.length < packed.said) {
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
    } else if (code >= HAD) cells.push(had[code - HAD] ?? 0);
    else {
      const text = code === NEW ? String(texts.next().value) : uuidTexts.next();
      had.push(text);
      cells.push(text);
    }
  }
  return cells;
}
