/** Sends three weeks of signals to a Worker whose clock can be set, as if they had come in their time. */
import { setTimeout as sleep } from "node:timers/promises";
import { setClock } from "../worker-clock.ts";
import type { BooksAnswer, OperatorClient } from "../operator-client.ts";
import type { DemoKeys } from "./delivery.ts";
import { imports } from "./imports.ts";
import { mistakes } from "./mistakes.ts";
import { weeks } from "./weeks.ts";

const SETTLE_MS = 30_000;
const POLL_MS = 50;

interface Target {
  origin: string;
  operator: OperatorClient;
  /** The workspace's path below `/operator/`. */
  home: string;
  keys: DemoKeys;
}

/**
 * Sends the weeks. The Worker's clock must stand at their beginning, and is at the real time afterwards.
 *
 * @param watch.onProgress is told what share has been sent, from 0 to 1.
 */
export async function sendThreeWeeks(
  { origin, operator, home, keys }: Target,
  nowMs: number,
  watch: { signal?: AbortSignal; onProgress?: (share: number) => void } = {},
): Promise<void> {
  const send = async (calls: readonly { path: string; body: string | Uint8Array<ArrayBuffer> }[]) => {
    for (const { path, ...call } of calls) {
      watch.signal?.throwIfAborted();
      const answer = await fetch(origin + path, { method: "POST", ...call });
      await answer.body?.cancel();
    }
    await waitUntilProcessed(operator, home);
  };
  const hours = weeks(nowMs, keys);
  for (const [index, { atMs, calls }] of hours.entries()) {
    watch.onProgress?.(index / hours.length);
    await setClock(origin, atMs);
    await send(calls);
  }
  await setClock(origin, nowMs - 3_600_000);
  const others = [imports, mistakes].flatMap((sender) => sender(keys).deliveries);
  await send(others.flatMap(({ calls }) => calls));
  await setClock(origin, "now");
}

/** Waits until nothing is in flight any more. @throws Error when that takes too long. */
export async function waitUntilProcessed(operator: OperatorClient, home: string): Promise<void> {
  for (const untilMs = Date.now() + SETTLE_MS; Date.now() < untilMs; await sleep(POLL_MS)) {
    if ((await operator.get<BooksAnswer>(`${home}/books`)).in_flight === 0) return;
  }
  throw new Error("The signals are still in flight.");
}
