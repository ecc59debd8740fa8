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
    if (holdsSecret(secret)) return secret;
  }
}

/** Whether a shared secret stands anywhere in `text`, or something as long and as random. */
export function holdsSecret(text: string): boolean {
  if (text.length < SECRET_LENGTH) return false;
  return (text.match(/[\w-]{43,}/g) ?? []).some(holdsRandomStretch);
}

const DASH = 0x2d;
const UPPER_A = 0x41;
const UNDERSCORE = 0x5f;
const LOWER_A = 0x61;

type Kind = "upper" | "lower" | "digit" | "separator";

/**
 * Whether any SECRET_LENGTH characters in a row look random. The stretch moves on by a character at a time, of which only
 * the ones that come and go are looked at: a run may be as long as a signal, and a body holds hundreds of them.
 *
 * @param run has as many characters at least, and none but those of base64url.
 */
function holdsRandomStretch(run: string): boolean {
  const ofKind = { upper: 0, lower: 0, digit: 0, separator: 0 };
  let changes = 0;
  /** The kind of the stretch's last character that is no separator. */
  let last: Kind = "separator";
  for (let end = 0; end < run.length; end++) {
    const comes = kindAt(run, end);
    ofKind[comes]++;
    if (comes !== "separator") {
      if (last !== "separator" && last !== comes) changes++;
      last = comes;
    }
    const start = end - SECRET_LENGTH;
    const goes = start < 0 ? null : kindAt(run, start);
    if (goes !== null) {
      ofKind[goes]--;
      const first = goes === "separator" ? goes : firstKind(run, start + 1, end);
      if (first !== "separator" && first !== goes) changes--;
      if (ofKind.separator === SECRET_LENGTH) last = "separator";
    }
    const { upper, lower, digit } = ofKind;
    if (changes >= MIN_CHANGES && Math.min(upper, lower, digit) >= MIN_OF_EACH_KIND) return true;
  }
  return false;
}

/** The kind of the first character of the stretch that is no separator. */
function firstKind(run: string, start: number, end: number): Kind {
  let at = start;
  while (at < end && kindAt(run, at) === "separator") at++;
  return kindAt(run, at);
}

/** A dash and an underscore separate words as often as they stand in a secret. */
function kindAt(run: string, at: number): Kind {
  const code = run.charCodeAt(at);
  if (code === DASH || code === UNDERSCORE) return "separator";
  if (code < UPPER_A) return "digit";
  return code < LOWER_A ? "upper" : "lower";
}
