/** How many signals a rule has scored, and its application to past signals with progress. */
import { dayOf, latestDays } from "../../domain/quota/day-counts.ts";
import { DAYS_COUNTED } from "../../limits.ts";
import type { RuleFacts, RuleJob } from "../../store/protocol/store-operations.ts";
import type { RulePreview } from "../../workspace/rules-on-history.ts";
import { PostButton } from "../kit/actions.tsx";
import { Sparkline } from "../kit/charts.tsx";
import { counted, grouped } from "../kit/format.ts";
import { Notice, Stat, Stats, Time } from "../kit/parts.tsx";

/** Milliseconds between two reads of the progress. */
const REFRESH_MS = 1_500;

export function isInProgress(job: RuleJob | null | undefined): boolean {
  return job !== null && job !== undefined && job.status !== "done";
}

/** Number of signals of the last `days` days, today included, that the rule has scored. */
export function scoredSince(facts: RuleFacts | undefined, today: number, days: number): number {
  return latestDays(facts?.days ?? "", today, days).reduce((sum, count) => sum + count, 0);
}

/** The page reads this part again while the job is in progress. @param props.version current version; null: deleted. */
export function RuleActivity({ facts, version }: { facts: RuleFacts | undefined; version: number | null }) {
  const today = dayOf(Date.now());
  const days = latestDays(facts?.days ?? "", today, DAYS_COUNTED);
  const job = facts?.job ?? null;
  const most = `${counted(Math.max(...days), "scored signal")} on the busiest day`;
  return (
    <div id="job" class="stack" {...(isInProgress(job) ? { "data-refresh": String(REFRESH_MS) } : {})}>
      <Stats>
        <Stat label="Scored, 7 days" value={scoredSince(facts, today, 7)} />
        <Stat label={`Scored, ${DAYS_COUNTED} days`} value={scoredSince(facts, today, DAYS_COUNTED)} />
        <Stat label="Per day" value={<Sparkline values={days} label={most} />} />
      </Stats>
      {job !== null && (isInProgress(job) ? <Progress job={job} /> : <Finished job={job} version={version} />)}
    </div>
  );
}

function Progress({ job }: { job: RuleJob }) {
  const { ruleVersion, scanned, total } = job;
  const isCounted = ruleVersion !== null && total > 0;
  return (
    <Notice
      title={ruleVersion === null ? "Removing scoring signals" : `Applying version ${ruleVersion} to past signals`}
    >
      {isCounted ? (
        <progress value={Math.min(scanned, total)} max={total} aria-label="Progress" />
      ) : (
        <progress aria-label="Progress" />
      )}
      <p>
        {isCounted && `${grouped(scanned)} of about ${counted(total, "signal")} read. `}
        {changesOf(job)}. <span class="no-script">Reload the page to see the progress.</span>
      </p>
    </Notice>
  );
}

function Finished({ job, version }: { job: RuleJob; version: number | null }) {
  const { ruleVersion, scanned, matched, finishedAtMs } = job;
  return (
    <p class="quiet small">
      {ruleVersion === null ? "Scoring signals removed" : `Version ${ruleVersion} applied to past signals`}{" "}
      {finishedAtMs !== null && <Time ms={finishedAtMs} />}:{" "}
      {ruleVersion !== null && `${counted(scanned, "signal")} read, ${counted(matched, "match", "matches")}. `}
      {changesOf(job)}.
      {version !== null && ruleVersion !== null && ruleVersion !== version && " The rule has changed since."}
    </p>
  );
}

function changesOf({ added, changed, removed }: RuleJob): string {
  return `Scoring signals: ${grouped(added)} added, ${grouped(changed)} updated, ${grouped(removed)} removed`;
}

interface OfferProps {
  /** Path of the rule. */
  path: string;
  rule: { version: number; enabled: boolean };
  facts: RuleFacts | undefined;
  /** Past signals that the rule matches; null: the rule is disabled. */
  found: Pick<RulePreview, "matches" | "complete"> | null;
}

/** Offered after a change of a rule: applying it to past signals, unless that has happened or would change nothing. */
export function ApplyOffer({ path, rule, facts, found }: OfferProps) {
  const { job = null, hasScoringSignals = false } = facts ?? {};
  const isApplied = rule.enabled ? job?.ruleVersion === rule.version : job?.ruleVersion === null && isInProgress(job);
  if (isApplied) return <></>;
  const label = offerLabel(found, hasScoringSignals);
  if (label === null) return found === null ? <></> : <p>No past signals match.</p>;
  return (
    <PostButton action={`${path}/apply`} look="small">
      {label}
    </PostButton>
  );
}

function offerLabel(found: OfferProps["found"], hasScoringSignals: boolean): string | null {
  if (found === null) return hasScoringSignals ? "Remove its scoring signals" : null;
  const { matches, complete } = found;
  if (matches === 0) return hasScoringSignals || !complete ? "Apply to past signals" : null;
  return complete ? `Apply to ${counted(matches, "past signal")}` : `Apply to ${grouped(matches)} or more past signals`;
}
