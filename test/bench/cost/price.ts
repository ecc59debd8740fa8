/** What is counted becomes dollars. Pure. */
import type { PriceList } from "./prices.ts";
import { ITEMS, amountOf } from "./usage.ts";
import type { Item, Usage } from "./usage.ts";

/** One line of a bill. */
export interface Charge {
  item: Item;
  /** Of the item, for one signal or call. */
  each: number;
  /** For a million of them, in US dollars. */
  dollars: number;
}

export interface Bill {
  charges: Charge[];
  /** Their sum: a million signals or calls, in US dollars. */
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

/** Of lists in order of time, the one that holds on a day. @throws before the first. */
export function pricesOn(lists: readonly PriceList[], day: Date): PriceList {
  const list = lists.findLast(({ from }) => Date.parse(from) <= day.getTime());
  if (list === undefined) throw new Error(`no prices are known for ${day.toISOString()}`);
  return list;
}
