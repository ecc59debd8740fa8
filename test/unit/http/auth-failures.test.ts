/** Networks that fail to authenticate too often (spec §3.1): module state, so each test has networks of its own. */
import { expect, test } from "vitest";
import { countFailure, lookupWaitMs } from "../../../src/http/auth-failures.ts";

const NOW = Date.UTC(2031, 2, 5, 12);

test("shares 50 look-ups a second among networks beyond the failure limit, while other networks do not wait", async () => {
  const exceeded: RateLimit = { limit: () => Promise.resolve({ success: false }) };
  for (const network of ["192.0.2.1", "192.0.2.2"]) expect(await countFailure(exceeded, network, NOW)).toBe(10_000);
  const waits = Array.from({ length: 51 }, (_, nth) => lookupWaitMs(`192.0.2.${1 + (nth % 2)}`, NOW));
  expect(waits.slice(0, 50)).toEqual(Array.from({ length: 50 }, () => 0));
  expect(waits[50]).toBe(10_000);
  expect(lookupWaitMs("192.0.2.3", NOW)).toBe(0);
  expect(lookupWaitMs("192.0.2.1", NOW + 20)).toBe(0);
});

test("forgets a penalty that began in the future, because the clock was set back", async () => {
  const limiter = (success: boolean): RateLimit => ({ limit: () => Promise.resolve({ success }) });
  expect(await countFailure(limiter(false), "192.0.2.9", NOW)).toBe(10_000);
  expect(await countFailure(limiter(true), "192.0.2.9", NOW + 9_999)).toBe(1);
  expect(await countFailure(limiter(true), "192.0.2.9", NOW - 1)).toBe(0);
});
