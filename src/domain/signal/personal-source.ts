/** Who sends a signal writes its source, and may write there whose it is: `newsletter for ann@example.com`. */
import type { NormalisedSignal } from "./signal.ts";

/** Characters of a name at least: a shorter one may stand in a source by chance. */
const NAME_MIN_LENGTH = 3;

/** Whether a source has an address, or something of what the signal names its person by. */
export function tellsWhose(
  source: string,
  { email, userId, anonymousId, traits }: Pick<NormalisedSignal, "email" | "userId" | "anonymousId" | "traits">,
): boolean {
  if (source.includes("@")) return true;
  const names = [email?.split("@")[0], userId, anonymousId, ...(traits.name?.split(/\s+/) ?? [])];
  const text = source.toLowerCase();
  return names.some(
    (name) => name !== undefined && name.length >= NAME_MIN_LENGTH && text.includes(name.toLowerCase()),
  );
}
