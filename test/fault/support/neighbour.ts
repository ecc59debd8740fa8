/** A sender of another workspace: a small signal each 50 ms, from a separate process, on a fixed schedule. */
import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";

export const NEIGHBOUR_PAUSE_MS = 50;

export interface NeighbourOrder {
  origin: string;
  path: string;
}

/** One call of the neighbour. */
export interface NeighbourCall {
  /** In milliseconds since 1970, by the schedule. */
  dueMs: number;
  /** From the scheduled time to the end of the answer. */
  ms: number;
  /** 0: no answer. */
  status: number;
}

export interface NeighbourFigures {
  calls: number;
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
  /** Results that are not a 202, and their number. */
  lost: Record<string, number>;
}

export class Neighbour {
  readonly #process = fork(path.join(import.meta.dirname, "neighbour-process.ts"), { serialization: "advanced" });

  /** Sends until `calls` is called. */
  begin(order: NeighbourOrder): void {
    this.#process.send(order);
  }

  /** Sends no more, and waits for the answers. @returns all calls since `begin`. */
  async calls(): Promise<NeighbourCall[]> {
    const ended = new AbortController();
    const onExit = (): void => ended.abort(new Error("the neighbour has ended"));
    this.#process.once("exit", onExit);
    this.#process.send("end");
    const [calls]: NeighbourCall[][] = await once(this.#process, "message", { signal: ended.signal });
    this.#process.off("exit", onExit);
    return calls ?? [];
  }

  stop(): void {
    this.#process.disconnect();
  }
}

/** @returns the figures of the calls that were due in this time. */
export function figuresOf(calls: readonly NeighbourCall[], fromMs: number, toMs: number): NeighbourFigures {
  const due = calls.filter(({ dueMs }) => dueMs >= fromMs && dueMs < toMs);
  const sorted = due.map(({ ms }) => ms).toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  const lost: Record<string, number> = {};
  for (const { status } of due) if (status !== 202) lost[status] = (lost[status] ?? 0) + 1;
  return { calls: due.length, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: sorted.at(-1) ?? 0, lost };
}
