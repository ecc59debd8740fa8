import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { errorText, logEvent } from "./log.ts";
import { within } from "./time-limit.ts";

interface HealthReportOptions {
  workspaceId: string;
  db: D1Database;
  /** After a failed report, the object's alarm has to come again. */
  alarmBy: (atMs: number) => void;
}

/**
 * Reports to D1 that an object has a new alarm of health, so that the watch over all workspaces (use-cases/watch-health.ts) asks for the
 * workspace. It notices by itself that an alarm is gone. What is reported is kept in memory only: after a start it is reported again.
 */
export class HealthReport {
  readonly #options: HealthReportOptions;
  #reported: readonly string[] = [];

  constructor(options: HealthReportOptions) {
    this.#options = options;
  }

  isNew(alarm: string): boolean {
    return !this.#reported.includes(alarm);
  }

  /** The alarm has been gone, which the watch may have noticed. */
  forget(alarm: string): void {
    this.#reported = this.#reported.filter((reported) => reported !== alarm);
  }

  /** Called by the object's alarm. Never throws. @param find returns all alarms of the object. */
  async send(find: () => readonly string[]): Promise<void> {
    const { workspaceId, db, alarmBy } = this.#options;
    try {
      const alarms = find();
      if (alarms.some((alarm) => this.isNew(alarm))) await within(CALL_TIMEOUT_MS, insertReport(db, workspaceId));
      this.#reported = alarms;
    } catch (error) {
      logEvent("health_report_failed", { workspace: workspaceId, error: errorText(error) });
      alarmBy(Date.now() + SAFETY_ALARM_MS);
    }
  }
}

function insertReport(db: D1Database, workspaceId: string): Promise<unknown> {
  return db
    .prepare(
      `INSERT OR REPLACE INTO health_reports (workspace_id, reported_at)
       SELECT id, ? FROM workspaces WHERE id = ? AND state <> 'ended'`,
    )
    .bind(new Date().toISOString(), workspaceId)
    .run();
}
