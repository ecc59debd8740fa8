/** JSON values as senders write them: `null`, `""` and white space mean absent, everywhere. */

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

/** Whether a number has all its digits. JSON.parse loses the last digits beyond 2^53, so different ids would be equal. */
export function isExact(number: number): boolean {
  return Math.abs(number) <= Number.MAX_SAFE_INTEGER;
}

export function kindInWords(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "string") return "a text";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
