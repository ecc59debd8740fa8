/** A payload as JSON; as its text where it is none, which only a dead letter's can be. */
export function parsed(payload: string | null): unknown {
  if (payload === null) return null;
  try {
    return JSON.parse(payload);
  } catch {
    return payload;
  }
}
