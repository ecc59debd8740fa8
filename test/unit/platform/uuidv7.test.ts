import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { UUIDV7_RANDOM_BYTES, uuidv7, uuidv7From } from "../../../src/platform/ids.ts";

const moments = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const random = fc.uint8Array({ minLength: UUIDV7_RANDOM_BYTES, maxLength: UUIDV7_RANDOM_BYTES });

describe("RFC 9562 §5.7: UUID version 7", () => {
  test("matches the example of the RFC (appendix A.6)", () => {
    const bytes = Uint8Array.of(0x0c, 0xc3, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f);
    expect(uuidv7(0x017f22e279b0, bytes)).toBe("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  });

  test("has the right shape, version and variant, and the time in its first 48 bits", () => {
    fc.assert(
      fc.property(moments, random, (now, bytes) => {
        const id = uuidv7(now, bytes);
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(Number.parseInt(id.replace("-", "").slice(0, 12), 16)).toBe(now);
      }),
    );
  });

  test("sorts by time for any random bits", () => {
    const pairs = fc.tuple(moments, fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 2 ** 40 })));
    fc.assert(
      fc.property(pairs, random, random, ([now, later], first, second) => {
        fc.pre(now + later < 2 ** 48);
        expect(uuidv7(now, first) < uuidv7(now + later, second)).toBe(true);
      }),
    );
  });

  test("uses 74 random bits: each of them changes the id, the other six do not", () => {
    const ids = new Set<string>();
    for (let bit = 0; bit < UUIDV7_RANDOM_BYTES * 8; bit++) {
      const bytes = new Uint8Array(UUIDV7_RANDOM_BYTES);
      bytes[bit >>> 3] = 1 << (bit & 7);
      ids.add(uuidv7(0, bytes));
    }
    // 74 ids with a single bit set, and one without any.
    expect(ids.size).toBe(75);
  });

  test("takes its bytes from the offset", () => {
    fc.assert(
      fc.property(random, random, (before, bytes) => {
        const together = Uint8Array.of(...before, ...bytes);
        expect(uuidv7(1, together, UUIDV7_RANDOM_BYTES)).toBe(uuidv7(1, bytes));
      }),
    );
  });
});

test("ids made before a time sort before its first id, all others after it", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 47 }), fc.integer({ min: 0, max: 2 ** 47 }), (madeMs, ms) => {
      const id = uuidv7(madeMs, new Uint8Array(10).fill(madeMs % 251));
      expect(id >= uuidv7From(ms)).toBe(madeMs >= ms);
    }),
  );
});
