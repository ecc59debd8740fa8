/** Keys of visitors' ids and lists, and the receipts of a person's traits, survive storing. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TRAIT_NAMES } from "../../../../src/domain/signal/traits.ts";
import { readTraitOrders, writeTraitOrders } from "../../../../src/store/people/people.ts";
import {
  keyOf,
  listOfKey,
  personList,
  visitorKey,
  visitorOfKey,
  type VisitorId,
} from "../../../../src/store/people/timelines.ts";

const UUID = "5b0d4a3e-9f63-4a51-8c1e-2f4f1f1b7a01";
const kind = fc.constantFrom<VisitorId["kind"]>("anonymous_id", "user_id");
const value = fc.oneof(
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }),
  fc.uuid(),
  fc.uuid().map((uuid) => uuid.toUpperCase()),
  fc.constantFrom(UUID, `${UUID}0`, UUID.slice(1), "\u0000", "\u00ff", "ÿ".repeat(17), "p17"),
);
const hex = (key: ArrayBuffer) => Buffer.from(key).toString("hex");

describe("a visitor's id as a key", () => {
  test("is read back, and differs for every second id", () => {
    fc.assert(
      fc.property(fc.record({ kind, value }), fc.record({ kind, value }), (first, second) => {
        expect(visitorOfKey(visitorKey(first))).toEqual(first);
        const isSame = first.kind === second.kind && first.value === second.value;
        expect(hex(visitorKey(first)) === hex(visitorKey(second))).toBe(isSame);
      }),
    );
  });

  test("takes eighteen bytes for a UUID in lower case", () => {
    expect(visitorKey({ kind: "user_id", value: UUID }).byteLength).toBe(18);
    expect(visitorKey({ kind: "user_id", value: UUID.toUpperCase() }).byteLength).toBe(37);
  });

  test("of a person's list is their number", () => {
    expect(listOfKey(keyOf(personList(17)))).toBe("p17");
  });
});

test("received orders of traits are read back, and are small if all traits come from one signal", () => {
  const receipt = fc.record({
    receivedAtMs: fc.integer({ min: 0, max: 2e12 }),
    ordinal: fc.integer({ min: 0, max: 1e12 }),
  });
  const some = fc.array(receipt, { minLength: 1, maxLength: 2 });
  fc.assert(
    fc.property(
      some,
      fc.array(fc.option(fc.nat(1)), { minLength: TRAIT_NAMES.length, maxLength: TRAIT_NAMES.length }),
      (receipts, which) => {
        const all = TRAIT_NAMES.flatMap((trait, index) => {
          const at = which[index];
          return at === null || at === undefined ? [] : [[trait, receipts[at % receipts.length]] as const];
        });
        expect(readTraitOrders(writeTraitOrders(Object.fromEntries(all)))).toEqual(Object.fromEntries(all));
      },
    ),
  );
  const single = { receivedAtMs: 1_800_000_000_000, ordinal: 90_000 };
  expect(writeTraitOrders({ name: single, company: single, title: single }).length).toBeLessThan(20);
  expect(readTraitOrders("")).toEqual({});
});
