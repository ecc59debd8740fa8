/**
 * Makes `Date` tell a time ahead of the real clock, or behind it. It has no imports, because it also runs as text: in
 * browsers and at the start of Node processes. A second call changes nothing.
 */
export function shiftDate(aheadMs: number): void {
  if (aheadMs === 0 || "aheadMs" in Date) return;
  const now = Date.now.bind(Date);
  Date.now = () => now() + aheadMs;
  Object.defineProperty(Date, "aheadMs", { value: aheadMs });
  globalThis.Date = new Proxy(Date, {
    construct: (real, given, newTarget) =>
      Reflect.construct(real, given.length === 0 ? [real.now()] : given, newTarget) as Date,
  });
}
