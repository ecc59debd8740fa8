/** What the addresses of lists have in common. Pure. */
import { IDENTITY_MAX_LENGTH } from "../limits.ts";

/** The query of an address. */
export type Asked = Record<string, string>;

/** The text to look for, of whole characters, because halves cannot be compared, and as long as an email or id at most. */
export function searchText(asked: Asked): string {
  return (asked["q"] ?? "").toWellFormed().trim().slice(0, IDENTITY_MAX_LENGTH);
}

/** The choice that a text names, else the usual one. */
export function choiceOf<Key extends string>(of: Record<Key, string>, value: string | undefined, otherwise: Key): Key {
  return value !== undefined && Object.hasOwn(of, value) ? (value as Key) : otherwise;
}

/** The parts of an address that say something, for the address of the next page. */
export function shownOf(parts: Record<string, string | undefined>): Asked {
  const shown: Asked = {};
  for (const [name, value] of Object.entries(parts)) if (value !== undefined && value !== "") shown[name] = value;
  return shown;
}
