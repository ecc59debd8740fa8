/** The figures of health for Analytics Engine, where the deployment has a dataset bound. */
import { wordOf } from "../domain/health/alarm.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { WorkspaceHealth } from "./all-health.ts";
import { figuresOf } from "./health-figures.ts";

/**
 * A point for each workspace: index its id; blobs its slug, the word and the gravest alarm; doubles as in FIGURES, -1 where
 * the objects did not answer. Never throws: nobody is to miss an answer for want of a chart.
 */
export function writePoints(
  dataset: AnalyticsEngineDataset | undefined,
  found: readonly WorkspaceHealth[],
  nowMs: number,
): void {
  if (dataset === undefined) return;
  try {
    for (const one of found) {
      dataset.writeDataPoint({
        indexes: [one.id],
        blobs: [one.slug, wordOf(one.alarms), one.alarms[0]?.alarm ?? ""],
        doubles: figuresOf(one, nowMs).map((figure) => figure ?? -1),
      });
    }
  } catch (error) {
    logEvent("points_failed", { error: errorText(error) });
  }
}
