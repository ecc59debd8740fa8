/**
 * The shared secret of a key (spec §5.4): 32 random bytes as base64url. It is drawn until it looks random enough to be told
 * from words, so that it is found where it must not stand.
 */

const SECRET_LENGTH = 43;
/** Letters that stand next to one of another kind: some 26 of 43 where they are random, some 15 in words put together. */
const MIN_CHANGES = 20;
const MIN_OF_EACH_KIND = 2;

/**
 * A new shared secret.
 *
 * @param draw gives 32 bytes from a cryptographic source as base64url; called again until they look random enough.
 */
export function composeSecret(draw: () => string): string {
  for (;;) {
    const secret = draw();
    if (looksRandom(secret)) return secret;
  }
}

/** Whether a shared secret stands anywhere in `text`, or something as long and as random. */
export function holdsSecret(text: string): boolean {
  if (text.length < SECRET_LENGTH) return false;
  return (text.match(/[\w-]{43,}/g) ?? []).some((run) => {
    for (let start = 0; start + SECRET_LENGTH <= run.length; start++) {
      if (looksRandom(run.slice(start, start + SECRET_LENGTH))) return true;
    }
    return false;
  });
}

function looksRandom(text: string): boolean {
  const ofKind = { upper: 0, lower: 0, digit: 0 };
  let changes = 0;
  let before: keyof typeof ofKind | undefined;
  for (const char of text) {
    const kind = char >= "a" && char <= "z" ? "lower" : char >= "A" && char <= "Z" ? "upper" : "digit";
    // A dash and an underscore separate words as often as they stand in a secret.
    if (char === "-" || char === "_") continue;
    ofKind[kind]++;
    if (before !== undefined && before !== kind) changes++;
    before = kind;
  }
  return changes >= MIN_CHANGES && Object.values(ofKind).every((count) => count >= MIN_OF_EACH_KIND);
}
