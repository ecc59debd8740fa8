import { expect, test } from "vitest";
import type { Rejection } from "../../../src/domain/keys/refusal.ts";
import { REFUSAL_BURST_CALLS, REFUSAL_BURST_QUIET_MS, RefusalBursts } from "../../../src/quota/refusals.ts";

const NOW = Date.UTC(2031, 2, 5, 12);
const MINUTE = 60_000;

function refusedCalls(keyId: string, calls: number, atMs: number): Rejection {
  const reason = { keyId, code: "body_empty", cause: null, detail: "The body is empty." } as const;
  return { ...reason, requestId: "req_1", calls, signals: calls, firstAtMs: atMs, lastAtMs: atMs };
}

test("keeps the counts of a key with recent calls when more keys call than are remembered", () => {
  const bursts = new RefusalBursts();
  const half = REFUSAL_BURST_CALLS / 2;
  bursts.countRefused(refusedCalls("key_loud", half, NOW), half, NOW);
  for (let nth = 0; nth < 1_000; nth++) bursts.countCalls(`key_${nth}`, 1, NOW + 4 * MINUTE);
  const burst = bursts.countRefused(refusedCalls("key_loud", half, NOW), half, NOW + 4 * MINUTE);
  expect(burst).toMatchObject({ refused: REFUSAL_BURST_CALLS });
});

test("keeps a key quiet after a burst, even when more keys call than are remembered", () => {
  const bursts = new RefusalBursts();
  const burstOf = (keyId: string, atMs: number) => {
    bursts.countCalls(keyId, REFUSAL_BURST_CALLS, atMs);
    return bursts.countRefused(refusedCalls(keyId, REFUSAL_BURST_CALLS, atMs), REFUSAL_BURST_CALLS, atMs);
  };
  expect(burstOf("key_loud", NOW)).toMatchObject({ refused: REFUSAL_BURST_CALLS });
  for (let nth = 0; nth < 1_000; nth++) bursts.countCalls(`key_${nth}`, 1, NOW);
  // All keys are silent by then, and forgotten for the new key.
  bursts.countCalls("key_new", 1, NOW + 10 * MINUTE);
  expect(burstOf("key_loud", NOW + 11 * MINUTE)).toBeNull();
  expect(burstOf("key_loud", NOW + REFUSAL_BURST_QUIET_MS)).toMatchObject({ refused: REFUSAL_BURST_CALLS });
});
