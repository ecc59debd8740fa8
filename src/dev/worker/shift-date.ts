/**
 * Makes `Date` show a time ahead of the real clock, or behind it. It has no imports, because it also runs as text: in
 * browsers and at the start of Node processes. It can be called again, because Vitest's real timers restore the first `Date`.
 */
export function shiftDate(aheadMs: number): void {
  if (aheadMs === 0) return;
  if (!("aheadMs" in Date)) {
    const now = Date.now.bind(Date);
    Date.now = () => now() + aheadMs;
    Object.defineProperty(Date, "aheadMs", { value: aheadMs });
  }
  globalThis.Date = new Proxy(Date, {
    construct: (real, given, newTarget) =>
      Reflect.construct(real, given.length === 0 ? [real.now()] : given, newTarget) as Date,
  });
}
