/** The figures as Markdown, as the README.md here shows them. */
import os from "node:os";
import type { BulkMemory } from "./bulk-memory.ts";
import type { LargestCall } from "./largest-calls.ts";
import type { ContestantName } from "./contestants.ts";
import type { PageTime, Growth } from "./growth.ts";
import type { WorkspaceSize } from "./fill-order.ts";
import type { Effort, Figure, Figures, Scenario } from "./scenarios.ts";
import { isMet, shown, target, type StorePart } from "./figures.ts";
import type { Cost, Profiled } from "./profile.ts";

const SHOWN_AS: Partial<Record<ContestantName, string>> = { service: "whole service", admission: "admission alone" };

export function reportHead(effort: Effort, gzippedBytes: number): string {
  return [
    `${os.availableParallelism()} cores, Node ${process.versions.node}; medians of ${effort.rounds} interleaved rounds ` +
      `of ${effort.seconds} s; per second.`,
    `Minified bundle: ${(gzippedBytes / 1024).toFixed(1)} KB gzipped.`,
    "",
  ].join("\n\n");
}

type Measured = { scenario: Scenario; figures: Figures }[];

export function reportFigures(measured: Measured): string {
  return compared("Scenario", measured, ({ unit }) => `${unit}/s`, perSecond, ratio);
}

/** CPU time per call, which depends least on the load of the machine and the speed of the disk. */
export function reportCpu(measured: Measured): string {
  return compared(
    "CPU of one, of the whole process",
    measured,
    ({ unit }) => `µs a ${unit.slice(0, -1)}`,
    (figure) => figure?.cpuMicroseconds.toFixed(1) ?? "–",
    (figure, reference) => (reference === undefined ? "–" : times(reference.cpuMicroseconds / figure.cpuMicroseconds)),
  );
}

/** This service's figures compared with the others; a ratio above 1 means that this service is better. */
function compared(
  title: string,
  measured: Measured,
  unit: (scenario: Scenario) => string,
  show: (figure: Figure | undefined) => string,
  ratioTo: (figure: Figure, other: Figure | undefined) => string,
): string {
  const rows = measured.flatMap(({ scenario, figures }) =>
    ours(figures).map(([name, figure], _, all) => {
      const references = [figures.get("bare"), figures.get("one-row"), figures.get("straightforward")];
      return [
        `${scenario.title}${all.length > 1 ? `, ${SHOWN_AS[name] ?? name}` : ""} (${unit(scenario)})`,
        ...references.map(show),
        show(figure),
        ...references.map((reference) => ratioTo(figure, reference)),
      ];
    }),
  );
  const yardsticks = ["Bare", "One row", "Straightforward"];
  const ratios = yardsticks.map((name) => `To ${name.toLowerCase()}`);
  return table([title, ...yardsticks, "This service", ...ratios], rows);
}

/** The time of one call, for senders that call one after the other. */
export function reportLatencies(measured: Measured): string {
  const rows = measured
    .filter(({ scenario }) => scenario.latency)
    .flatMap(({ scenario, figures }) =>
      [...figures].map(([name, figure]) => [
        scenario.title,
        SHOWN_AS[name] ?? name,
        figure.p50Ms.toFixed(2),
        figure.p99Ms.toFixed(2),
      ]),
    );
  return rows.length === 0 ? "" : table(["Time of one call", "", "p50 ms", "p99 ms"], rows);
}

export function reportBulkMemory(
  memory: { whose: string; maxGrowthBytes: number | null; measured: BulkMemory[] }[],
): string {
  const rows = memory.flatMap(({ whose, maxGrowthBytes, measured }) =>
    measured.map(({ title, hasBound, bodyBytes, restBytes, growthBytes }) => [
      title,
      megabytes(bodyBytes),
      whose,
      megabytes(restBytes),
      megabytes(growthBytes),
      maxGrowthBytes === null || !hasBound ? "–" : megabytes(maxGrowthBytes),
    ]),
  );
  return table(
    ["The largest body: 8 MB, 10,000 signals", "As sent, MB", "Of", "At rest, MB", "Grows by, MB", "At most"],
    rows,
  );
}

export function reportLargestCalls(measured: LargestCall[]): string {
  const ms = (waits: number[]) => `${Math.min(...waits).toFixed(0)}–${Math.max(...waits).toFixed(0)}`;
  const rows = measured.map(({ title, callBytes, growthBytes, waitsMs, waitsBesideTwoMs }) => [
    title,
    megabytes(callBytes),
    megabytes(growthBytes),
    ms(waitsMs),
    ms(waitsBesideTwoMs),
  ]);
  const head = [
    "The largest body in the Quota Counter",
    "Call, MB",
    "Grows by, MB",
    "Others wait, ms",
    "Beside two, ms",
  ];
  return table(head, rows);
}

export function reportGrowth(growth: Growth[], sizes: WorkspaceSize[], maxRatio: number): string {
  const large = sizes.length - 1;
  const head = [
    "Cost",
    ...sizes.map(({ signals, people, rules }) =>
      [`${whole(signals)} signals`, `${whole(people)} people`, `${rules} rules`].join(", "),
    ),
    "Ratios",
    "At most",
  ];
  const rows = growth.map(({ name, unit, costs }) => [
    `${name} (${unit})`,
    ...costs.map((cost) => cost.toFixed(unit === "ms a call" ? 2 : 0)),
    costs
      .slice(0, large)
      .map((cost) => `${((costs[large] ?? Number.NaN) / cost).toFixed(2)}×`)
      .join(", "),
    `${maxRatio}×`,
  ]);
  return table(head, rows);
}

export function reportPages(pages: readonly PageTime[], maxMs: number): string {
  return table(
    ["Page", "p50 ms", "At most"],
    pages.map(({ name, p50Ms }) => [name, p50Ms.toFixed(1), String(maxMs)]),
  );
}

export function reportStore({ title, figures, notes }: StorePart): string {
  const rows = figures.map((figure) => [figure.name, shown(figure), target(figure), isMet(figure) ? "" : "missed"]);
  return [table([title, "Measured", "Target", ""], rows), ...notes.map((note) => `${note}\n`)].join("\n");
}

/** Of the isolate's busy time; a signal that is rejected counts as none. */
export function reportProfile(
  { title }: Scenario,
  { signals, functions, folders, busyMicroseconds }: Profiled,
): string {
  const rows = (costs: Cost[]): string[][] =>
    costs.map(({ name, self, total }) => [name, ...[self, total].flatMap((cost) => [percent(cost), each(cost)])]);
  const percent = (microseconds: number): string => `${((100 * microseconds) / busyMicroseconds).toFixed(1)} %`;
  const each = (microseconds: number): string => (signals === 0 ? "–" : (microseconds / signals).toFixed(2));
  const columns = ["Self", "µs a signal", "Total", "µs a signal"];
  return [
    `${title}: ${whole(signals)} signals, ${each(busyMicroseconds)} µs of the isolate each`,
    "",
    table(["Function", ...columns], rows(functions)),
    "",
    table(["Folder", ...columns], rows(folders)),
  ].join("\n");
}

function whole(count: number): string {
  return count.toLocaleString("en");
}

function ours(figures: Figures): [ContestantName, Figure][] {
  return [...figures].filter(([name]) => name in SHOWN_AS);
}

function perSecond(figure: Figure | undefined): string {
  return figure === undefined ? "–" : Math.round(figure.perSecond).toLocaleString("en");
}

function ratio(figure: Figure, reference: Figure | undefined): string {
  return reference === undefined ? "–" : times(figure.perSecond / reference.perSecond);
}

function times(factor: number): string {
  return `${factor.toFixed(2)}×`;
}

function table(head: string[], rows: string[][]): string {
  return [line(head), line(head.map(() => "---")), ...rows.map(line), ""].join("\n");
}

function line(cells: string[]): string {
  return `| ${cells.join(" | ")} |`;
}

function megabytes(bytes: number): string {
  return (bytes / 1024 / 1024).toFixed(0);
}
