/** The figures as Markdown, as the README.md here shows them. */
import { reportCapacity, billFor, type Bill, type PriceList } from "./prices.ts";
import { MAX_REJECTED_DOLLARS, type IdleCost, type RejectedFlood } from "./rejections.ts";
import type { NotificationCost } from "./notifications.ts";
import type { Kept, Measured, Shape } from "./shapes.ts";
import { ITEMS, amountOf, type Item, type Usage } from "./usage.ts";

export interface Compared {
  shape: Shape;
  service: Measured;
  straightforward: Measured;
}

export interface Figures {
  compared: Compared[];
  kept: { service: Kept; straightforward: Kept };
  rejected: RejectedFlood[];
  notifications: NotificationCost[];
  idle: IdleCost;
  /** With two destinations. */
  withDestinations: Measured[];
}

const SHOWN_AS: Record<Item, string> = {
  worker_requests: "Worker requests",
  worker_cpu_ms: "CPU",
  object_requests: "Object calls, alarms",
  object_gb_seconds: "Object time",
  object_rows_written: "Object rows written",
  object_rows_read: "Object rows read",
  d1_rows_written: "D1 rows written",
  d1_rows_read: "D1 rows read",
  queue_operations: "Queue operations",
  r2_class_a: "R2 writes",
  r2_class_b: "R2 reads",
  log_lines: "Log lines",
  log_bytes: "Log bytes",
};

/** Causes below this amount of an item per signal are not listed. */
const NAMED_FROM = 0.005;

/** @param later price lists that are known to come. */
export function reportTotals({ compared, kept }: Figures, prices: PriceList, later: readonly PriceList[]): string {
  const bills = compared.map((shape) => ({ ...shape, ...billsOf(shape, prices) }));
  const month = (of: Kept): string => {
    const { objects, d1, r2 } = prices.gigabyteMonth;
    return dollars((of.objects * objects + of.d1 * d1 + of.r2 * r2) / 1_000);
  };
  return table(
    ["A million signals", ...bills.map(({ shape }) => shape.name), "Kept for a month"],
    [
      [
        "The straightforward Worker",
        ...bills.map(({ theirs }) => dollars(theirs.dollars)),
        month(kept.straightforward),
      ],
      ["This service", ...bills.map(({ ours }) => dollars(ours.dollars)), month(kept.service)],
      ...later.map((list) => [
        `This service, prices from ${list.from} on`,
        ...compared.map((shape) => dollars(billsOf(shape, list).ours.dollars)),
        "",
      ]),
      ["Ratio", ...bills.map(({ ours, theirs }) => (ours.dollars / theirs.dollars).toFixed(2)), ""],
      ["Target", ...bills.map(({ shape }) => `≤ ${shape.atMost.ratio}`), ""],
    ],
  );
}

/** For docs/operate.md: whole deployments at the current prices. */
export function reportDeployments({ compared, kept: { service } }: Figures, prices: PriceList): string {
  const costs = compared.map((shape) => ({ name: shape.shape.name, dollars: billsOf(shape, prices).ours.dollars }));
  const { objects, d1, r2 } = prices.gigabyteMonth;
  const keptDollars = (service.objects * objects + service.d1 * d1 + service.r2 * r2) / 1_000;
  return reportCapacity(costs, keptDollars, prices.perMillion.object_requests);
}

/** The bill by item: this service, then the straightforward Worker. */
export function reportItems({ compared }: Figures, prices: PriceList): string {
  const bills = compared.map((shape) => ({ ...shape, ...billsOf(shape, prices) }));
  const rows = ITEMS.map((item, index) => [
    SHOWN_AS[item],
    ...bills.map(({ ours, theirs }) => {
      const of = ({ charges }: Bill): string => dollars(charges[index]?.dollars ?? 0);
      return `${of(ours)} / ${of(theirs)}`;
    }),
  ]).filter(([, ...cells]) => cells.some((cell) => cell !== "0 / 0"));
  return table(["This service / the straightforward Worker", ...bills.map(({ shape }) => shape.name)], rows);
}

/** The causes of the bill, for one signal of this service. */
export function reportCauses(figures: Figures, item: Item, title = SHOWN_AS[item]): string {
  const measured = figures.compared.map(({ service }) => service);
  const causes = [...new Set(measured.flatMap(({ usage }) => Object.keys(usage[item] ?? {})))];
  const rows = causes
    .map((cause) => ({ cause, each: measured.map(({ usage, signals }) => (usage[item]?.[cause] ?? 0) / signals) }))
    .filter(({ each }) => each.some((amount) => amount >= NAMED_FROM))
    .toSorted((a, b) => Math.max(...b.each) - Math.max(...a.each))
    .map(({ cause, each }) => [cause, ...each.map(amountShown)]);
  const all = measured.map(({ usage, signals }) => amountShown(amountOf(usage, item) / signals));
  return table([title, ...figures.compared.map(({ shape }) => shape.name)], [...rows, ["All", ...all]]);
}

/** @param later by which their bound goes: until December a log line alone costs more than half of it. */
export function reportRejected({ rejected }: Figures, prices: PriceList, later: PriceList): string {
  const rows = rejected.map(({ name, usage, calls }) => {
    const { charges, dollars: sum } = billFor(usage, calls, prices);
    const most = charges
      .filter((charge) => charge.dollars >= NAMED_FROM)
      .toSorted((a, b) => b.dollars - a.dollars)
      .map((charge) => `${SHOWN_AS[charge.item]} ${dollars(charge.dollars)}`);
    return [name, dollars(sum), dollars(billFor(usage, calls, later).dollars), most.join(", ")];
  });
  const bound = `Prices from ${later.from} on, at most ${dollars(MAX_REJECTED_DOLLARS)}`;
  return table(["A million rejected calls", `Prices from ${prices.from} on`, bound, "The first is"], rows);
}

export function reportRejectedInShort({ rejected }: Figures, prices: PriceList): string {
  const floods = rejected
    .map(({ name, usage, calls }) => ({ name, sum: billFor(usage, calls, prices).dollars }))
    .toSorted((a, b) => b.sum - a.sum);
  const [dearest, cheapest] = [floods.at(0), floods.at(-1)];
  if (dearest === undefined || cheapest === undefined) return "";
  return (
    `At the prices from ${prices.from} on a million rejected calls cost from ${dollars(cheapest.sum)} (${cheapest.name}) ` +
    `to ${dollars(dearest.sum)} (${dearest.name}); the target is ${dollars(MAX_REJECTED_DOLLARS)} at most.\n`
  );
}

export function reportNotifications({ notifications: all }: Figures, prices: PriceList): string {
  const rows = all.map(({ name, usage, notifications }) => {
    const { charges, dollars: sum } = billFor(usage, notifications, prices);
    const each = (item: Item) => amountShown(charges.find((charge) => charge.item === item)?.each ?? 0);
    return [name, dollars(sum), each("object_rows_written"), each("object_requests"), each("queue_operations")];
  });
  return table(
    [
      "A million notifications, for each destination",
      "Cost",
      "Rows written, each",
      "Object calls, alarms",
      "Queue operations",
    ],
    rows,
  );
}

/** Compared with the same traffic without destinations, and the rows and queue operations of the difference. */
export function reportDestinations({ compared, withDestinations }: Figures, prices: PriceList): string {
  const pairs = withDestinations.flatMap((measuredShape) => {
    const plain = compared.find(({ shape }) => shape === measuredShape.shape)?.service;
    return plain === undefined ? [] : [{ withDestinations: measuredShape, plain }];
  });
  const cost = ({ usage, signals }: Measured): string => dollars(billFor(usage, signals, prices).dollars);
  const more = (measure: (usage: Usage) => number): string[] =>
    pairs.map((pair) => {
      const [withCount, withoutCount] = [pair.withDestinations, pair.plain].map(
        ({ usage, signals }) => measure(usage) / signals,
      );
      return amountShown(Math.max(0, (withCount ?? 0) - (withoutCount ?? 0)));
    });
  return table(
    ["A million signals, with two destinations", ...pairs.map(({ plain }) => plain.shape.name)],
    [
      ["Without", ...pairs.map(({ plain }) => cost(plain))],
      ["With", ...pairs.map((pair) => cost(pair.withDestinations))],
      ["Rows more of counter and store, each", ...more((usage) => rowsOf(usage, ["QuotaCounter", "SignalStore"]))],
      ["Rows of Destinations, each", ...more((usage) => rowsOf(usage, ["Destinations"]))],
      ["Queue operations more, each", ...more((usage) => amountOf(usage, "queue_operations"))],
      ["Object calls and alarms more, each", ...more((usage) => amountOf(usage, "object_requests"))],
    ],
  );
}

function rowsOf({ object_rows_written: rows = {} }: Usage, classes: readonly string[]): number {
  return Object.entries(rows)
    .filter(([cause]) => classes.some((name) => cause.startsWith(`${name} `)))
    .reduce((sum, [, amount]) => sum + amount, 0);
}

/** Maximum cost of the watch over all workspaces, in US dollars a month. */
const MAX_WATCH_DOLLARS = 1;

export function reportIdle({ idle: { workspace: idle, watch } }: Figures, prices: PriceList): string {
  const sum = billFor(idle, 1_000_000, prices).dollars;
  const alarms = amountOf(idle, "object_requests");
  const rows = amountOf(idle, "object_rows_written");
  return `An unused workspace costs $${sum.toFixed(5)} a month, for ${alarms} alarms and ${rows} rows. The watch over all workspaces costs $${watchDollars(watch, prices).toFixed(3)} a month while none has an alarm.\n`;
}

function watchDollars(watch: Usage, prices: PriceList): number {
  return billFor(watch, 1_000_000, prices).dollars;
}

/** Each shape's targets next to its measurements. */
interface Bound {
  name: string;
  value: number;
  atMost: number;
}

export function reportBounds({ compared }: Figures, prices: PriceList): string {
  const [first = []] = compared.map((shape) => boundsOf(shape, prices));
  const rows = first.map(({ name }, index) => [
    name,
    ...compared.map((shape) => {
      const bound = boundsOf(shape, prices)[index];
      return bound === undefined ? "" : `${amountShown(bound.value)}, at most ${bound.atMost}`;
    }),
  ]);
  return table(["Target", ...compared.map(({ shape }) => shape.name)], rows);
}

/** Missed targets. */
export function tooDear({ compared, rejected, idle }: Figures, prices: PriceList, later: PriceList): string[] {
  const shapes = compared.flatMap((shape) =>
    boundsOf(shape, prices)
      .filter(({ value, atMost }) => !(value <= atMost))
      .map(({ name, value, atMost }) => `${shape.shape.name}: ${name}: ${value.toFixed(3)}, the target is ${atMost}`),
  );
  const floods = rejected.flatMap(({ name, usage, calls }) => {
    const { dollars: sum } = billFor(usage, calls, later);
    return sum <= MAX_REJECTED_DOLLARS ? [] : [`rejected, ${name}: ${dollars(sum)} a million calls`];
  });
  const watch = watchDollars(idle.watch, prices);
  const watched = watch <= MAX_WATCH_DOLLARS ? [] : [`the watch over all workspaces: ${dollars(watch)} a month`];
  return [...shapes, ...floods, ...watched];
}

function boundsOf(shape: Compared, prices: PriceList): Bound[] {
  const { ours, theirs } = billsOf(shape, prices);
  const { usage, signals } = shape.service;
  const counterRows = rowsOf(usage, ["QuotaCounter"]);
  const { ratio, counterRows: maxRows, queueOperations } = shape.shape.atMost;
  return [
    { name: "Cost, of the straightforward Worker's", value: ours.dollars / theirs.dollars, atMost: ratio },
    { name: "Rows that the Quota Counter writes", value: counterRows / signals, atMost: maxRows },
    { name: "Queue operations", value: amountOf(usage, "queue_operations") / signals, atMost: queueOperations },
  ];
}

function billsOf({ service, straightforward }: Compared, prices: PriceList): { ours: Bill; theirs: Bill } {
  return {
    ours: billFor(service.usage, service.signals, prices),
    theirs: billFor(straightforward.usage, straightforward.signals, prices),
  };
}

function dollars(amount: number): string {
  return amount < NAMED_FROM ? "0" : `$${amount.toFixed(2)}`;
}

function amountShown(amount: number): string {
  return amount === 0 ? "–" : amount < 1 ? amount.toFixed(3) : amount.toFixed(2);
}

function table(head: string[], rows: string[][]): string {
  return [line(head), line(head.map(() => "---")), ...rows.map(line), ""].join("\n");
}

function line(cells: string[]): string {
  return `| ${cells.join(" | ")} |`;
}
