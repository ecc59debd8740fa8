/** The accounts of the model: each field has its last received value, and one change for each new value. */
import type { Model } from "./model.ts";
import type { AccountChange } from "./workspace.ts";

export interface ModelAccount {
  external_id: string;
  user_count: number;
  plan: string | null;
  first_seen: string;
  last_seen: string;
  /**
   * Changes by field, the latest first. Null if a value was sent more than twice, because the result then depends on
   * the order of delivery.
   */
  changes: Record<"user_count" | "plan", AccountChange[] | null>;
}

export const accountId = (account: number): string => `acme-${account}`;

export function accountsOf(model: Model): ModelAccount[] {
  const updates = model.effective().filter(({ kind }) => kind === "account");
  return [...Map.groupBy(updates, ({ person }) => person)].map(([account, own]) => {
    const plans = own.filter(({ event }) => event !== "");
    const times = own.map(({ atMs }) => new Date(atMs).toISOString());
    return {
      external_id: accountId(account),
      user_count: own.at(-1)?.n ?? 0,
      plan: plans.at(-1)?.event ?? null,
      first_seen: times[0] ?? "",
      last_seen: times.at(-1) ?? "",
      changes: {
        user_count: changesOf(
          "user_count",
          own.map(({ n, ...update }) => ({ ...update, value: n })),
        ),
        plan: changesOf(
          "plan",
          plans.map(({ event, ...update }) => ({ ...update, value: event })),
        ),
      },
    };
  });
}

function changesOf(
  field: string,
  values: readonly { value: unknown; atMs: number; id: string }[],
): AccountChange[] | null {
  const counts = Map.groupBy(values, ({ value }) => value);
  if ([...counts.values()].some(({ length }) => length > 2)) return null;
  let before: unknown = null;
  const changes: AccountChange[] = [];
  for (const { value, atMs, id } of values) {
    const at = new Date(atMs).toISOString();
    if (value !== before) changes.unshift({ field, before, after: value, at, signal_id: id });
    before = value;
  }
  return changes;
}
