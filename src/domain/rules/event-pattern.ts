/** Which events a mapping rule is about: an event's name, or a pattern of names in which `*` stands for any run of characters. */
import { fitsName } from "../signal/validate-signal.ts";

/** An event name, or a pattern of one in which `*` stands for any run of characters, also none. */
export function isEventPattern(pattern: string): boolean {
  return pattern.trim() !== "" && fitsName(pattern);
}

/** The literal parts of an event pattern between its `*`. */
export interface Wildcard {
  readonly first: string;
  readonly middle: readonly string[];
  readonly last: string;
}

/** The parts of a pattern with a `*` in it; null: it is an event's name as it stands. */
export function wildcardOf(pattern: string): Wildcard | null {
  const [first = "", ...parts] = pattern.split("*");
  const last = parts.pop();
  return last === undefined ? null : { first, middle: parts.filter((part) => part !== ""), last };
}

/** Looks for each part at its first possible place: where that fails, no other place helps, so nothing is tried twice. */
export function fitsWildcard({ first, middle, last }: Wildcard, event: string): boolean {
  const end = event.length - last.length;
  if (end < first.length || !event.startsWith(first) || !event.endsWith(last)) return false;
  let at = first.length;
  for (const part of middle) {
    const found = event.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/** The events that a pattern can fit: all begin with `prefix`, or are just that where `exact`. */
export function eventRange(pattern: string): { prefix: string; exact: boolean } {
  const [prefix = "", ...rest] = pattern.trim().split("*");
  return { prefix, exact: rest.length === 0 };
}
