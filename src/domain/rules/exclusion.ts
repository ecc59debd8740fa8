/** Exclusions: what should not score, such as own staff, test traffic and scanners that click each link of a mail. */
import type { MappingCondition } from "./comparators.ts";

/** A signal that its conditions cover is recorded like others, and never scores. */
export interface ExclusionContent {
  /** Unique among the exclusions of a workspace. */
  name: string;
  match: "all" | "any";
  /** At least one. */
  conditions: MappingCondition[];
}

export interface Exclusion extends ExclusionContent {
  /** `exc_` and a UUIDv7. Lines name it. */
  id: string;
}

export interface ImportedExclusion extends ExclusionContent {
  id?: string | undefined;
}

export function exclusionContent({ name, match, conditions }: ExclusionContent): ExclusionContent {
  return { name, match, conditions };
}

export function isSameExclusion(a: ExclusionContent, b: ExclusionContent): boolean {
  return JSON.stringify(exclusionContent(a)) === JSON.stringify(exclusionContent(b));
}

/** The known exclusion that an item replaces: that with its id, else that with its name. */
function knownAs({ id, name }: ImportedExclusion, known: readonly Exclusion[]): Exclusion | undefined {
  return known.find((one) => one.id === id) ?? known.find((one) => one.name === name);
}

/**
 * Gives each item the id of the exclusion that it replaces, or a new one.
 *
 * @param newId makes an id that no exclusion has.
 */
export function withIds(
  items: readonly ImportedExclusion[],
  known: readonly Exclusion[],
  newId: () => string,
): Exclusion[] {
  const taken = new Set<string>();
  return items.map((item) => {
    const before = knownAs(item, known);
    const id = before === undefined || taken.has(before.id) ? newId() : before.id;
    taken.add(id);
    return { id, ...exclusionContent(item) };
  });
}

/** Exclusions after an import: it changes those that it names, adds others, and keeps the rest. */
export function afterExclusionImport(
  known: readonly Exclusion[],
  items: readonly ImportedExclusion[],
  newId: () => string,
): Exclusion[] {
  const imported = withIds(items, known, newId);
  const byId = new Map(imported.map((exclusion) => [exclusion.id, exclusion]));
  const kept = known.map((before) => byId.get(before.id) ?? before);
  return [...kept, ...imported.filter(({ id }) => known.every((before) => before.id !== id))];
}

/** The names of exclusions that a change adds, changes and removes. A change of the order alone changes none. */
export function exclusionChanges(before: readonly Exclusion[], after: readonly Exclusion[]) {
  const [known, left] = [new Map(before.map((one) => [one.id, one])), new Set(after.map(({ id }) => id))];
  const names = (exclusions: readonly Exclusion[]): string[] => exclusions.map(({ name }) => name);
  return {
    added: names(after.filter(({ id }) => !known.has(id))),
    changed: names(
      after.filter((one) => {
        const earlier = known.get(one.id);
        return earlier !== undefined && !isSameExclusion(earlier, one);
      }),
    ),
    removed: names(before.filter(({ id }) => !left.has(id))),
  };
}

/** Indexes of items whose name an earlier item has. */
export function repeatedNames(items: readonly ExclusionContent[]): number[] {
  const names = items.map(({ name }) => name);
  return names.flatMap((name, index) => (names.indexOf(name) < index ? [index] : []));
}
