/** Where a recorded signal ended up, and what it scored. */
import type { MatchedRule, SignalTrace } from "../../store/protocol/stored-signals.ts";
import { emailProblemOf } from "../../domain/signal/normalise.ts";
import { ALREADY_SCORED, FREQUENCY_LABEL, NAMED_BY_LABEL } from "../copy.ts";
import { counted, signed } from "../kit/format.ts";
import { Time } from "../views/parts.tsx";
import { personByEmailPath } from "./signal-parts.tsx";
import { TimelineStep } from "../views/timeline.tsx";

export interface FateProps {
  base: string;
  manager: boolean;
  /** Those of the matched rules that still exist, by id. */
  rules: ReadonlyMap<string, { name: string; version: number }>;
  trace: SignalTrace;
}

export function SignalFate({ base, manager, rules, trace }: FateProps) {
  switch (trace.status) {
    case "duplicate":
      return (
        <TimelineStep title="Duplicate">
          The same content came before
          {trace.duplicateOf !== null && (
            <>
              {", as "}
              <a class="mono" href={`${base}/signals/${encodeURIComponent(trace.duplicateOf)}`}>
                {trace.duplicateOf}
              </a>
            </>
          )}
          . It is counted and scores nothing.
        </TimelineStep>
      );
    case "held":
      return (
        <>
          <TimelineStep title="Waiting" tone="warn">
            {trace.heldUntilMs !== null && (
              <>
                Held until its billing period ends, <Time ms={trace.heldUntilMs} />; then it is deleted.{" "}
              </>
            )}
            An owner or admin can release it before that, once the plan has room. <a href={`${base}/usage`}>To Usage</a>
          </TimelineStep>
          <NamesStep trace={trace} />
        </>
      );
    case "purged":
      return (
        <TimelineStep title="Purged" ms={trace.heldUntilMs}>
          It was held, and its billing period has ended. What it said and whose it was are forgotten.
        </TimelineStep>
      );
    case "dead":
      return (
        <TimelineStep title="Could not be processed" tone="bad">
          <p>{trace.deadReason ?? "No reason is known."}</p>
          {manager && (
            <form method="post" action={`${base}/signals/dead-letters/replay`} data-once>
              <input type="hidden" name="id" value={trace.id} />
              <button class="small">Replay</button>
            </form>
          )}
        </TimelineStep>
      );
    case "anonymous":
      return (
        <>
          <TimelineStep title="Visitor not known yet" tone="info">
            It waits in cold storage. When an identify call gives this visitor an email, it becomes that person's, and
            is run through the mapping rules then.
          </TimelineStep>
          <NamesStep trace={trace} />
        </>
      );
    case "processed":
      return <Processed base={base} rules={rules} trace={trace} />;
  }
}

function Processed({ base, rules, trace }: Omit<FateProps, "manager">) {
  if (trace.kind === "account") {
    return (
      <TimelineStep title="Account updated" tone="good">
        It was mapped by its key's payload template. <a href={`${base}/accounts`}>To Accounts</a>
      </TimelineStep>
    );
  }
  return (
    <>
      <OwnerStep base={base} trace={trace} />
      {trace.kind === "signal" && trace.person !== null && <Score base={base} rules={rules} trace={trace} />}
    </>
  );
}

/** Whose the signal is, and by what: its email, else user id, else anonymous id (design §8.3). */
function OwnerStep({ base, trace }: { base: string; trace: SignalTrace }) {
  const { person, kind } = trace;
  if (person === null) {
    return (
      <TimelineStep title={kind === "identify" ? "Nobody identified" : "Nobody named"}>
        {emailProblemOf(trace.payload)}{" "}
        {kind === "identify"
          ? "It carries no email of a person, so it makes no person and links nothing."
          : "It names no email, user id or anonymous id, so it is nobody's and scores nothing."}
      </TimelineStep>
    );
  }
  return (
    <>
      <TimelineStep title={kind === "identify" ? "Identified" : "Whose it is"} ms={person.linkedAtMs} tone="good">
        <a href={personByEmailPath(base, person.email)}>{person.email}</a>, named by {NAMED_BY_LABEL[person.by]}
        {person.linkedAtMs !== null && "; linked later, when the visitor became known"}.
      </TimelineStep>
      <NamesStep trace={trace} />
    </>
  );
}

function NamesStep({ trace: { userId, anonymousId, person, email, payload } }: { trace: SignalTrace }) {
  const problem = emailProblemOf(payload);
  const names = [
    ["Email", person === null ? email : null],
    ["User id", userId],
    ["Anonymous id", anonymousId],
  ] as const;
  if (problem === null && names.every(([, value]) => value === null)) return <></>;
  return (
    <TimelineStep title="What it names">
      {names.map(
        ([label, value]) =>
          value !== null && (
            <div>
              {label} <code>{value}</code>
            </div>
          ),
      )}
      {problem !== null && <div>{problem}</div>}
    </TimelineStep>
  );
}

/** How often a rule scores that does not score each time, or why it scores nothing here. */
function HowOften({ base, matched }: { base: string; matched: MatchedRule }) {
  const { scored, scoredBy, frequency } = matched;
  if (frequency === undefined) return <></>;
  if (scored) return <>, {FREQUENCY_LABEL[frequency].said}</>;
  if (scoredBy === null) return <>, {ALREADY_SCORED[frequency]}</>;
  return (
    <>
      , <a href={`${base}/signals/${encodeURIComponent(scoredBy)}`}>{ALREADY_SCORED[frequency]}</a>
    </>
  );
}

function Score({ base, rules, trace }: Omit<FateProps, "manager">) {
  const { rulesTried, rulesMatched, points } = trace;
  return (
    <>
      <TimelineStep title={`${counted(rulesTried, "rule")} tried, ${rulesMatched.length} matched`}>
        {rulesMatched.length === 0 ? (
          <>
            No scoring signal came of it. <a href={`${base}/rules`}>To Mapping Rules</a>
          </>
        ) : (
          <ul class="matched">
            {rulesMatched.map((matched) => {
              const { ruleId, ruleVersion, scoringSignal, points: each } = matched;
              const rule = rules.get(ruleId);
              return (
                <li>
                  <strong>{signed(matched.scored ? each : 0)}</strong> {scoringSignal}
                  <HowOften base={base} matched={matched} />, by{" "}
                  <a href={`${base}/rules/${encodeURIComponent(ruleId)}`}>{rule?.name ?? "a deleted rule"}</a> version{" "}
                  {ruleVersion}
                  {rule !== undefined && rule.version !== ruleVersion && ` (now version ${rule.version})`}
                </li>
              );
            })}
          </ul>
        )}
      </TimelineStep>
      <TimelineStep
        title={`${signed(points)} ${Math.abs(points) === 1 ? "point" : "points"}`}
        tone={points === 0 ? "quiet" : "good"}
      >
        {points === 0 ? "The person's score is as it was." : "Added to the person's score."}
      </TimelineStep>
    </>
  );
}
