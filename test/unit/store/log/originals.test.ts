/** The memory of content hashes (src/store/log/originals.ts) is bounded. */
import { expect, test } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import { DUPLICATE_WINDOW_WITH_ID_MS } from "../../../../src/limits.ts";
import { Originals } from "../../../../src/store/log/originals.ts";
import { HASH_BYTES } from "../../../../src/domain/signal/canonical-form.ts";

const START = Date.UTC(2026, 5, 1);
const MAX_BYTES = 40 * 1024 * 1024;
/** Two days of them fit. */
const SIGNALS_A_DAY = 1_000_000;

test("drops the oldest days when memory is short, and reports the time that it covers", () => {
  const empty = { hashesReceived: () => [], hashesOf: () => new Uint8Array(), segmentOf: () => null };
  const originals = new Originals(empty);
  originals.find([], START);
  const hash = new Uint8Array(HASH_BYTES);
  const view = new DataView(hash.buffer);
  // The first bit says that the window is long.
  view.setUint8(0, 0x80);
  const covered: number[] = [];
  for (let day = 0; day < 4; day++) {
    const nowMs = START + day * DAY_MS;
    for (let n = 0; n < SIGNALS_A_DAY; n++) {
      const seq = day * SIGNALS_A_DAY + n;
      view.setUint32(1, seq, true);
      originals.add(hash, seq, nowMs);
    }
    covered.push(Math.min(DUPLICATE_WINDOW_WITH_ID_MS, nowMs - originals.coveredSinceMs));
    expect(originals.bytes).toBeLessThanOrEqual(MAX_BYTES);
  }
  expect(covered).toEqual([DUPLICATE_WINDOW_WITH_ID_MS, DUPLICATE_WINDOW_WITH_ID_MS, DAY_MS, DAY_MS]);
});
