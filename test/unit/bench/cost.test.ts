import { describe, expect, it } from "vitest";
import {
  DEPLOYMENTS,
  reportCapacity,
  billFor,
  pricesOn,
  PRICE_LISTS,
  type PriceList,
} from "../../bench/cost/prices.ts";
import { ITEMS, addUsage, queueOperations, type Item, type Usage } from "../../bench/cost/usage.ts";

const free = Object.fromEntries(ITEMS.map((item) => [item, 0])) as Record<Item, number>;
const list = (from: string, perMillion: Partial<Record<Item, number>>): PriceList => ({
  from,
  perMillion: { ...free, ...perMillion },
  gigabyteMonth: { objects: 0, d1: 0, r2: 0 },
});

describe("the bill of the cost bench", () => {
  it("charges each item per million signals, at any count", () => {
    const usage: Usage = {};
    addUsage(usage, "object_rows_written", "QuotaCounter INSERT outbox", 200);
    addUsage(usage, "object_rows_written", "QuotaCounter setAlarm", 30);
    addUsage(usage, "object_gb_seconds", "QuotaCounter", 4);
    const bill = billFor(usage, 100, list("2026-01-01", { object_rows_written: 1, object_gb_seconds: 12.5 }));
    expect(bill.dollars).toBeCloseTo(2.3 + 0.5);
    expect(bill.charges.find(({ item }) => item === "object_rows_written")).toEqual({
      item: "object_rows_written",
      each: 2.3,
      dollars: 2.3,
    });
  });

  it("charges nothing for unused resources", () => {
    expect(billFor({}, 1, list("2026-01-01", { d1_rows_written: 1 })).dollars).toBe(0);
  });

  it("uses the current prices", () => {
    const lists = [list("2026-01-01", {}), list("2026-12-01", {})];
    expect(pricesOn(lists, new Date("2026-11-30T23:59:59.999Z")).from).toBe("2026-01-01");
    expect(pricesOn(lists, new Date("2026-12-01T00:00:00Z")).from).toBe("2026-12-01");
    expect(() => pricesOn(lists, new Date("2025-12-31"))).toThrow("no prices are known");
  });

  it("lists prices in order of time", () => {
    const days = PRICE_LISTS.map(({ from }) => from);
    expect(days).toEqual(days.toSorted());
  });

  it("charges a queue message for each 64 KB, including the queue's overhead", () => {
    expect([1, 63_900, 63_901, 127_900, 127_901].map(queueOperations)).toEqual([1, 1, 2, 2, 3]);
  });
});

describe("the table of deployments", () => {
  const costs = [
    { name: "alone, 1/s", dollars: 7.18 },
    { name: "batches of 100", dollars: 2.04 },
  ];

  it("shows the cost of a month's signals and of health requests", () => {
    const lines = reportCapacity(costs, 0.03, 0.15).split("\n");
    expect(lines).toHaveLength(DEPLOYMENTS.length + 3);
    expect(lines[2]).toBe("| 10 workspaces, one signal a second each | 26.3 million | $7.18 | $189 | $0.79 | $0.03 |");
    expect(lines[4]).toContain("| 2,630 million | $7.18 | $18,900 | $78.9 | $26.3 |");
  });

  it("fails if a shape was not measured", () => {
    expect(() => reportCapacity([], 0, 0)).toThrow("alone, 1/s was not measured");
  });
});
