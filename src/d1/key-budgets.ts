/** Budgets of API keys (domain/quota/key-budget.ts). Each change raises the version of the workspace's configuration, which brings them. */
import { and, eq, sql, type SQL } from "drizzle-orm";
import type { BatchItem } from "drizzle-orm/batch";
import { findKey, type ApiKey } from "./api-keys.ts";
import { auditEntry } from "./audit.ts";
import { hasRow, insertIf, keyBudgets, workspaces, type ControlContext } from "./database.ts";
import { raiseVersionIf } from "./workspaces.ts";

/** Sets or removes (null) a budget in D1 only; the caller then configures the counter. @returns null: unknown key in this workspace. */
export async function setSignalLimit(
  context: ControlContext,
  keyId: string,
  signalLimit: number | null,
): Promise<ApiKey | null> {
  const { db, workspaceId, by } = context;
  const key = await findKey(db, workspaceId, keyId);
  if (key === null) return null;
  const { firstKeyId } = key;
  const current = sql`(SELECT signal_limit FROM ${keyBudgets} WHERE first_key_id = ${firstKeyId})`;
  const isChange = hasRow(workspaces, and(eq(workspaces.id, workspaceId), sql`${current} IS NOT ${signalLimit}`));
  const detail = { signal_limit: signalLimit };
  await db.batch([
    auditEntry(db, by, { workspaceId, action: "key.limit_changed", target: keyId, detail }, isChange),
    ...changeBudget(context, firstKeyId, signalLimit, isChange),
  ]);
  return findKey(db, workspaceId, keyId);
}

/** The statements that change a budget if the condition holds; their own change comes last, because the condition may read it. */
export function changeBudget(
  { db, workspaceId, by }: ControlContext,
  firstKeyId: string,
  signalLimit: number | null,
  condition: SQL,
): BatchItem<"sqlite">[] {
  const set = { signalLimit: signalLimit ?? 0 };
  const change =
    signalLimit === null
      ? db.delete(keyBudgets).where(and(eq(keyBudgets.firstKeyId, firstKeyId), condition))
      : insertIf(db, keyBudgets, { firstKeyId, workspaceId, ...set }, condition).onConflictDoUpdate({
          target: keyBudgets.firstKeyId,
          set,
        });
  return [...raiseVersionIf(db, workspaceId, by.nowMs, condition), change];
}
