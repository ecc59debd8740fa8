/**
 * Row keys for ids of visitors and for lists: bytes, because most ids are UUIDs and appear in several tables and
 * indexes. A letter gives the kind; then follows a text, or the sixteen bytes of a UUID after a byte that starts no
 * text.
 */
import { UUID_BYTES, UUID_CHARACTERS, UuidTexts, readUuid } from "../../platform/bytes.ts";

/** An id of a visitor, as an identify call or a signal names it. */
export interface VisitorId {
  kind: "anonymous_id" | "user_id";
  value: string;
}

const UUID_HERE = 0xff;
const LETTERS = { anonymous_id: "a", user_id: "u" } as const;
const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];

/** Owner of a list of lines: a person, such as `p17`, or a visitor, as a letter and the id. */
export type ListKey = string;

export function personList(personId: number): ListKey {
  return `p${personId}`;
}

export function visitorList({ kind, value }: VisitorId): ListKey {
  return LETTERS[kind] + value;
}

/** A list's key, as it stands in a row. */
export function keyOf(list: ListKey): ArrayBuffer {
  if (list.length === 1 + UUID_CHARACTERS) {
    const bytes = new Uint8Array(2 + UUID_BYTES);
    if (readUuid(list, 1, bytes.subarray(2))) {
      bytes[0] = list.charCodeAt(0);
      bytes[1] = UUID_HERE;
      return bytes.buffer;
    }
  }
  return new Uint8Array(encoder.encode(list)).buffer;
}

export function visitorKey(id: VisitorId): ArrayBuffer {
  return keyOf(visitorList(id));
}

export function listOfKey(key: ArrayBuffer): ListKey {
  const bytes = new Uint8Array(key);
  if (bytes[1] !== UUID_HERE) return decoder.decode(bytes);
  return String.fromCharCode(bytes[0] ?? 0) + new UuidTexts(bytes.subarray(2), UUID_BYTES).next();
}

export function visitorOfKey(key: ArrayBuffer): VisitorId {
  const list = listOfKey(key);
  return { kind: list.startsWith(LETTERS.user_id) ? "user_id" : "anonymous_id", value: list.slice(1) };
}

/** Two keys between which all keys of ids of this kind are. */
export function keysOf(kind: VisitorId["kind"]): [behind: ArrayBuffer, before: ArrayBuffer] {
  const letter = LETTERS[kind].charCodeAt(0);
  return [Uint8Array.of(letter).buffer, Uint8Array.of(letter + 1).buffer];
}
