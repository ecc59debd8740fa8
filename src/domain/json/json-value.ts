/** JSON values as senders write them: `null`, `""` and white space mean absent, everywhere. */

/** A JSON object as `JSON.parse` returns it. */
export type JsonObject = { [name: string]: unknown };

/** A payload as JSON; as text if it is not JSON, which only a dead letter's can be. */
export function parsed(payload: string | null): unknown {
  if (payload === null) return null;
  try {
    return JSON.parse(payload);
  } catch {
    return payload;
  }
}

export function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === "string" && value.trim() === "");
}

/** The trimmed, well-formed text; undefined for a blank text or a value of another type. */
export function presentText(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  return value.trim().toWellFormed() || undefined;
}
