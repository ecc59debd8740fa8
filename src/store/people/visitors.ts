/** Whom a signal names: by an email, a user id, an anonymous id, or several of these. */
import { isJsonObject } from "../../domain/json/dot-path.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import type { NormalisedSignal } from "../../domain/signal/signal.ts";
import { readUuid, UUID_BYTES, UUID_CHARACTERS, UuidTexts } from "../../platform/bytes.ts";
import type { Admission } from "../../wire/admission.ts";
import type { Facts } from "../log/line.ts";

export type VisitorNames = Pick<NormalisedSignal, "email" | "userId" | "anonymousId">;

/** The names of a line, as the signal itself has them. */
export function namesOnLine({ email, userId, anonymousId }: Facts): VisitorNames {
  return {
    ...(email === null ? {} : { email }),
    ...(userId === null ? {} : { userId }),
    ...(anonymousId === null ? {} : { anonymousId }),
  };
}

/** Whom a dead letter names, by the fields that name people; null: nobody, an account, or it cannot be read. */
export function visitorOfPayload(payload: string | null, admission: Admission): VisitorNames | null {
  if (payload === null || admission.endpoint !== "signal_staging") return null;
  try {
    const read: unknown = JSON.parse(payload);
    return isJsonObject(read) ? normalise(read, admission.pathSource) : null;
  } catch {
    return null;
  }
}

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
