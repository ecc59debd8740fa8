/**
 * Packs the lines of a segment into bytes and unpacks them. UUIDs do not compress, so they are stored separately as bytes; zstd
 * compresses the rest. The first byte tells the format.
 */
import { ROW_MAX_BYTES } from "../../limits.ts";
import { zlib } from "../../platform/node.ts";
import { ByteReader, ByteWriter, UUID_BYTES, UUID_CHARACTERS, UuidTexts } from "../../platform/bytes.ts";
import { COLUMNS, Lines, type PayloadNames } from "./lines.ts";

const ZSTD = 1;
const BROTLI = 2;
/** Levels of zstd. A higher level for payloads is slower and saves nothing. */
const [LINES_LEVEL, PAYLOADS_LEVEL] = [3, 1] as const;
/** At this level brotli is as fast as zstd for bytes that hardly compress. */
const BROTLI_QUALITY = 3;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Valid JSON text never contains these control characters. A mark replaces a UUID; the digit after the mark tells the source of
 * the UUID: the list of UUIDs, or a name in the facts.
 */
const [MARK, PAYLOAD_END] = ["\u001a", "\u001e"] as const;
const [LISTED_UUID, USER_ID, ANONYMOUS_ID] = ["0", "1", "2"] as const;
/** Position of the first hyphen in a UUID, and the distances of the next two hyphens from the first. */
const [HYPHEN_AT, SECOND_HYPHEN, THIRD_HYPHEN] = [8, 5, 10] as const;

export function packLines(lines: Lines): Uint8Array {
  const columns = lines.packed();
  const [rest, raw] = [new ByteWriter(), new ByteWriter()];
  rest.number(lines.length);
  for (const { stored, numbers, ids, uuids, texts } of columns) {
    for (const length of [stored, numbers.length, ids.length, uuids.length, texts.length]) rest.number(length);
  }
  for (const { numbers, ids, uuids } of columns) {
    rest.append(numbers);
    raw.append(ids);
    raw.append(uuids);
  }
  rest.append(encoder.encode(JSON.stringify(columns.flatMap(({ texts }) => texts))));
  return pack(raw.bytes, rest.bytes, LINES_LEVEL);
}

export function unpackLines(bytes: ArrayBuffer): Lines {
  const { raw, rest } = unpack(new Uint8Array(bytes));
  const [numbers, uuids] = [new ByteReader(rest), new ByteReader(raw)];
  const count = numbers.number();
  const lengths = COLUMNS.map(() => ({
    stored: numbers.number(),
    numbers: numbers.number(),
    ids: numbers.number(),
    uuids: numbers.number(),
    texts: numbers.number(),
  }));
  const columns = lengths.map((length) => ({
    stored: length.stored,
    numbers: numbers.take(length.numbers),
    ids: uuids.take(length.ids),
    uuids: uuids.take(length.uuids),
    texts: length.texts,
  }));
  const texts = JSON.parse(decoder.decode(numbers.rest())) as string[];
  let taken = 0;
  return new Lines(
    count,
    columns.map((column) => ({ ...column, texts: texts.slice(taken, (taken += column.texts)) })),
  );
}

/**
 * Packs the payloads of a segment.
 *
 * @param payloads null: not kept. No payload is empty.
 * @param lines the names of each line are left out of its payload. They never change while the payload is kept.
 */
export function packPayloads(payloads: readonly (string | null)[], lines: Lines): Uint8Array {
  const uuids = new ByteWriter();
  const texts = payloads.map((payload, index) =>
    payload === null ? "" : withoutUuids(payload, lines.names(index), uuids),
  );
  return pack(uuids.bytes, encoder.encode(texts.join(PAYLOAD_END)), PAYLOADS_LEVEL);
}

/** Payloads as they were sent. Null: not kept, or the payload has a name that a deletion removed from the facts. */
export function unpackPayloads(bytes: ArrayBuffer | Uint8Array, lines: Pick<Lines, "names">): (string | null)[] {
  const { raw, rest } = unpack(new Uint8Array(bytes));
  const uuids = new UuidTexts(raw, UUID_BYTES);
  const texts = decoder.decode(rest).split(PAYLOAD_END);
  return texts.map((text, index) => (text === "" ? null : withUuids(text, lines.names(index), uuids)));
}

/** The platform refuses rows of more than 2 MB; workerd on a developer's machine does not. @throws Error for a longer row. */
export function assertFits(bytes: number, rowName: string): void {
  if (bytes > ROW_MAX_BYTES) throw new Error(`${rowName} would be a row of ${bytes} bytes`);
}

/** Moves the UUIDs of a payload to `uuids`. Looks for hyphens, which are rarer than hexadecimal digits. */
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
