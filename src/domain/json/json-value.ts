/** When a sender has said something: `null`, `""` and white space mean absent, everywhere. */

/** A JSON object as `JSON.parse` makes it. */
export type JsonObject = { [name: string]: unknown };

/** A payload as JSON; as its text where it is none, which only a dead letter's can be. */
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

/** Trimmed text, as it can be stored; undefined for what is no text or blank. */
export function presentText(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  return value.trim().toWellFormed() || undefined;
}
