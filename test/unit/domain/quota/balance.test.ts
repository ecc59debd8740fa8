/** Design §1.2 and invariant 1: the books balance, and an imbalance shows. */
import { describe, expect, test } from "vitest";
import { balanceBooks } from "../../../../src/domain/quota/balance.ts";

const recorded = { processed: 60, duplicates: 10, held: 20, purged: 5, deadLettered: 5 };
const at = (admitted: number, unsettled: number) => ({ admitted, unsettled });

describe("§1.2 accepted = processed + duplicates + held + purged + dead-lettered + in flight", () => {
  test("at rest every signal is recorded", () => {
    expect(balanceBooks(at(100, 0), recorded, at(100, 0))).toEqual({
      accepted: 100,
      ...recorded,
      inFlight: 0,
      balanced: true,
    });
  });

  test.each([
    ["a signal that is recorded nowhere", at(101, 0), at(101, 0), 1, false],
    ["a signal that is recorded twice", at(99, 0), at(99, 0), -1, false],
    ["a signal that is recorded twice while others are unsettled", at(99, 50), at(99, 50), -1, false],
    ["signals that wait in the outbox", at(107, 7), at(107, 7), 7, true],
    ["more missing signals than wait in the outbox", at(108, 7), at(108, 7), 8, false],
    ["signals that are recorded but not settled", at(100, 30), at(100, 30), 0, true],
    ["signals settled before the store was read", at(100, 7), at(100, 0), 0, true],
    ["signals settled after the store was read", at(107, 7), at(107, 0), 7, true],
    ["signals admitted and recorded between the readings", at(90, 0), at(100, 0), 0, true],
    ["signals admitted and not recorded between the readings", at(100, 0), at(110, 10), 10, true],
    ["a signal missing before more were admitted", at(101, 0), at(110, 10), 10, false],
  ])("with %s", (_, before, after, inFlight, balanced) => {
    const { admitted: accepted } = after;
    expect(balanceBooks(before, recorded, after)).toMatchObject({ accepted, inFlight, balanced });
  });
});
