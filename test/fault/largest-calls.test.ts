/** Design §7: the Quota Counter takes the largest bodies within its memory, and other calls wait little for them. */
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { measureLargestCall, tooLarge } from "../bench/largest-calls.ts";
import { LARGEST_BODIES } from "../support/largest-bodies.ts";
import { note } from "../support/amount.ts";

/** gzip makes no difference here: the edge unpacks a body. */
const bodies = LARGEST_BODIES.filter(({ gzip }) => gzip === undefined);

test.each(bodies)(
  "$title: the counter grows by at most 48 MB, and another call waits at most 100 ms beside one, or two at once",
  async (body) => {
    const folder = await mkdtemp(path.join(os.tmpdir(), "signal-ingestion-largest-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const measured = await measureLargestCall(body, folder);
    note(JSON.stringify(measured));
    expect(tooLarge(measured)).toEqual([]);
  },
  60_000,
);
