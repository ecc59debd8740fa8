/** Waiting for what happens by itself, for as long as a slow machine takes. */

// Those of before a test stops the clock.
const { setTimeout } = globalThis;
const now = performance.now.bind(performance);

/** Until it does not throw. Vitest's own `waitFor` and `poll` would move a stopped clock, and give up after a second. */
export async function until<T>(check: () => T | Promise<T>, timeoutMs = 15_000): Promise<T> {
  for (const giveUpMs = now() + timeoutMs; ;) {
    try {
      // oxlint-disable-next-line no-await-in-loop -- that is what waiting is
      return await check();
    } catch (error) {
      if (now() > giveUpMs) throw error;
    }
    // oxlint-disable-next-line no-await-in-loop -- that is what waiting is
    await new Promise((resolve) => void setTimeout(resolve, 15));
  }
}
