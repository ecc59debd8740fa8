/** A limit to the time that a call of something else may take. */

/**
 * Settles as `work` does, or fails when that takes longer than `maxMs`; the work itself goes on, and what becomes of it then
 * is nobody's any more.
 */
export async function within<T>(maxMs: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${maxMs} ms`)), maxMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
