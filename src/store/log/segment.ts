/** Segments: hundreds of consecutive lines, compressed. What their rows hold, and how lines become bytes and come back. */
import { ROW_MAX_BYTES } from "../../limits.ts";
import { zlib } from "../../platform/node.ts";
import { decodeFacts, eventText, statusLetter } from "./line.ts";
import type { Facts } from "./line.ts";

/** No JSON text holds one, so that payloads stay as they were sent. */
const PAYLOAD_END = "\u001e";
/** The default, 3, takes a quarter longer and is no smaller for texts like these. */
const ZSTD_LEVEL = 1;
const GZIP_MAGIC = [0x1f, 0x8b] as const;
const decoder = new TextDecoder();

/** Bytes of a content hash that are kept of each line; all zero where it is no original. The first bit: see originals.ts. */
export const HASH_BYTES = 10;

/** What can be said of a segment without reading its lines. */
export interface SegmentRow {
  [column: string]: SqlStorageValue;
  first_seq: number;
  last_seq: number;
  /** The span of the times that the signals' ids tell, but for those in `late`. */
  first_ms: number;
  last_ms: number;
  /** The span of their receipts, and of their ordinals. */
  received_from: number;
  received_to: number;
  ordinal_from: number;
  ordinal_to: number;
  /** The earliest end of a billing period among lines that are held; where none is, the latest of all. */
  period_end: number;
  /** JSON: `[event, source]` of each group that has lines here. */
  groups: string;
  /** Letters of the statuses that lines have. */
  statuses: string;
  /** The object in R2 that has the payloads, and where in it; null: they are here, or nowhere. */
  cold: string | null;
  cold_offset: number;
  cold_bytes: number;
}

/** Lines as they are read: of a sealed segment, or those that are still open. */
export class Segment {
  readonly firstSeq: number;
  /** Facts, each as its text. */
  readonly texts: readonly string[];
  /** How often it has been rewritten; what was read before an `await` is read again where this has moved. */
  readonly version: number;
  /** Null while it is open. */
  readonly row: SegmentRow | null;

  constructor(firstSeq: number, texts: readonly string[], version: number, row: SegmentRow | null) {
    this.firstSeq = firstSeq;
    this.texts = texts;
    this.version = version;
    this.row = row;
  }

  get lastSeq(): number {
    return this.firstSeq + this.texts.length - 1;
  }

  /** @throws when the line is none of this segment. */
  facts(seq: number): Facts {
    const text = this.texts[seq - this.firstSeq];
    if (text === undefined) throw new Error(`line ${seq} is not in the segment of ${this.firstSeq}`);
    return decodeFacts(text);
  }

  /** Numbers of the lines that may be of this event: few others are among them. */
  *seqsAbout(event: string): Generator<number> {
    const part = eventText(event);
    for (const [index, text] of this.texts.entries()) if (text.includes(part)) yield this.firstSeq + index;
  }

  /** Numbers of the lines whose texts fit. */
  *seqsFitting(pattern: RegExp): Generator<number> {
    for (const [index, text] of this.texts.entries()) if (pattern.test(text)) yield this.firstSeq + index;
  }
}

export function compressFacts(texts: readonly string[]): Uint8Array {
  return compressed(texts.join("\n"));
}

export function expandFacts(bytes: ArrayBuffer): string[] {
  return expanded(bytes).split("\n");
}

/** Null: not kept. No payload is empty. */
export function compressPayloads(payloads: readonly (string | null)[]): Uint8Array {
  return compressed(joinPayloads(payloads));
}

export function expandPayloads(bytes: ArrayBuffer | Uint8Array): (string | null)[] {
  return splitPayloads(expanded(bytes));
}

export function joinPayloads(payloads: readonly (string | null)[]): string {
  return payloads.map((payload) => payload ?? "").join(PAYLOAD_END);
}

export function splitPayloads(text: string): (string | null)[] {
  return text.split(PAYLOAD_END).map((payload) => (payload === "" ? null : payload));
}

/** What a segment's row says of its lines. */
export function summarise(
  facts: readonly Facts[],
): Pick<
  SegmentRow,
  "received_from" | "received_to" | "ordinal_from" | "ordinal_to" | "period_end" | "groups" | "statuses"
> {
  const groups = new Set<string>();
  const statuses = new Set<string>();
  const row = {
    received_from: Number.MAX_SAFE_INTEGER,
    received_to: 0,
    ordinal_from: Number.MAX_SAFE_INTEGER,
    ordinal_to: 0,
    period_end: 0,
  };
  let heldUntil = Number.POSITIVE_INFINITY;
  for (const { admission, kind, event, source, status } of facts) {
    row.received_from = Math.min(row.received_from, admission.receivedAtMs);
    row.received_to = Math.max(row.received_to, admission.receivedAtMs);
    row.ordinal_from = Math.min(row.ordinal_from, admission.ordinal);
    row.ordinal_to = Math.max(row.ordinal_to, admission.ordinal);
    row.period_end = Math.max(row.period_end, admission.periodEndMs);
    if (status === "held") heldUntil = Math.min(heldUntil, admission.periodEndMs);
    statuses.add(statusLetter(status));
    if (kind === "signal" && event !== null) groups.add(JSON.stringify([event, source ?? ""]));
  }
  if (heldUntil !== Number.POSITIVE_INFINITY) row.period_end = heldUntil;
  return { ...row, groups: `[${[...groups].join(",")}]`, statuses: [...statuses].sort().join("") };
}

/** A part of `groups` where the segment has lines of this event. */
export function groupText(event: string, source?: string): string {
  return `[${JSON.stringify(event)},${source === undefined ? "" : `${JSON.stringify(source)}]`}`;
}

/** The platform refuses a row of more than 2 MB, which workerd takes. @throws Error where one would be too long. */
export function assertFits(bytes: number, what: string): void {
  if (bytes > ROW_MAX_BYTES) throw new Error(`${what} would be a row of ${bytes} bytes`);
}

function compressed(text: string): Uint8Array {
  const bytes = zstdOrGzip(text);
  assertFits(bytes.byteLength, "a segment");
  return bytes;
}

/** The runtime's zstd fails where the result is longer than 40 KB (cloudflare/workerd#6769): what hardly repeats itself. */
function zstdOrGzip(text: string): Uint8Array {
  const { constants, gzipSync, zstdCompressSync } = zlib();
  try {
    return zstdCompressSync(text, { params: { [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL } });
  } catch {
    return gzipSync(text);
  }
}

function expanded(stored: ArrayBuffer | Uint8Array): string {
  const bytes = new Uint8Array(stored);
  const { gunzipSync, zstdDecompressSync } = zlib();
  const isGzip = bytes[0] === GZIP_MAGIC[0] && bytes[1] === GZIP_MAGIC[1];
  return decoder.decode(isGzip ? gunzipSync(bytes) : zstdDecompressSync(bytes));
}
