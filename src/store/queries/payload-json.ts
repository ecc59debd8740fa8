/** A payload is shown as JSON; one that is not (which only a dead letter can hold) as its text. */
export function parsed(payload: string | null): unknown {
  if (payload === null) return null;
  try {
    return JSON.parse(payload);
  } catch {
    return payload;
  }
}
