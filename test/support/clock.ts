import { onTestFinished, vi } from "vitest";

/** Stops the clock that the test, the Worker and its objects share, until the test ends. It can be called again. */
export function stopClock(nowMs: number): void {
  vi.useFakeTimers({ toFake: ["Date"], now: nowMs });
  onTestFinished(() => void vi.useRealTimers());
}
