/** Converts counts into dollars. Pure. */
import type { PriceList } from "./prices.ts";
import { ITEMS, amountOf } from "./usage.ts";
import type { Item, Usage } from "./usage.ts";

/** One line of a bill. */
export interface Charge {
  item: Item;
  /** Amount of the item per signal or call. */
  each: number;
  /** US dollars per million. */
  dollars: number;
}

export interface Bill {
  charges: Charge[];
  /** Total in US dollars per million signals or calls. */
  dollars: number;
}

/** @param count how many signals or calls caused the usage. */
export function billFor(usage: Usage, count: number, prices: PriceList): Bill {
  const charges = ITEMS.map((item): Charge => {
    const each = amountOf(usage, item) / count;
    return { item, each, dollars: each * prices.perMillion[item] };
  });
  return { charges, dollars: charges.reduce((sum, charge) => sum + charge.dollars, 0) };
}

/** The price list in force on a day, from lists sorted by date. @throws before the first. */
export function pricesOn(lists: readonly PriceList[], day: Date): PriceList {
  const list = lists.findLast(({ from }) => Date.parse(from) <= day.getTime());
  if (list === undefined) throw new Error(`no prices are known for ${day.toISOString()}`);
  return list;
}
