/**
 * The list prices in US dollars per million, beyond the included amounts. Read on 22 November 2026 from Cloudflare's
 * pricing pages of Workers, Durable Objects, D1, Queues, R2 and Workers Logs. All prices are in this file. Below them: the bill of counted usage, and of whole
 * deployments.
 */
import { amountOf, ITEMS, type Item, type Usage } from "./usage.ts";

export interface PriceList {
  /** The first day on which it is in force, UTC. */
  from: string;
  perMillion: Record<Item, number>;
  /** For a gigabyte stored for a month. */
  gigabyteMonth: { objects: number; d1: number; r2: number };
}

const UNTIL_NOVEMBER: PriceList = {
  from: "2026-01-01",
  perMillion: {
    // A run of a queue consumer is a request too. Calls from a Worker to its bindings are free.
    worker_requests: 0.3,
    worker_cpu_ms: 0.02,
    // Each call of a method is one, and each alarm.
    object_requests: 0.15,
    object_gb_seconds: 12.5,
    // An index entry, a deleted row and a call of setAlarm are one written row each.
    object_rows_written: 1,
    object_rows_read: 0.001,
    d1_rows_written: 1,
    d1_rows_read: 0.001,
    queue_operations: 0.4,
    r2_class_a: 4.5,
    r2_class_b: 0.36,
    log_lines: 0.6,
    log_bytes: 0,
  },
  gigabyteMonth: { objects: 0.2, d1: 0.75, r2: 0.015 },
};

/**
 * From December on logs are billed by volume: $0.25 for a gigabyte ingested, and $0.10 for a month of storage, here a
 * week.
 */
const FROM_DECEMBER: PriceList = {
  ...UNTIL_NOVEMBER,
  from: "2026-12-01",
  perMillion: { ...UNTIL_NOVEMBER.perMillion, log_lines: 0, log_bytes: (0.25 + (0.1 * 7) / 30) / 1_000 },
};

/** In order of time. */
export const PRICE_LISTS: readonly PriceList[] = [UNTIL_NOVEMBER, FROM_DECEMBER];

/** One line of a bill. */
interface Charge {
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

/** In US dollars per million signals. */
interface ShapeCost {
  /** The name of the shape in the tables. */
  name: string;
  dollars: number;
}

interface Deployment {
  name: string;
  workspaces: number;
  /** Total of all workspaces. */
  signalsPerSecond: number;
  /** The shape of the traffic; the nearest measured one. */
  shape: string;
}

const MONTH_SECONDS = (365.25 / 12) * 86_400;
/** `GET /operator/health` every five minutes: a call of each of a workspace's two objects. */
const HEALTH_CALLS = (2 * MONTH_SECONDS) / 300;

export const DEPLOYMENTS: readonly Deployment[] = [
  { name: "10 workspaces, one signal a second each", workspaces: 10, signalsPerSecond: 10, shape: "alone, 1/s" },
  { name: "1,000 workspaces, one in ten seconds each", workspaces: 1_000, signalsPerSecond: 100, shape: "alone, 1/s" },
  {
    name: "10,000 workspaces, one in ten seconds each",
    workspaces: 10_000,
    signalsPerSecond: 1_000,
    shape: "alone, 1/s",
  },
  { name: "the same, in batches of 100", workspaces: 10_000, signalsPerSecond: 1_000, shape: "batches of 100" },
  { name: "one workspace, 5,000 a second in batches", workspaces: 1, signalsPerSecond: 5_000, shape: "batches of 100" },
];

/**
 * A Markdown table.
 *
 * @param keptDollars for a million signals stored for a month. @param callDollars for a million calls of objects.
 */
export function reportCapacity(costs: readonly ShapeCost[], keptDollars: number, callDollars: number): string {
  const rows = DEPLOYMENTS.map(({ name, workspaces, signalsPerSecond, shape }) => {
    const cost = costs.find((measured) => measured.name === shape);
    if (cost === undefined) throw new Error(`${shape} was not measured`);
    const millions = (signalsPerSecond * MONTH_SECONDS) / 1_000_000;
    const health = ((workspaces * HEALTH_CALLS) / 1_000_000) * callDollars;
    return [
      name,
      `${whole(millions)} million`,
      `$${cost.dollars.toFixed(2)}`,
      dollars(millions * cost.dollars),
      dollars(millions * keptDollars),
      dollars(health),
    ];
  });
  const head = [
    "Deployment",
    "Signals a month",
    "A million",
    "A month",
    "They, kept a month",
    "Health, every 5 minutes",
  ];
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n") + "\n";
}

function dollars(amount: number): string {
  return amount < 10 ? `$${amount.toFixed(2)}` : `$${whole(amount)}`;
}

/** Three digits, which is the precision of the figures. */
function whole(amount: number): string {
  return Number(amount.toPrecision(3)).toLocaleString("en");
}
