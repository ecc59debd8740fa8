/**
 * Design §8.7: how large an account may become. An account is one row of the store, with all its values and the update
 * that each comes from; a change of it is one row with the value before and the value after. Neither passes
 * ROW_MAX_BYTES, because a row that the platform refuses would end the store's object with everything it is recording.
 */
import { ROW_MAX_BYTES } from "../../limits.ts";

/** Room in a change's row beside its two values, which need a fraction of it. */
const CHANGE_OTHER_BYTES = 10_000;
/** One value at most, for a change holds two. A signal's values never come near it: SIGNAL_MAX_BYTES is a twentieth of a row. */
export const VALUE_MAX_BYTES = (ROW_MAX_BYTES - CHANGE_OTHER_BYTES) / 2;
/** How many of an account's values a refusal names: the largest ones. */
const VALUES_NAMED = 5;

/** A value of an account, by target (`plan`, `attributes.region`), with the bytes that it takes in the account's row. */
export type SizedValues = ReadonlyMap<string, { readonly bytes: number }>;

/**
 * Bytes that a value takes in the account's row, never too few.
 *
 * @param text the value as JSON.
 * @param claim the update that it comes from, as JSON.
 */
export function valueBytes(target: string, text: string, claim: string): number {
  // The target names the value as well as the update; two colons and two commas stand around them.
  return Buffer.byteLength(text) + Buffer.byteLength(claim) + 2 * Buffer.byteLength(JSON.stringify(target)) + 4;
}

/**
 * Why an update must not become part of its account, and what to do about it; null: it may. Nothing of a refused update
 * takes effect: half an update would be no state that the sender has ever described.
 *
 * @param accountBytes what all values of the account take as stored.
 * @param sent the update's values.
 * @param taken those of the update's values that are later than what is stored, and take its place.
 */
export function updateRefusal(
  accountBytes: number,
  stored: SizedValues,
  { sent, taken }: { sent: SizedValues; taken: SizedValues },
): string | null {
  for (const [target, { bytes }] of sent) {
    if (bytes > VALUE_MAX_BYTES) {
      return `The value of \`${target}\` would take ${inBytes(bytes)}, and one value may take ${inBytes(VALUE_MAX_BYTES)}. Send a smaller one.`;
    }
  }
  let after = accountBytes;
  for (const [target, { bytes }] of taken) after += bytes - (stored.get(target)?.bytes ?? 0);
  if (after <= ROW_MAX_BYTES) return null;
  const largest = [...new Map([...stored, ...taken])]
    .sort(([, one], [, other]) => other.bytes - one.bytes)
    .slice(0, VALUES_NAMED)
    .map(([target, { bytes }]) => `\`${target}\` (${inBytes(bytes)})`);
  return (
    `The account would take ${inBytes(after)} with this update, and one account may take ${inBytes(ROW_MAX_BYTES)}. ` +
    `Its largest values would be ${largest.join(", ")}. ` +
    "It stays as it was. Send smaller values for these, then replay this update."
  );
}

function inBytes(bytes: number): string {
  return `${bytes.toLocaleString("en-US")} bytes`;
}
