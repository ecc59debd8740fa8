/** Whom a signal names: by an email, a user id, an anonymous id, or several of these. */
import { isJsonObject } from "../../domain/json/dot-path.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import { readUuid, UUID_BYTES, UUID_CHARACTERS, UuidTexts } from "../../platform/bytes.ts";
import type { Admission } from "../../wire/admission.ts";

/** Names as a normalised signal has them, or a line of the log. */
export interface VisitorNames {
  email?: string | null;
  userId?: string | null;
  anonymousId?: string | null;
}

/** Whom a dead letter names; null: nobody, an account, or it cannot be read. */
export function visitorOfPayload(payload: string | null, admission: Admission): VisitorNames | null {
  if (payload === null || admission.endpoint !== "signal_staging") return null;
  try {
    const read: unknown = JSON.parse(payload);
    return isJsonObject(read) ? normalise(read, admission.pathSource) : null;
  } catch {
    return null;
  }
}

export interface VisitorId {
  kind: "anonymous_id" | "user_id";
  value: string;
}

/** The ids that a signal names, the strongest first (design §8.3). */
export function idsOf({ userId, anonymousId }: VisitorNames): VisitorId[] {
  const ids: VisitorId[] = [];
  if (typeof userId === "string") ids.push({ kind: "user_id", value: userId });
  if (typeof anonymousId === "string") ids.push({ kind: "anonymous_id", value: anonymousId });
  return ids;
}

const UUID_HERE = 0xff;
const LETTERS = { anonymous_id: "a", user_id: "u" } as const;
const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];

/** Whose signals a timeline lists: a person, such as `p17`, or a visitor, as a letter and the id. */
export type ListKey = string;

export function personList(personId: number): ListKey {
  return `p${personId}`;
}

export function visitorList({ kind, value }: VisitorId): ListKey {
  return LETTERS[kind] + value;
}

/** The stored form of a list's key. */
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

/** The bounds between which the keys of all ids of a kind lie. */
export function keysOf(kind: VisitorId["kind"]): [behind: ArrayBuffer, before: ArrayBuffer] {
  const letter = LETTERS[kind].charCodeAt(0);
  return [Uint8Array.of(letter).buffer, Uint8Array.of(letter + 1).buffer];
}
