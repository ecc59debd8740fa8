/**
 * Limits the text of a sender that an answer may repeat: only the beginning, and only to the sender. Stored refusals
 * repeat nothing of the body.
 */
import { holdsKey, holdsSecret } from "./api-key.ts";

/** Characters of an echo: fewer than half of a key's random ones. */
const ECHO_MAX_LENGTH = 16;
/** Enough to recognise in full a key or secret that begins within the echo. */
const CHECKED_CHARACTERS = 256;

const BEGINS_LIKE_KEY = /(?:sk|wt)_[0-9A-Za-z]{8,}/g;
const LONG_RUN = /[0-9A-Za-z+/_=-]{21,}/g;

const BLANK = "•••";

/** Whether `text` contains a key, a token or a secret. Names of events and sources must not: they are shown. */
export function holdsCredential(text: string): boolean {
  return holdsKey(text) || holdsSecret(text);
}

/** The beginning of `text` in quotes, with keys and secrets blanked. */
export function echo(text: string): string {
  const blanked = withoutCredentials(text.slice(0, CHECKED_CHARACTERS));
  const shown = blanked.slice(0, ECHO_MAX_LENGTH).toWellFormed();
  const isCut = blanked.length > ECHO_MAX_LENGTH || text.length > CHECKED_CHARACTERS;
  return `${JSON.stringify(shown)}${isCut ? "…" : ""}`;
}

/**
 * Blanks keys, tokens, secrets and parts of them. Long runs go first: otherwise a secret that happens to contain the
 * beginning of a key would lose only its end.
 */
export function withoutCredentials(text: string): string {
  return text.replaceAll(LONG_RUN, (run) => (isMixed(run) ? BLANK : run)).replaceAll(BEGINS_LIKE_KEY, BLANK);
}

function isMixed(run: string): boolean {
  return [/[a-z]/g, /[A-Z]/g].every((kind) => (run.match(kind)?.length ?? 0) >= 2);
}
