/** Earlier versions of workerd rejected or changed data here. What is stored relies on both. */
import { describe, expect, test } from "vitest";
import * as zlib from "node:zlib";

const { constants, zstdCompressSync, zstdDecompressSync } = zlib;
const SIZES = [30_000, 41_000, 112_000, 1_000_000, 8_000_000];

/** Bytes that no compression makes shorter. */
function noise(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let start = 0; start < length; start += 65_536) crypto.getRandomValues(bytes.subarray(start, start + 65_536));
  return bytes;
}

/** Signals with different ids and addresses, as text: half of each line hardly compresses. */
function signals(length: number): Uint8Array {
  const lines: string[] = [];
  for (let n = 0; n < length / 150; n++) {
    const [id, email] = [crypto.randomUUID(), `person-${n}@example.com`];
    lines.push(JSON.stringify({ event: "Filled Out Form", email, id, properties: { session: crypto.randomUUID() } }));
  }
  return new TextEncoder().encode(lines.join("\n")).subarray(0, length);
}

function roundTrip(bytes: Uint8Array, level: number): { compressed: number; same: boolean } {
  const compressed = zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: level } });
  return { compressed: compressed.length, same: zstdDecompressSync(compressed).equals(bytes) };
}

// A result above 40 KB failed until workerd 1.20261110.1 (cloudflare/workerd#6769).
describe.each([1, 3])("zstd at level %i", (level) => {
  test.each(SIZES)("returns %i bytes that do not compress", (size) => {
    const { compressed, same } = roundTrip(noise(size), level);
    expect(same).toBe(true);
    expect(compressed).toBeGreaterThanOrEqual(size);
  });

  test.each(SIZES)("returns %i bytes of signals", (size) => {
    const { compressed, same } = roundTrip(signals(size), level);
    expect(same).toBe(true);
    expect(compressed).toBeLessThan(size / 2);
  });

  test("returns many texts one after the other, large and small", () => {
    for (const size of [...SIZES.slice(0, 4), ...SIZES.slice(0, 4).toReversed(), 1, 112_000]) {
      for (const bytes of [noise(size), signals(size)])
        expect(roundTrip(bytes, level).same, `${size} bytes`).toBe(true);
    }
  });
});

// After an object with the key `\`, workerd 1.20260918.1 read each escaped key of one character in its place as `\`.
test("JSON.parse reads escaped keys of one character, also after the key of one backslash", () => {
  const keysOf = (key: string) => Object.keys(JSON.parse(`{"event":1,${JSON.stringify(key)}:1}`) as object);
  for (const key of ["\\", '"', "\n", "\t", "\\"]) expect(keysOf(key)).toEqual(["event", key]);
});
