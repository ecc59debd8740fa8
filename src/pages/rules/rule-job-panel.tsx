/** A rule being applied to what is stored: how far it is, and what it has done. */
import type { PropsWithChildren } from "hono/jsx";
import type { RuleJob } from "../../store/protocol/store-operations.ts";
import { counted, grouped } from "../kit/format.ts";
import { Fact, FactList, Panel, Time } from "../views/parts.tsx";

/** Milliseconds after which the progress looks again. */
const REFRESH_MS = 1_500;

export function isUnderWay(job: RuleJob | null): boolean {
  return job !== null && job.status !== "done";
}

/** A rule's job, below what it changes; the page looks at both again by itself while the job is under way. */
export function RuleJobPanel({
  job,
  version,
  nowMs,
  children,
}: PropsWithChildren<{ job: RuleJob | null; version: number | null; nowMs: number }>) {
  return (
    <div id="job" class="stack" {...(isUnderWay(job) ? { "data-refresh": String(REFRESH_MS) } : {})}>
      {children}
      {job !== null && <Job job={job} version={version} nowMs={nowMs} />}
    </div>
  );
}

/** @param version the rule's present version; null: the rule is deleted. */
function Job({ job, version, nowMs }: { job: RuleJob; version: number | null; nowMs: number }) {
  const { status, scanned, total, ruleVersion } = job;
  const what =
    ruleVersion === null ? "Removal of its scoring signals" : `Application to past signals, version ${ruleVersion}`;
  return (
    <Panel title={what}>
      {isUnderWay(job) ? (
        <div class="progress" role="status">
          {ruleVersion === null || total === 0 ? (
            <progress aria-label="Progress" />
          ) : (
            <progress value={Math.min(scanned, total)} max={total} aria-label="Progress" />
          )}
          <p>
            {status === "queued" ? "It is about to begin." : "Under way."}{" "}
            {ruleVersion !== null && `${grouped(scanned)} of about ${counted(total, "signal")} looked at.`}{" "}
            <span class="no-script">Load this page again to see how far it is.</span>
          </p>
        </div>
      ) : (
        <p>
          Done
          {job.finishedAtMs !== null && (
            <>
              {" "}
              <Time ms={job.finishedAtMs} nowMs={nowMs} />
            </>
          )}
          {ruleVersion !== null && `: ${counted(scanned, "signal")} looked at, ${grouped(job.matched)} matched`}.
          {version !== null && ruleVersion !== null && ruleVersion !== version && " The rule has been changed since."}
        </p>
      )}
      <FactList>
        <Fact name="Added">{counted(job.added, "scoring signal")}</Fact>
        <Fact name="Brought up to date">{counted(job.changed, "scoring signal")}</Fact>
        <Fact name="Removed">{counted(job.removed, "scoring signal")}</Fact>
      </FactList>
    </Panel>
  );
}
