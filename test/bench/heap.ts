/** The memory of a Worker and its objects after garbage collection, read from its inspector. */
import type { Miniflare } from "miniflare";
import * as z from "zod";
import { inspect } from "./inspector.ts";

const Usage = z.object({ usedSize: z.number(), backingStorageSize: z.number().default(0) });

/** @param miniflare started with an inspector; `worker` is the name of a Worker of it. */
export function heapBytes(miniflare: Miniflare, worker: string): Promise<number> {
  return inspect(miniflare, worker, async (ask) => {
    await ask("HeapProfiler.enable");
    await ask("HeapProfiler.collectGarbage");
    const { usedSize, backingStorageSize } = Usage.parse(await ask("Runtime.getHeapUsage"));
    return usedSize + backingStorageSize;
  });
}
