/**
 * Who sends a signal writes its source, and may write there whose it is: `newsletter for ann@example.com`. Such a source stays
 * on the signal's own line. It never names a group of the signal queue, which outlives the signal.
 */
import type { Traits } from "./traits.ts";

/** Characters of a name at least: a shorter one may stand in a source by chance. */
const NAME_MIN_LENGTH = 3;

/** What a signal names its person by; null, or absent, where it does not. */
interface NamesOfSignal {
  email?: string | null;
  userId?: string | null;
  anonymousId?: string | null;
  traits: Traits;
}

/** The source of the group of the signal queue that counts a signal: empty where the signal's own tells whose it is. */
export function groupSource(source: string, signal: NamesOfSignal): string {
  return tellsWhose(source, signal) ? "" : source;
}

/** Whether a source has an address, or something of what the signal names its person by, as words of their own. */
export function tellsWhose(source: string, { email, userId, anonymousId, traits }: NamesOfSignal): boolean {
  if (source.includes("@")) return true;
  const names = [email?.split("@")[0], userId, anonymousId, traits.name, ...(traits.name?.split(/\s+/) ?? [])];
  const text = source.toLowerCase();
  return names.some((name) => name && name.length >= NAME_MIN_LENGTH && hasWords(text, name.toLowerCase()));
}

/** Whether words stand in a text, neither of which goes on where they begin or end. */
function hasWords(text: string, words: string): boolean {
  for (let at = text.indexOf(words); at !== -1; at = text.indexOf(words, at + 1)) {
    if (!isLetter(text.slice(0, at).at(-1)) && !isLetter(text[at + words.length])) return true;
  }
  return false;
}

function isLetter(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}
