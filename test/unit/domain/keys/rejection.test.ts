/** Design §5: the list of rejected calls, by key and reason. */
import { describe, expect, test } from "vitest";
import {
  addRejection,
  forgetOld,
  REJECTION_SILENCE_MS,
  type RejectionEntry,
} from "../../../../src/domain/keys/rejection.ts";
import { REJECTIONS_KEPT, REJECTIONS_KEPT_OF_A_REASON, REJECTION_KEPT_DAYS } from "../../../../src/limits.ts";

const DAY = 24 * 3_600_000;

function rejected(atMs: number, more: Partial<RejectionEntry> = {}): RejectionEntry {
  const reason = { keyId: "key_1", code: "body_empty", cause: null, detail: "Empty." } as const;
  const when = { firstAtMs: atMs, lastAtMs: atMs };
  return { ...reason, requestId: `req_${atMs}`, calls: 1, signals: 1, ...when, ...more };
}

function listOf(...all: RejectionEntry[]): RejectionEntry[] {
  const list: RejectionEntry[] = [];
  for (const calls of all) addRejection(list, calls);
  return list;
}

describe("rejected calls", () => {
  test("share an entry per reason, with a count, the first and last time, the first detail and request", () => {
    const later = { detail: "Other.", signals: 3 };
    expect(listOf(rejected(5), rejected(9, later), rejected(7, { calls: 4, signals: 4, firstAtMs: 3 }))).toEqual([
      rejected(5, { calls: 6, signals: 8, firstAtMs: 3, lastAtMs: 9 }),
    ]);
  });

  test("have separate entries for each key, code and cause", () => {
    const cause = { code: "unauthorized", cause: "secret_wrong" } as const;
    const different = [rejected(2, { keyId: "key_2" }), rejected(3, { code: "rate_limited" }), rejected(4, cause)];
    expect(listOf(rejected(1), ...different, rejected(5, { ...cause, cause: "secret_missing" }))).toHaveLength(5);
  });

  test("start a new entry after an hour of silence, not before", () => {
    const end = REJECTION_SILENCE_MS;
    expect(listOf(rejected(0), rejected(end - 1)).map(({ calls }) => calls)).toEqual([2]);
    expect(listOf(rejected(0), rejected(end)).map(({ calls }) => calls)).toEqual([1, 1]);
    expect(listOf(rejected(0), rejected(end - 1), rejected(2 * end - 2)).map(({ calls }) => calls)).toEqual([3]);
  });
});

describe("the list of rejected calls", () => {
  test("limits the entries of a reason: the one silent longest goes, and no other reason's", () => {
    const lone = rejected(0, { code: "event_missing" });
    const many = Array.from({ length: 25 }, (_, n) => rejected(n * REJECTION_SILENCE_MS));
    const list = listOf(lone, ...many);
    expect(list).toHaveLength(1 + REJECTIONS_KEPT_OF_A_REASON);
    expect(list[0]).toEqual(lone);
    expect(list[1]).toEqual(many[5]);
  });

  test("limits all entries: the one silent longest goes", () => {
    const many = Array.from({ length: REJECTIONS_KEPT + 3 }, (_, n) => rejected(n, { keyId: `key_${n}` }));
    const list = listOf(...many.slice(0, 10), rejected(500, { keyId: "key_0" }), ...many.slice(10));
    expect(list.map(({ keyId }) => keyId)).toEqual(["key_0", ...many.slice(4).map(({ keyId }) => keyId)]);
  });

  test("drops an entry after 30 days without a call", () => {
    const list = listOf(rejected(0), rejected(DAY, { keyId: "key_2", firstAtMs: 0 }));
    forgetOld(list, REJECTION_KEPT_DAYS * DAY - 1);
    expect(list).toHaveLength(2);
    forgetOld(list, REJECTION_KEPT_DAYS * DAY);
    expect(list.map(({ keyId }) => keyId)).toEqual(["key_2"]);
  });
});
