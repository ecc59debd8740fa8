/**
 * What may be repeated of a sender's own text, and to whom: a beginning of it, to the sender alone. What is stored of a
 * refusal says nothing of the body.
 */
import { holdsKey, holdsSecret } from "./api-key.ts";

/** Characters of an echo: fewer than half of a key's random ones. */
const ECHO_MAX_LENGTH = 16;
/** Characters that are looked at: a key or secret that begins within the echo is recognised by as many. */
const LOOKED_AT = 256;

/** What begins like a key. */
const BEGINS_LIKE_KEY = /sk_[0-9A-Za-z]{8,}/g;
/** A run of characters that may be a key, a secret or a token, whole or cut off. */
const LONG_RUN = /[0-9A-Za-z+/_=-]{21,}/g;

const BLANK = "•••";

/** Whether `text` holds an API key or a shared secret; names of events and sources may not, for they are shown. */
export function holdsCredential(text: string): boolean {
  return holdsKey(text) || holdsSecret(text);
}

/** The beginning of `text` in quotes, without what looks like a key or a secret. */
export function echo(text: string): string {
  const blanked = withoutCredentials(text.slice(0, LOOKED_AT));
  const shown = blanked.slice(0, ECHO_MAX_LENGTH).toWellFormed();
  const isCut = blanked.length > ECHO_MAX_LENGTH || text.length > LOOKED_AT;
  return `${JSON.stringify(shown)}${isCut ? "…" : ""}`;
}

/**
 * The text without what looks like a key or a secret, or like a part of one. Long runs go first: a secret in which what begins
 * like a key happens to stand would else lose its end alone.
 */
export function withoutCredentials(text: string): string {
  return text.replaceAll(LONG_RUN, (run) => (isMixed(run) ? BLANK : run)).replaceAll(BEGINS_LIKE_KEY, BLANK);
}

/** Whether a run has at least two letters of either case, as next to no long word has. */
function isMixed(run: string): boolean {
  return [/[a-z]/g, /[A-Z]/g].every((kind) => (run.match(kind)?.length ?? 0) >= 2);
}

/** What is wrong, as it may be stored and shown to everybody, and the sender's own text about it. */
export interface Described {
  detail: string;
  /** For the sender alone: names and beginnings of values, each through `echo`. */
  sent?: string;
}

/** What the sender is told. */
export function toSender({ detail, sent }: Described): string {
  return sent === undefined ? detail : `${detail} You sent ${sent}.`;
}
