/** Design §1.2 and invariant 1: the books balance, and show it when they do not. */
import { describe, expect, test } from "vitest";
import { balanceBooks, readAgain } from "../../../../src/domain/quota/balance.ts";

const recorded = { processed: 60, duplicates: 10, held: 20, purged: 5, deadLettered: 5 };
const at = (admitted: number, unsettled: number, lost = 0) => ({ admitted, unsettled, lost });

describe("§1.2 accepted = processed + duplicates + held + purged + dead-lettered + in flight", () => {
  test("at rest everything is recorded", () => {
    expect(balanceBooks(at(100, 0), recorded, at(100, 0))).toEqual({
      accepted: 100,
      ...recorded,
      inFlight: 0,
      lost: 0,
      balanced: true,
    });
  });

  test("at rest one signal that is recorded nowhere shows", () => {
    expect(balanceBooks(at(101, 0), recorded, at(101, 0))).toMatchObject({ inFlight: 1, balanced: false });
  });

  test("what a restore has lost is not missing, and hides nothing else", () => {
    expect(balanceBooks(at(104, 0, 4), recorded, at(104, 0, 4))).toMatchObject({
      inFlight: 0,
      lost: 4,
      balanced: true,
    });
    expect(balanceBooks(at(105, 0, 4), recorded, at(105, 0, 4))).toMatchObject({ inFlight: 1, balanced: false });
  });

  test("one signal recorded twice shows", () => {
    expect(balanceBooks(at(99, 0), recorded, at(99, 0))).toMatchObject({ inFlight: -1, balanced: false });
    expect(balanceBooks(at(99, 50), recorded, at(99, 50))).toMatchObject({ inFlight: -1, balanced: false });
  });

  test("signals that wait in the outbox are in flight", () => {
    expect(balanceBooks(at(107, 7), recorded, at(107, 7))).toMatchObject({
      accepted: 107,
      inFlight: 7,
      balanced: true,
    });
  });

  test("signals that are recorded and not settled yet are in flight no more", () => {
    expect(balanceBooks(at(100, 30), recorded, at(100, 30))).toMatchObject({ inFlight: 0, balanced: true });
  });

  test("more missing than the outbox held is a loss", () => {
    expect(balanceBooks(at(108, 7), recorded, at(108, 7))).toMatchObject({ inFlight: 8, balanced: false });
  });

  test("what was settled between the readings does not hide a loss, nor make one", () => {
    // All 7 were settled after the first reading: before the store was read, or after it.
    expect(balanceBooks(at(100, 7), recorded, at(100, 0))).toMatchObject({ inFlight: 0, balanced: true });
    expect(balanceBooks(at(107, 7), recorded, at(107, 0))).toMatchObject({ inFlight: 7, balanced: true });
  });

  test("signals admitted between the readings may be recorded or not", () => {
    expect(balanceBooks(at(90, 0), recorded, at(100, 0))).toMatchObject({ accepted: 100, inFlight: 0, balanced: true });
    expect(balanceBooks(at(100, 0), recorded, at(110, 10))).toMatchObject({ inFlight: 10, balanced: true });
    expect(balanceBooks(at(101, 0), recorded, at(110, 10))).toMatchObject({ inFlight: 10, balanced: false });
  });
});

test("the books are read again while signals come in", () => {
  expect(readAgain(at(100, 3), at(100, 0))).toBe(false);
  expect(readAgain(at(100, 3), at(101, 3))).toBe(true);
});
