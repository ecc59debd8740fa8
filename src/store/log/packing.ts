/**
 * How lines of a segment become bytes, and come back. UUIDs, which hardly repeat themselves, stand apart, as they are; the
 * rest is compressed. The first byte tells the format.
 */
import { ROW_MAX_BYTES } from "../../limits.ts";
import { zlib } from "../../platform/node.ts";
import { ByteReader, ByteWriter, UUID_BYTES, UUID_CHARACTERS, UuidTexts, readUuid, uuidMs } from "../bytes.ts";
import { COLUMNS } from "./line.ts";
import type { Cell, Names } from "./line.ts";
import { Lines } from "./lines.ts";

const ZSTD = 1;
const GZIP = 2;
/** The default, 3, takes a quarter longer and is no smaller for texts like these. */
const ZSTD_LEVEL = 1;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** How a text stands in its column; from then on, it is one that the column has had already. */
const [ABSENT, NEW, NEW_UUID, SIGNAL_ID, HAD] = [0, 1, 2, 3, 4] as const;
const SIGNAL_ID_PREFIX = "sig_";
const SIGNAL_ID_CHARACTERS = SIGNAL_ID_PREFIX.length + UUID_CHARACTERS;

/** No JSON text holds these, so that payloads stay as they were sent. A UUID is a mark and which one: a new one, or a name. */
const [MARK, PAYLOAD_END] = ["\u001a", "\u001e"] as const;
const [OTHER, USER_ID, ANONYMOUS_ID] = ["0", "1", "2"] as const;
/** Where the first hyphen of a UUID stands in it, and how far the next two are from it. */
const [HYPHEN_AT, SECOND_HYPHEN, THIRD_HYPHEN] = [8, 5, 10] as const;

/** Where the cells of columns go: what is like numbers, what follows the time in signals' ids, other UUIDs, other texts. */
interface Packed<Bytes, Texts, Uuids = Bytes> {
  numbers: Bytes;
  ids: Uuids;
  uuids: Uuids;
  texts: Texts;
}

const uuid = new Uint8Array(UUID_BYTES);
/** Of a UUID of version 7: what comes before it is its time. */
const withoutTime = uuid.subarray(6);
const TIME_DIGITS = 12;

/** Column by column: what stands one after the other is alike then. */
export function packLines(lines: Lines): Uint8Array {
  const into: Packed<ByteWriter, string[]> = {
    numbers: new ByteWriter(),
    ids: new ByteWriter(),
    uuids: new ByteWriter(),
    texts: [],
  };
  const { numbers, ids, uuids, texts } = into;
  numbers.number(lines.length);
  for (const { name, is } of COLUMNS) {
    const all = lines.column(name);
    // A column that says the same of every line says it once.
    const cells = all.every((cell) => cell === all[0]) ? all.slice(0, 1) : all;
    numbers.number(cells.length);
    if (is === "text") packTexts(cells, into);
    else packNumbers(cells, numbers);
  }
  const rest = new ByteWriter();
  rest.number(ids.bytes.length);
  rest.number(numbers.bytes.length);
  rest.append(numbers.bytes);
  rest.append(encoder.encode(JSON.stringify(texts)));
  ids.append(uuids.bytes);
  return pack(ids.bytes, rest.bytes);
}

export function unpackLines(bytes: ArrayBuffer): Lines {
  const { raw, rest } = unpack(new Uint8Array(bytes));
  const [reader, rawReader] = [new ByteReader(rest), new ByteReader(raw)];
  const ids = new UuidTexts(rawReader.take(reader.number()), withoutTime.length);
  const uuids = new UuidTexts(rawReader.rest(), UUID_BYTES);
  const numbers = new ByteReader(reader.take(reader.number()));
  const texts = (JSON.parse(decoder.decode(reader.rest())) as string[]).values();
  const count = numbers.number();
  return new Lines(
    COLUMNS.map(({ is }) => {
      const said = numbers.number();
      const cells = is === "text" ? unpackTexts(said, { numbers, ids, uuids, texts }) : unpackNumbers(said, numbers);
      return said === count ? cells : Array.from({ length: count }, () => cells[0] ?? 0);
    }),
  );
}

/**
 * @param payloads null: not kept. No payload is empty.
 * @param lines whose names are left out of what they sent: these never become other ones, and go with it.
 */
export function packPayloads(payloads: readonly (string | null)[], lines: Lines): Uint8Array {
  const uuids = new ByteWriter();
  const texts = payloads.map((payload, index) =>
    payload === null ? "" : withoutUuids(payload, lines.names(index), uuids),
  );
  return pack(uuids.bytes, encoder.encode(texts.join(PAYLOAD_END)));
}

/** Null: not kept; or it had a name of which nothing is left. */
export function unpackPayloads(bytes: ArrayBuffer | Uint8Array, lines: Pick<Lines, "names">): (string | null)[] {
  const { raw, rest } = unpack(new Uint8Array(bytes));
  const uuids = new UuidTexts(raw, UUID_BYTES);
  const texts = decoder.decode(rest).split(PAYLOAD_END);
  return texts.map((text, index) => (text === "" ? null : withUuids(text, lines.names(index), uuids)));
}

/** The platform refuses a row of more than 2 MB, which workerd takes. @throws Error where one would be too long. */
export function assertFits(bytes: number, what: string): void {
  if (bytes > ROW_MAX_BYTES) throw new Error(`${what} would be a row of ${bytes} bytes`);
}

/** As differences: what counts up, or stays the same, is the same again and again. */
function packNumbers(cells: readonly Cell[], into: ByteWriter): void {
  let before = 0;
  for (const cell of cells) {
    const value = Number(cell);
    into.number(value - before);
    before = value;
  }
}

function unpackNumbers(count: number, from: ByteReader): Cell[] {
  const cells: Cell[] = [];
  for (let value = 0; cells.length < count;) cells.push((value += from.number()));
  return cells;
}

function packTexts(cells: readonly Cell[], { numbers, ids, uuids, texts }: Packed<ByteWriter, string[]>): void {
  const had = new Map<Cell, number>();
  let beforeMs = 0;
  for (const cell of cells) {
    if (typeof cell === "number") {
      numbers.number(ABSENT);
      continue;
    }
    if (cell.length === SIGNAL_ID_CHARACTERS && cell.startsWith(SIGNAL_ID_PREFIX)) {
      if (readUuid(cell, SIGNAL_ID_PREFIX.length, uuid)) {
        const ms = uuidMs(uuid);
        numbers.number(SIGNAL_ID);
        numbers.number(ms - beforeMs);
        ids.append(withoutTime);
        beforeMs = ms;
        continue;
      }
    }
    const known = had.get(cell);
    if (known !== undefined) {
      numbers.number(HAD + known);
      continue;
    }
    had.set(cell, had.size);
    if (cell.length === UUID_CHARACTERS && readUuid(cell, 0, uuid)) {
      numbers.number(NEW_UUID);
      uuids.append(uuid);
    } else {
      numbers.number(NEW);
      texts.push(cell);
    }
  }
}

function unpackTexts(
  count: number,
  { numbers, ids, uuids, texts }: Packed<ByteReader, Iterator<string>, UuidTexts>,
): Cell[] {
  const [cells, had]: [Cell[], string[]] = [[], []];
  let [ms, time] = [0, ""];
  while (cells.length < count) {
    const what = numbers.number();
    if (what === ABSENT) cells.push(0);
    else if (what === SIGNAL_ID) {
      const later = numbers.number();
      if (later !== 0 || time === "") {
        ms += later;
        const digits = ms.toString(16).padStart(TIME_DIGITS, "0");
        time = `${SIGNAL_ID_PREFIX}${digits.slice(0, 8)}-${digits.slice(8)}-`;
      }
      cells.push(time + ids.next());
    } else if (what >= HAD) cells.push(had[what - HAD] ?? 0);
    else {
      const text = what === NEW ? String(texts.next().value) : uuids.next();
      had.push(text);
      cells.push(text);
    }
  }
  return cells;
}

/** By their hyphens, which are rarer than their digits. */
function withoutUuids(payload: string, { userId, anonymousId }: Names, uuids: ByteWriter): string {
  let [text, taken] = ["", 0];
  for (let at = payload.indexOf("-", HYPHEN_AT); at !== -1; at = payload.indexOf("-", at + 1)) {
    const from = at - HYPHEN_AT;
    if (from < taken || payload[at + SECOND_HYPHEN] !== "-" || payload[at + THIRD_HYPHEN] !== "-") continue;
    if (!readUuid(payload, from, uuid)) continue;
    text += payload.slice(taken, from);
    taken = from + UUID_CHARACTERS;
    const found = payload.slice(from, taken);
    const which = found === anonymousId ? ANONYMOUS_ID : found === userId ? USER_ID : OTHER;
    if (which === OTHER) uuids.append(uuid);
    text += MARK + which;
    at = taken - 1;
  }
  return taken === 0 ? payload : text + payload.slice(taken);
}

function withUuids(text: string, { userId, anonymousId }: Names, uuids: UuidTexts): string | null {
  let [payload, taken]: [string | null, number] = ["", 0];
  for (let at = text.indexOf(MARK); at !== -1; at = text.indexOf(MARK, taken)) {
    const which = text[at + 1];
    // Also where a name is gone: the next one is another line's.
    const found = which === OTHER ? uuids.next() : which === USER_ID ? userId : anonymousId;
    payload = payload === null || found === null ? null : payload + text.slice(taken, at) + found;
    taken = at + 2;
  }
  return payload === null ? null : payload + text.slice(taken);
}

function pack(raw: Uint8Array, rest: Uint8Array): Uint8Array {
  const { format, bytes } = compressed(rest);
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
  if (format !== ZSTD && format !== GZIP) throw new Error(`a segment has the unknown format ${format}`);
  const { gunzipSync, zstdDecompressSync } = zlib();
  return { raw, rest: format === ZSTD ? zstdDecompressSync(rest) : gunzipSync(rest) };
}

/** The runtime's zstd fails where the result is longer than 40 KB (cloudflare/workerd#6769): what hardly repeats itself. */
function compressed(bytes: Uint8Array): { format: number; bytes: Uint8Array } {
  const { constants, gzipSync, zstdCompressSync } = zlib();
  try {
    const params = { [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL };
    return { format: ZSTD, bytes: zstdCompressSync(bytes, { params }) };
  } catch {
    return { format: GZIP, bytes: gzipSync(bytes) };
  }
}
