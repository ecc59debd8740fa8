/** Outcome of a step that may be refused. Exceptions are for bugs and platform faults only. */
export type Result<T, R> = { ok: true; value: T } | { ok: false; refusal: R };

export function ok<T>(value: T): { ok: true; value: T } {
  return { ok: true, value };
}

export function refuse<R>(refusal: R): { ok: false; refusal: R } {
  return { ok: false, refusal };
}
