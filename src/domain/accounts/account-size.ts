/**
 * The maximum size of an account. Its values are one row of the store, and each change is a row with the
 * values before and after. The platform would reject a larger row, and the store would lose what it is recording.
 */
import { ROW_MAX_BYTES } from "../../limits.ts";
import { counted } from "../text.ts";

/** Room in a change's row for everything except its two values. */
const CHANGE_OTHER_BYTES = 10_000;
/** The values of a signal always fit. */
export const VALUE_MAX_BYTES = (ROW_MAX_BYTES - CHANGE_OTHER_BYTES) / 2;
const VALUES_NAMED = 5;

export type SizedValues = ReadonlyMap<string, { readonly bytes: number }>;

/** Upper bound of the bytes that a value takes in the account's row. @param claim the update that set it, as JSON. */
export function valueBytes(target: string, text: string, claim: string): number {
  // The target appears twice, for the value and for its update, each with a colon and a comma.
  return Buffer.byteLength(text) + Buffer.byteLength(claim) + 2 * Buffer.byteLength(JSON.stringify(target)) + 4;
}

/**
 * Why an update is rejected, and what to do; null: it fits. A rejected update changes nothing, because half an update
 * would be a state that the sender never described.
 *
 * @param taken the values of the update that replace stored ones.
 */
export function updateRejection(
  accountBytes: number,
  stored: SizedValues,
  { sent, taken }: { sent: SizedValues; taken: SizedValues },
): string | null {
  for (const [target, { bytes }] of sent) {
    if (bytes > VALUE_MAX_BYTES) {
      return `The value of \`${target}\` would take ${counted(bytes, "byte")}, and one value may take ${counted(VALUE_MAX_BYTES, "byte")}. Send a smaller one.`;
    }
  }
  let after = accountBytes;
  for (const [target, { bytes }] of taken) after += bytes - (stored.get(target)?.bytes ?? 0);
  if (after <= ROW_MAX_BYTES) return null;
  const largest = [...new Map([...stored, ...taken])]
    .sort(([, a], [, b]) => b.bytes - a.bytes)
    .slice(0, VALUES_NAMED)
    .map(([target, { bytes }]) => `\`${target}\` (${counted(bytes, "byte")})`);
  return (
    `The account would take ${counted(after, "byte")} with this update, and one account may take ${counted(ROW_MAX_BYTES, "byte")}. ` +
    `Its largest values would be ${largest.join(", ")}. ` +
    "It stays as it was. Send smaller values for these, then replay this update."
  );
}
