/**
 * A body's bytes, read as text piece by piece. A text takes up to twice as much memory as its bytes, beside them: of a
 * large body there is never more than a piece. Bytes that are not UTF-8 become U+FFFD: a stray character must not lose the
 * signal around it.
 */

/** Up to this size the whole is read at once: a native call for each piece takes longer than the copy. */
const AT_ONCE_MAX_BYTES = 262_144;

const REPLACEMENT = "\ufffd";

// A byte order mark is one at the body's beginning only, where it has been left out already.
const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

export class Utf8Text {
  readonly bytes: Uint8Array;
  /** The whole text of a small body; null for a large one. */
  readonly #whole: string | null;
  /** Whether each byte of a small body is a character. */
  readonly #isAscii: boolean;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.#whole = bytes.length <= AT_ONCE_MAX_BYTES ? decoder.decode(bytes) : null;
    this.#isAscii = this.#whole !== null && isAscii(this.#whole, bytes.length);
  }

  /** @param start and `end` are in bytes, at the borders of characters. */
  slice(start: number, end: number): string {
    if (this.#whole !== null) {
      if (this.#isAscii) return this.#whole.slice(start, end);
      if (start === 0 && end === this.bytes.length) return this.#whole;
    }
    return decoder.decode(this.bytes.subarray(start, end));
  }

  /** What the text of so many bytes takes in UTF-8: U+FFFD takes three where one was received. */
  lengthOf(text: string, receivedBytes: number): number {
    return this.#isAscii || isAscii(text, receivedBytes) ? receivedBytes : Buffer.byteLength(text);
  }
}

function isAscii(text: string, bytes: number): boolean {
  return text.length === bytes && !text.includes(REPLACEMENT);
}
