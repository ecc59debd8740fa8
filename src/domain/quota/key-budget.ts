/**
 * The budget of a key: a signal limit for each billing period, on accepted and held ordinals. It belongs to the first key of a rotation
 * chain, so a rotation does not reset the count, and an overlap does not double it.
 */

/** By the id of the first key. */
export type ByFirstKey = Readonly<Record<string, number>>;

export interface KeyBudgets {
  /** Signal limits. Most keys have none. */
  budgets: ByFirstKey;
  /** Ordinals of the period that count against the limits. */
  budgetUse: ByFirstKey;
}

export const NO_BUDGETS: KeyBudgets = { budgets: {}, budgetUse: {} };

/** Signals that the budget still allows in the period; infinity: there is none. */
export function roomOfKey({ budgets, budgetUse }: KeyBudgets, firstKeyId: string): number {
  const limit = budgets[firstKeyId];
  return limit === undefined ? Infinity : Math.max(0, limit - (budgetUse[firstKeyId] ?? 0));
}

/** Levels in percent that are announced, ascending. */
const KEY_LEVELS = [80, 100] as const;
export type KeyLevel = (typeof KEY_LEVELS)[number];

/** The highest level that is reached; null: below all. */
export function keyLevel(used: number, signalLimit: number): KeyLevel | null {
  return KEY_LEVELS.findLast((percent) => used > 0 && used * 100 >= signalLimit * percent) ?? null;
}

export interface KeyLevelReached {
  firstKeyId: string;
  level: KeyLevel;
  used: number;
  signalLimit: number;
}

/**
 * The levels that a change has reached. The counts before and after decide, so a level is announced once, and again only if a higher limit
 * or a new period made it unreached in between.
 */
export function newKeyLevels(before: KeyBudgets, now: KeyBudgets): KeyLevelReached[] {
  if (before.budgets === now.budgets && before.budgetUse === now.budgetUse) return [];
  return Object.entries(now.budgets).flatMap(([firstKeyId, signalLimit]) => {
    const used = now.budgetUse[firstKeyId] ?? 0;
    const limitBefore = before.budgets[firstKeyId];
    const levelBefore = limitBefore === undefined ? null : keyLevel(before.budgetUse[firstKeyId] ?? 0, limitBefore);
    const isNew = (level: KeyLevel) => used * 100 >= signalLimit * level && level > (levelBefore ?? 0);
    return used === 0 ? [] : KEY_LEVELS.filter(isNew).map((level) => ({ firstKeyId, level, used, signalLimit }));
  });
}

/** The counts of keys that still have a budget. */
export function useWithin(budgetUse: ByFirstKey, budgets: ByFirstKey): ByFirstKey {
  return Object.fromEntries(Object.entries(budgetUse).filter(([firstKeyId]) => Object.hasOwn(budgets, firstKeyId)));
}
