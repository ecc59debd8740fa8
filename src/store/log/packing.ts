/**
 * Packs the columns and the payloads of a segment into bytes, and unpacks them. UUIDs do not compress, so they are stored separately as
 * bytes; zstd compresses the rest. The first byte tells the format.
 */
import { ROW_MAX_BYTES } from "../../limits.ts";
import {
  ByteReader,
  ByteWriter,
  readUuid,
  UUID_BYTES,
  UUID_CHARACTERS,
  uuidMs,
  UuidTexts,
} from "../../platform/bytes.ts";
import { zlib } from "../../platform/node.ts";

/** The value of a line in one column; 0: absent. */
export type Cell = number | string;

/** Numbers are stored as differences, UUIDs separately as bytes, each other text once. A column of equal cells stores one. */
export interface PackedColumn {
  stored: number;
  numbers: Uint8Array;
  ids: Uint8Array;
  uuids: Uint8Array;
  texts: readonly string[];
}

/** Names that the payload repeats. They never change while the payload is kept. */
export interface PayloadNames {
  userId: string | null;
  anonymousId: string | null;
}

interface NamesOfLines {
  names(index: number): PayloadNames;
}

const ZSTD = 1;
const BROTLI = 2;
/** Levels of zstd. A higher level for payloads is slower and saves nothing. */
const [LINES_LEVEL, PAYLOADS_LEVEL] = [3, 1] as const;
/** At this level brotli is as fast as zstd for bytes that hardly compress. */
const BROTLI_QUALITY = 3;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

// Columns

/** Codes of texts among the numbers. REPEATED and above refer to an earlier text of the column. */
const [ABSENT, NEW, NEW_UUID, SIGNAL_ID, REPEATED] = [0, 1, 2, 3, 4] as const;
const ID_PREFIX = "sig_";
const ID_CHARACTERS = ID_PREFIX.length + UUID_CHARACTERS;
const TIME_DIGITS = 12;

const uuid = new Uint8Array(UUID_BYTES);
const withoutTime = uuid.subarray(6);
/** All columns share these writers, because packing is synchronous. */
const column = { numbers: new ByteWriter(), ids: new ByteWriter(), uuids: new ByteWriter() };

export function packColumn(all: readonly Cell[], is: "number" | "text"): PackedColumn {
  const { numbers, ids, uuids } = column;
  for (const writer of [numbers, ids, uuids]) writer.clear();
  const cells = all.every((cell) => cell === all[0]) ? all.slice(0, 1) : all;
  const texts = is === "text" ? writeTexts(cells) : writeNumbers(cells);
  return { stored: cells.length, numbers: numbers.copy(), ids: ids.copy(), uuids: uuids.copy(), texts };
}

export function unpackColumn(packed: PackedColumn, is: "number" | "text", count: number): Cell[] {
  const cells = is === "text" ? readTexts(packed) : readNumbers(packed);
  const [first = 0] = cells;
  while (cells.length < count) cells.push(first);
  return cells;
}

function writeNumbers(cells: readonly Cell[]): string[] {
  const { numbers } = column;
  let before = 0;
  for (const cell of cells) {
    const value = Number(cell);
    numbers.number(value - before);
    before = value;
  }
  return [];
}

function readNumbers(packed: PackedColumn): Cell[] {
  const differences = new ByteReader(packed.numbers);
  const cells: Cell[] = [];
  for (let value = 0; cells.length < packed.stored;) cells.push((value += differences.number()));
  return cells;
}

function writeTexts(cells: readonly Cell[]): string[] {
  const { numbers, ids, uuids } = column;
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

export function packColumns(columns: readonly PackedColumn[], length: number): Uint8Array {
  const [rest, raw] = [new ByteWriter(), new ByteWriter()];
  rest.number(columns.length);
  rest.number(length);
  for (const { stored, numbers, ids, uuids, texts } of columns) {
    for (const count of [stored, numbers.length, ids.length, uuids.length, texts.length]) rest.number(count);
  }
  for (const { numbers, ids, uuids } of columns) {
    rest.append(numbers);
    raw.append(ids);
    raw.append(uuids);
  }
  rest.append(encoder.encode(JSON.stringify(columns.flatMap(({ texts }) => texts))));
  return pack(raw.bytes, rest.bytes, LINES_LEVEL);
}

/** Does not unpack the cells of the columns: most readers need a few columns. */
export function unpackColumns(bytes: ArrayBuffer): { length: number; columns: PackedColumn[] } {
  const { raw, rest } = unpack(new Uint8Array(bytes));
  const [numbers, uuids] = [new ByteReader(rest), new ByteReader(raw)];
  const [count, length] = [numbers.number(), numbers.number()];
  const sizes = Array.from({ length: count }, () => ({
    stored: numbers.number(),
    numbers: numbers.number(),
    ids: numbers.number(),
    uuids: numbers.number(),
    texts: numbers.number(),
  }));
  const columns = sizes.map((size) => ({
    stored: size.stored,
    numbers: numbers.take(size.numbers),
    ids: uuids.take(size.ids),
    uuids: uuids.take(size.uuids),
    texts: size.texts,
  }));
  const texts = JSON.parse(decoder.decode(numbers.rest())) as string[];
  let taken = 0;
  return {
    length,
    columns: columns.map((packed) => ({ ...packed, texts: texts.slice(taken, (taken += packed.texts)) })),
  };
}

// Payloads

/** Valid JSON never contains these control characters. A mark replaces a UUID; the digit after it tells the source of the UUID. */
const [MARK, PAYLOAD_END] = ["\u001a", "\u001e"] as const;
const [LISTED_UUID, USER_ID, ANONYMOUS_ID] = ["0", "1", "2"] as const;
/** Position of the first hyphen in a UUID, and the distances of the next two hyphens from the first. */
const [HYPHEN_AT, SECOND_HYPHEN, THIRD_HYPHEN] = [8, 5, 10] as const;

/** @param payloads null: not kept. No payload is empty. @param lines their names are left out of the payloads. */
export function packPayloads(payloads: readonly (string | null)[], lines: NamesOfLines): Uint8Array {
  const uuids = new ByteWriter();
  const texts = payloads.map((payload, index) =>
    payload === null ? "" : withoutUuids(payload, lines.names(index), uuids),
  );
  return pack(uuids.bytes, encoder.encode(texts.join(PAYLOAD_END)), PAYLOADS_LEVEL);
}

/** Payloads as they were sent. Null: not kept, or the payload has a name that a deletion removed from the facts. */
export function unpackPayloads(bytes: ArrayBuffer | Uint8Array, lines: NamesOfLines): (string | null)[] {
  const { raw, rest } = unpack(new Uint8Array(bytes));
  const uuids = new UuidTexts(raw, UUID_BYTES);
  const texts = decoder.decode(rest).split(PAYLOAD_END);
  return texts.map((text, index) => (text === "" ? null : withUuids(text, lines.names(index), uuids)));
}

/** The platform refuses rows of more than 2 MB; workerd on a developer's machine does not. @throws Error for a longer row. */
export function assertFits(bytes: number, rowName: string): void {
  if (bytes > ROW_MAX_BYTES) throw new Error(`${rowName} would be a row of ${bytes} bytes`);
}

/** Looks for hyphens, which are rarer than hexadecimal digits. */
function withoutUuids(payload: string, names: PayloadNames, uuids: ByteWriter): string {
  let [text, taken] = ["", 0];
  for (let at = payload.indexOf("-", HYPHEN_AT); at !== -1; at = payload.indexOf("-", at + 1)) {
    const from = at - HYPHEN_AT;
    if (from < taken || payload[at + SECOND_HYPHEN] !== "-" || payload[at + THIRD_HYPHEN] !== "-") continue;
    const name = nameAt(payload, from, names);
    if (name === null && !uuids.uuid(payload, from)) continue;
    text += payload.slice(taken, from) + MARK + (name ?? LISTED_UUID);
    taken = from + UUID_CHARACTERS;
    at = taken - 1;
  }
  return taken === 0 ? payload : text + payload.slice(taken);
}

function nameAt(payload: string, from: number, { userId, anonymousId }: PayloadNames): string | null {
  const isAt = (name: string | null): boolean => name?.length === UUID_CHARACTERS && payload.startsWith(name, from);
  if (isAt(anonymousId)) return ANONYMOUS_ID;
  return isAt(userId) ? USER_ID : null;
}

function withUuids(text: string, { userId, anonymousId }: PayloadNames, uuids: UuidTexts): string | null {
  let [payload, taken]: [string | null, number] = ["", 0];
  for (let at = text.indexOf(MARK); at !== -1; at = text.indexOf(MARK, taken)) {
    const source = text[at + 1];
    // Take the UUID even if a name is gone, because the next UUID belongs to the next line.
    const found = source === LISTED_UUID ? uuids.next() : source === USER_ID ? userId : anonymousId;
    payload = payload === null || found === null ? null : payload + text.slice(taken, at) + found;
    taken = at + 2;
  }
  return payload === null ? null : payload + text.slice(taken);
}

function pack(raw: Uint8Array, rest: Uint8Array, level: number): Uint8Array {
  const { format, bytes } = compressed(rest, level);
  const all = new ByteWriter();
  all.number(format);
  all.number(raw.length);
  all.number(bytes.length);
  all.append(raw);
  all.append(bytes);
  assertFits(all.bytes.length, "a segment");
  return all.bytes;
}

function unpack(packed: Uint8Array): { raw: Uint8Array; rest: Uint8Array } {
  const reader = new ByteReader(packed);
  const format = reader.number();
  const [rawLength, restLength] = [reader.number(), reader.number()];
  const [raw, rest] = [reader.take(rawLength), reader.take(restLength)];
  if (format !== ZSTD && format !== BROTLI) throw new Error(`a segment has the unknown format ${format}`);
  const { brotliDecompressSync, zstdDecompressSync } = zlib();
  return { raw, rest: format === ZSTD ? zstdDecompressSync(rest) : brotliDecompressSync(rest) };
}

/** The zstd of the runtime fails if the result is longer than 40 KB (cloudflare/workerd#6769); then brotli is used. */
function compressed(bytes: Uint8Array, level: number): { format: number; bytes: Uint8Array } {
  const { brotliCompressSync, constants, zstdCompressSync } = zlib();
  try {
    const params = { [constants.ZSTD_c_compressionLevel]: level };
    return { format: ZSTD, bytes: zstdCompressSync(bytes, { params }) };
  } catch {
    const params = { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY };
    return { format: BROTLI, bytes: brotliCompressSync(bytes, { params }) };
  }
}
