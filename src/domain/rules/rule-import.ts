/**
 * Plans an import of mapping rules. An imported rule changes the rule with its id, else the rule with its name;
 * without either it is added. Rules that the import does not mention stay unchanged.
 */
import { contentOf, type RuleContent, ruleDifferences, ruleSize } from "./rule-content.ts";

export interface ImportedRule extends RuleContent {
  id?: string | undefined;
}

/**
 * `name_ambiguous`: several rules have this name. `twice`: the import changes the same rule twice. `added_twice`: it adds two rules of one
 * name, so that the next import of the file would be ambiguous.
 */
export type ImportRejection = "name_ambiguous" | "twice" | "added_twice";

export type ImportStep<Known extends KnownRule> =
  | { result: "added"; rule: RuleContent }
  | { result: "changed"; rule: RuleContent; before: Known }
  | { result: "unchanged"; before: Known }
  | { result: "rejected"; rule: RuleContent; why: ImportRejection };

type KnownRule = RuleContent & { id: string };

export function planImport<Known extends KnownRule>(
  known: readonly Known[],
  imported: readonly ImportedRule[],
): ImportStep<Known>[] {
  const byId = new Map(known.map((rule) => [rule.id, rule]));
  const byName = Map.groupBy(known, ({ name }) => name);
  const taken = new Set<string>();
  const added = new Set<string>();
  return imported.map(({ id, ...content }): ImportStep<Known> => {
    const rule = contentOf(content);
    const named = byName.get(rule.name) ?? [];
    const identified = id === undefined ? undefined : byId.get(id);
    if (identified === undefined && named.length > 1) return { result: "rejected", rule, why: "name_ambiguous" };
    const before = identified ?? named[0];
    if (before === undefined) {
      if (added.has(rule.name)) return { result: "rejected", rule, why: "added_twice" };
      added.add(rule.name);
      return { result: "added", rule };
    }
    if (taken.has(before.id)) return { result: "rejected", rule, why: "twice" };
    taken.add(before.id);
    return ruleDifferences(before, rule).length === 0
      ? { result: "unchanged", before }
      : { result: "changed", rule, before };
  });
}

export function afterImport<Known extends KnownRule>(
  known: readonly Known[],
  steps: readonly ImportStep<Known>[],
): { count: number; size: number } {
  let count = known.length;
  let size = known.reduce((sum, rule) => sum + ruleSize(rule), 0);
  for (const step of steps) {
    if (step.result === "added") count++;
    if (step.result === "added" || step.result === "changed") size += ruleSize(step.rule);
    if (step.result === "changed") size -= ruleSize(step.before);
  }
  return { count, size };
}
