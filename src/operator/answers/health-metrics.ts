/** The figures of many workspaces as an OpenMetrics text, which Prometheus and most others read. */
// oxlint-disable-next-line typescript/triple-slash-reference -- declares modules, so it is none; whoever reads this file needs it
/// <reference path="./prom-client.d.ts" />
import type { Registry as AnyRegistry } from "prom-client";
import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Registry from "prom-client/lib/registry.js";
import type { WorkspaceHealth } from "../../workspace/all-health.ts";
import { figuresOf, FIGURES } from "../../workspace/health-figures.ts";

export const METRICS_TYPE = Registry.OPENMETRICS_CONTENT_TYPE;

const PREFIX = "signal_ingestion_";

/** @param total how many workspaces there are, so that whoever asks sees whether there are more than those found. */
export function metricsText(found: readonly WorkspaceHealth[], total: number, nowMs: number): Promise<string> {
  const registry: AnyRegistry<typeof METRICS_TYPE> = new Registry();
  registry.setContentType(METRICS_TYPE);
  const registers = [registry];
  new Gauge({ name: `${PREFIX}workspaces`, help: "Workspaces of this deployment.", registers }).set(total);
  const metrics = FIGURES.map(({ name, type, help }) => {
    const options = { name: PREFIX + name, help, labelNames: ["workspace", "slug"], registers };
    return type === "counter" ? new Counter(options) : new Gauge(options);
  });
  for (const one of found) {
    const figures = figuresOf(one, nowMs);
    // An object that did not answer has a status and no other figure.
    for (const [index, figure] of figures.entries()) {
      if (figure !== null) metrics[index]?.inc({ workspace: one.id, slug: one.slug }, figure);
    }
  }
  return registry.metrics();
}
