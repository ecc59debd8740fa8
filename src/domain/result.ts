/** Outcome of a step that may be rejected. Exceptions are for bugs and platform faults only. */
export type Result<T, R> = { ok: true; value: T } | { ok: false; rejection: R };

export function ok<T>(value: T): { ok: true; value: T } {
  return { ok: true, value };
}

export function reject<R>(rejection: R): { ok: false; rejection: R } {
  return { ok: false, rejection };
}
