/**
 * Entries of lists as text: which signals are listed, and what each has scored. They are in the order of `seq`, separated by
 * commas. What is kept in rows is timelines.ts's business.
 */
import { UUID_BYTES, UUID_CHARACTERS, UuidTexts, readUuid, uuidMs } from "../../platform/bytes.ts";
import type { Facts } from "../log/line.ts";

/** Entries of a person's list of signals that are kept in their row, in characters: recording writes that in any case. */
const RECENT_ENTRIES_CHARACTERS = 512;

/** What a signal scored. It outlives the signal. */
export interface Scored {
  signalId: string;
  /** Receipt of the signal. */
  atMs: number;
  /** Numbers of the outcomes, see state/rule-outcomes.ts. */
  outcomes: readonly number[];
}

export interface Entry {
  seq: number;
  /** What the line has scored; null: nothing. */
  scored: Scored | null;
}

/** What the list of a line's person is to say of it; null: it has scored nothing. */
export function scoredBy({ admission, outcomes }: Facts): Scored | null {
  return outcomes.length === 0 ? null : { signalId: admission.id, atMs: admission.receivedAtMs, outcomes };
}

/** What a person's row is to say with these entries added; null where that is too much, and all goes to `insertEntries`. */
export function addToRecent(recent: string, entries: readonly Entry[]): string | null {
  const all = areBehind(recent, entries)
    ? `${recent},${writeEntries(entries)}`
    : writeEntries(mergeEntries(readEntries(recent), entries));
  return all.length <= RECENT_ENTRIES_CHARACTERS ? all : null;
}

export function writeEntries(entries: readonly Entry[]): string {
  return entries.map(writeEntry).join(",");
}

export function readEntries(text: string): Entry[] {
  return text === "" ? [] : text.split(",").map(readEntry);
}

/** Whether entries are in their order, and come behind those of a text. */
export function areBehind(text: string, entries: readonly Entry[]): boolean {
  let before = text === "" ? Number.POSITIVE_INFINITY : Number.parseInt(text.slice(text.lastIndexOf(",") + 1), 36);
  for (const { seq } of entries) {
    if (seq <= before) return false;
    before = seq;
  }
  return true;
}

/** Two lists of entries as one, in ascending order; one that is in both is taken from the second. */
export function mergeEntries(before: readonly Entry[], entries: readonly Entry[]): Entry[] {
  const all = new Map([...before, ...entries].map((entry) => [entry.seq, entry] as const));
  return [...all.values()].sort((one, other) => one.seq - other.seq);
}

/**
 * Writes an entry, its numbers in base 36; of what was scored: the id, the receipt, in milliseconds since the id was given,
 * and the outcomes.
 */
function writeEntry({ seq, scored }: Entry): string {
  if (scored === null) return seq.toString(36);
  const { text, ms } = writeId(scored.signalId);
  return `${seq.toString(36)}:${text}:${(scored.atMs - ms).toString(36)}:${scored.outcomes.join(".")}`;
}

function readEntry(text: string): Entry {
  const [seqText = "", idText, after = "", outcomes = ""] = text.split(":");
  const seq = Number.parseInt(seqText, 36);
  if (idText === undefined) return { seq, scored: null };
  const { signalId, ms } = readId(idText);
  const atMs = ms + Number.parseInt(after, 36);
  return { seq, scored: { signalId, atMs, outcomes: outcomes.split(".").map(Number) } };
}

const ID_PREFIX = "sig_";
const uuid = new Uint8Array(UUID_BYTES);

/** Writes a signal's id: in base64 where it is a UUID, else as it is, behind a point. */
function writeId(id: string): { text: string; ms: number } {
  const isUuid =
    id.length === ID_PREFIX.length + UUID_CHARACTERS &&
    id.startsWith(ID_PREFIX) &&
    readUuid(id, ID_PREFIX.length, uuid);
  return isUuid ? { text: Buffer.from(uuid).toString("base64url"), ms: uuidMs(uuid) } : { text: `.${id}`, ms: 0 };
}

function readId(text: string): { signalId: string; ms: number } {
  if (text.startsWith(".")) return { signalId: text.slice(1), ms: 0 };
  const bytes = Buffer.from(text, "base64url");
  return { signalId: ID_PREFIX + new UuidTexts(bytes, UUID_BYTES).next(), ms: uuidMs(bytes) };
}
