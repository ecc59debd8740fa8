/** Rejections grouped by key and reason. */
import { expect, test } from "vitest";
import type { RejectionEntry } from "../../../src/domain/keys/rejection.ts";
import { groupRejections } from "../../../src/pages/rejections.tsx";

const rejected = (keyId: string, calls: number, firstAtMs: number, lastAtMs: number): RejectionEntry => ({
  keyId,
  code: "event_missing",
  cause: null,
  requestId: `req_${firstAtMs}`,
  detail: "",
  calls,
  signals: 2 * calls,
  firstAtMs,
  lastAtMs,
});

test("a group sums up its entries, has the time of its last call, and frequent groups come first", () => {
  const entries = [rejected("key_a", 1, 10, 90), rejected("key_b", 5, 20, 30), rejected("key_a", 3, 40, 50)];
  expect(groupRejections(entries)).toMatchObject([
    { keyId: "key_b", calls: 5, signals: 10, latestMs: 30 },
    { keyId: "key_a", calls: 4, signals: 8, latestMs: 90 },
  ]);
});
