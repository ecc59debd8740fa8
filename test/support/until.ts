/** Waits for an asynchronous effect, as long as a slow machine needs. */

// The real timers, kept before a test stops the clock.
const { setTimeout } = globalThis;
const now = performance.now.bind(performance);

/**
 * Repeats a check until it does not throw. Vitest's `waitFor` and `poll` would move a stopped clock, and stop after a
 * second.
 */
export async function until<T>(check: () => T | Promise<T>, timeoutMs = 15_000): Promise<T> {
  for (const giveUpMs = now() + timeoutMs; ;) {
    try {
      return await check();
    } catch (error) {
      if (now() > giveUpMs) throw error;
    }
    await new Promise((resolve) => void setTimeout(resolve, 15));
  }
}
