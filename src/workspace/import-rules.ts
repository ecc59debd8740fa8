/** Importing mapping rules: what would become of each is decided first, and all of it is done, or nothing. */
import type { Change, ControlDatabase } from "../control/database.ts";
import { readAllRules, writeImport } from "../control/rule-changes.ts";
import type { StoredRule } from "../control/stored-rules.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import {
  afterImport,
  planImport,
  type ImportedRule,
  type ImportRefusal,
  type ImportStep,
} from "../domain/rules/rule-import.ts";
import { WORKSPACE_MAX_RULES, WORKSPACE_RULES_MAX_SIZE } from "../limits.ts";

/** Why a rule of an import stops all of it. */
export const IMPORT_REFUSAL = {
  name_ambiguous: "several rules here have this name: rename all but one of them, or say the id of one",
  twice: "an earlier rule of this import changes the same rule",
} as const satisfies Record<ImportRefusal, string>;

export type RuleImportStep = ImportStep<StoredRule>;

export interface RuleImport {
  /** What becomes of each rule, in the order of the import. */
  steps: RuleImportStep[];
  /** Why there is no room for the import as a whole; null: it can be done, unless a step is refused. */
  noRoom: "too_many_rules" | "rules_too_large" | null;
  /** Version of the workspace's rules that the steps were decided on. */
  rulesVersion: number;
}

/** Decides what an import would do; changes nothing. */
export async function planRuleImport(
  db: ControlDatabase,
  workspaceId: string,
  imported: readonly ImportedRule[],
): Promise<RuleImport> {
  const { rules, rulesVersion } = await readAllRules(db, workspaceId);
  const steps = planImport(rules, imported);
  const { count, size } = afterImport(rules, steps);
  const isTooLarge = size > WORKSPACE_RULES_MAX_SIZE;
  const noRoom = count > WORKSPACE_MAX_RULES ? "too_many_rules" : isTooLarge ? "rules_too_large" : null;
  return { steps, noRoom, rulesVersion };
}

export function canBeDone({ steps, noRoom }: RuleImport): boolean {
  return noRoom === null && steps.every(({ what }) => what !== "refused");
}

export interface ImportDone {
  plan: RuleImport;
  /** Ids of the rules that were added, in the order of the import. */
  addedIds: string[];
}

/**
 * @param rulesVersion version of the rules that a preview was made on; undefined: whatever the rules are.
 * @returns what was done; or the plan, where it cannot be done or is not the preview's any more.
 */
export async function importRules(
  db: ControlDatabase,
  workspaceId: string,
  imported: readonly ImportedRule[],
  by: Change,
  rulesVersion?: number,
): Promise<Result<ImportDone, { why: "not_possible" | "changed_meanwhile"; plan: RuleImport }>> {
  for (let attempt = 1; ; attempt++) {
    // oxlint-disable-next-line no-await-in-loop -- once more only where rules were changed in between
    const plan = await planRuleImport(db, workspaceId, imported);
    if (rulesVersion !== undefined && plan.rulesVersion !== rulesVersion) {
      return refuse({ why: "changed_meanwhile", plan });
    }
    if (!canBeDone(plan)) return refuse({ why: "not_possible", plan });
    // oxlint-disable-next-line no-await-in-loop
    const addedIds = await write(db, workspaceId, plan, by);
    if (addedIds !== null) return ok({ plan, addedIds });
    if (attempt === IMPORT_ATTEMPTS) return refuse({ why: "changed_meanwhile", plan });
  }
}

/** How often an import is tried while others change rules of the workspace. */
const IMPORT_ATTEMPTS = 5;

async function write(
  db: ControlDatabase,
  workspaceId: string,
  { steps, rulesVersion }: RuleImport,
  by: Change,
): Promise<string[] | null> {
  const added = steps.flatMap((step) => (step.what === "added" ? [step.rule] : []));
  const changed = steps.flatMap((step) => (step.what === "changed" ? [{ id: step.before.id, rule: step.rule }] : []));
  if (added.length + changed.length === 0) return [];
  return writeImport(db, workspaceId, { added, changed }, rulesVersion, by);
}
