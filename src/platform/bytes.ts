/** A byte stream: whole numbers of variable length and UUIDs of 16 bytes. */

const FIRST_BYTES = 16_384;
const MOST_NUMBER_BYTES = 8;
export const UUID_BYTES = 16;
export const UUID_CHARACTERS = 36;
const EMPTY = new Uint8Array();
const HYPHEN = 45;
const NO_DIGIT = 0x10;
const DIGITS = new Uint8Array(128).fill(NO_DIGIT);
const HEX = new TextEncoder().encode("0123456789abcdef");
for (const [value, digit] of HEX.entries()) DIGITS[digit] = value;
const decoder = new TextDecoder();

export class ByteWriter {
  #bytes = new Uint8Array(FIRST_BYTES);
  #used = 0;

  /** Valid until the next write. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#used);
  }

  copy(): Uint8Array {
    return this.#used === 0 ? EMPTY : this.#bytes.slice(0, this.#used);
  }

  clear(): void {
    this.#used = 0;
  }

  /** Sign and lowest six bits in the first byte, then seven bits per byte. */
  number(value: number): void {
    if (this.#used + MOST_NUMBER_BYTES > this.#bytes.length) this.#grow(MOST_NUMBER_BYTES);
    if (value >= 0 && value < 64) {
      this.#bytes[this.#used++] = value << 1;
      return;
    }
    const magnitude = Math.abs(value);
    const first = ((magnitude % 64) << 1) | Number(value < 0);
    let left = Math.floor(magnitude / 64);
    this.#bytes[this.#used++] = left === 0 ? first : first | 0x80;
    while (left > 0) {
      const byte = left % 128;
      left = Math.floor(left / 128);
      this.#bytes[this.#used++] = left === 0 ? byte : byte | 0x80;
    }
  }

  append(bytes: Uint8Array): void {
    if (this.#used + bytes.length > this.#bytes.length) this.#grow(bytes.length);
    this.#bytes.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  /** Writes the lower-case UUID at a position of a text; false: there is none, and nothing is written. */
  uuid(text: string, at: number): boolean {
    if (this.#used + UUID_BYTES > this.#bytes.length) this.#grow(UUID_BYTES);
    if (!readUuid(text, at, this.#bytes, this.#used)) return false;
    this.#used += UUID_BYTES;
    return true;
  }

  #grow(more: number): void {
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#used + more));
    grown.set(this.bytes);
    this.#bytes = grown;
  }
}

export class ByteReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  get at(): number {
    return this.#at;
  }

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  number(): number {
    let byte = this.#bytes[this.#at++] ?? 0;
    if ((byte & 0x81) === 0) return byte >>> 1;
    const isNegative = (byte & 1) === 1;
    let magnitude = (byte & 0x7f) >>> 1;
    for (let unit = 64; byte >= 0x80; unit *= 128) {
      byte = this.#bytes[this.#at++] ?? 0;
      magnitude += (byte & 0x7f) * unit;
    }
    return isNegative ? -magnitude : magnitude;
  }

  take(length: number): Uint8Array {
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  rest(): Uint8Array {
    return this.take(this.#bytes.length - this.#at);
  }
}

/** Parses the lower-case UUID at a position of a text; false: there is none. */
export function readUuid(text: string, at: number, into: Uint8Array, offset = 0): boolean {
  if (text.length < at + UUID_CHARACTERS) return false;
  let [from, codes, digits] = [at, 0, 0];
  for (let place = 0; place < UUID_BYTES; place++) {
    if (isBehindHyphen(place) && text.charCodeAt(from++) !== HYPHEN) return false;
    const [first, second] = [text.charCodeAt(from++), text.charCodeAt(from++)];
    const high = DIGITS[first & 0x7f] ?? NO_DIGIT;
    const low = DIGITS[second & 0x7f] ?? NO_DIGIT;
    codes |= first | second;
    digits |= high | low;
    into[offset + place] = (high << 4) | low;
  }
  return codes < 0x80 && digits < NO_DIGIT;
}

/** Milliseconds since 1970: the first 48 bits of a UUIDv7. */
export function uuidMs(bytes: Uint8Array): number {
  const [one = 0, two = 0, three = 0, four = 0, five = 0, six = 0] = bytes;
  return (one * 0x100 + two) * 0x1_0000_0000 + (((three << 24) | (four << 16) | (five << 8) | six) >>> 0);
}

/** UUIDs as texts, from consecutive entries of their last `size` bytes. Converting all at once is cheaper. */
export class UuidTexts {
  readonly #all: string;
  readonly #characters: number;
  #taken = 0;

  constructor(bytes: Uint8Array, size: number) {
    const missing = UUID_BYTES - size;
    const count = bytes.length / size;
    const ascii = new Uint8Array(count * UUID_CHARACTERS);
    let to = 0;
    for (let from = 0; from < bytes.length;) {
      for (let place = missing; place < UUID_BYTES; place++) {
        if (place > missing && isBehindHyphen(place)) ascii[to++] = HYPHEN;
        const byte = bytes[from++] ?? 0;
        ascii[to++] = HEX[byte >>> 4] ?? 0;
        ascii[to++] = HEX[byte & 0xf] ?? 0;
      }
    }
    this.#all = count === 0 ? "" : decoder.decode(ascii.subarray(0, to));
    this.#characters = to / count;
  }

  next(): string {
    const from = this.#taken++ * this.#characters;
    return this.#all.slice(from, from + this.#characters);
  }
}

function isBehindHyphen(byte: number): boolean {
  return byte === 4 || byte === 6 || byte === 8 || byte === 10;
}
