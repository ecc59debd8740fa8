/** The figures of health for Analytics Engine, where the deployment has a dataset bound. */
import { controlDatabase } from "../control/database.ts";
import { openRestores } from "../control/restores.ts";
import { someWorkspaces } from "../control/workspaces.ts";
import { wordOf } from "../domain/health/alarm.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { WorkspaceHealth } from "./all-health.ts";
import { HEALTH_PAGE_WORKSPACES, healthOfAll } from "./all-health.ts";
import { figuresOf } from "./health-figures.ts";

/**
 * What the cron trigger does: a chart fills although nobody asks. One invocation may write so many points only, so where
 * there are more workspaces each has its turn by chance, however often the trigger is set to come. Wakes nobody where there is
 * no dataset. Never throws.
 */
export async function chartHealth(env: Env & { HEALTH_FIGURES?: AnalyticsEngineDataset }): Promise<void> {
  if (env.HEALTH_FIGURES === undefined) return;
  try {
    const db = controlDatabase(env.DB);
    const some = await within(CALL_TIMEOUT_MS, someWorkspaces(db, HEALTH_PAGE_WORKSPACES));
    const found = await healthOfAll(
      env,
      some,
      await within(
        CALL_TIMEOUT_MS,
        openRestores(
          db,
          some.map(({ id }) => id),
        ),
      ),
    );
    writePoints(env.HEALTH_FIGURES, found, Date.now());
  } catch (error) {
    logEvent("points_failed", { error: errorText(error) });
  }
}

/**
 * A point for each workspace: index its id; blobs its slug, the word and the gravest alarm; doubles as in FIGURES, -1 where
 * the objects did not answer, or were not asked. Never throws: nobody is to miss an answer for want of a chart.
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
