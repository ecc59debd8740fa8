import { expect, test } from "vitest";
import type { RejectionEntry } from "../../../src/domain/keys/rejection.ts";
import { REJECTION_BURST_CALLS, REJECTION_BURST_QUIET_MS, RejectionBursts } from "../../../src/quota/rejected-calls.ts";

const NOW = Date.UTC(2031, 2, 5, 12);
const MINUTE = 60_000;

function rejectedCalls(keyId: string, calls: number, atMs: number): RejectionEntry {
  const reason = { keyId, code: "body_empty", cause: null, detail: "The body is empty." } as const;
  return { ...reason, requestId: "req_1", calls, signals: calls, firstAtMs: atMs, lastAtMs: atMs };
}

test("keeps the counts of a key with recent calls when more keys call than are remembered", () => {
  const bursts = new RejectionBursts();
  const half = REJECTION_BURST_CALLS / 2;
  bursts.countRejected(rejectedCalls("key_loud", half, NOW), half, NOW);
  for (let nth = 0; nth < 1_000; nth++) bursts.countCalls(`key_${nth}`, 1, NOW + 4 * MINUTE);
  const burst = bursts.countRejected(rejectedCalls("key_loud", half, NOW), half, NOW + 4 * MINUTE);
  expect(burst).toMatchObject({ rejected: REJECTION_BURST_CALLS });
});

test("keeps a key quiet after a burst, even when more keys call than are remembered", () => {
  const bursts = new RejectionBursts();
  const burstOf = (keyId: string, atMs: number) => {
    bursts.countCalls(keyId, REJECTION_BURST_CALLS, atMs);
    return bursts.countRejected(rejectedCalls(keyId, REJECTION_BURST_CALLS, atMs), REJECTION_BURST_CALLS, atMs);
  };
  expect(burstOf("key_loud", NOW)).toMatchObject({ rejected: REJECTION_BURST_CALLS });
  for (let nth = 0; nth < 1_000; nth++) bursts.countCalls(`key_${nth}`, 1, NOW);
  // All keys are silent by then, and forgotten for the new key.
  bursts.countCalls("key_new", 1, NOW + 10 * MINUTE);
  expect(burstOf("key_loud", NOW + 11 * MINUTE)).toBeNull();
  expect(burstOf("key_loud", NOW + REJECTION_BURST_QUIET_MS)).toMatchObject({ rejected: REJECTION_BURST_CALLS });
});
