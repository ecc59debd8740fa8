/** When a sender has said something: `null`, `""` and white space mean absent, everywhere. */

export function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === "string" && value.trim() === "");
}

/** Trimmed text, as it can be stored; undefined for what is no text or blank. */
export function presentText(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  return value.trim().toWellFormed() || undefined;
}
