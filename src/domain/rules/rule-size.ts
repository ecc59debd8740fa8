/**
 * How much mapping rules amount to: what bounds the memory that they take when they are compiled, and the time that a
 * signal without arrays takes to go through them.
 */
import type { MappingRule } from "./mapping-rule.ts";

/** A path or value that is longer counts as one for each so many characters. */
const CHARACTERS_COUNTED_AS_ONE = 50;

/** The size of a rule: one for each path and each value of the conditions, and for each `*` of the event pattern. */
export function ruleSize({ event, conditions }: Pick<MappingRule, "event" | "conditions">): number {
  let size = event.split("*").length - 1;
  for (const { path, value } of conditions) {
    size += sizeOf(path);
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) size += sizeOf(String(one));
  }
  return size;
}

function sizeOf(text: string): number {
  return Math.max(1, Math.ceil(text.length / CHARACTERS_COUNTED_AS_ONE));
}
