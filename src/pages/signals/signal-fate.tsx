/** Where a recorded signal ended up, and what it scored. */
import type { MatchedRule, SignalTrace } from "../../store/protocol.ts";
import { ALREADY_SCORED, FREQUENCY_LABEL, NAMED_BY_LABEL } from "../copy.ts";
import { counted, signed } from "../views/format.ts";
import { Time } from "../views/parts.tsx";
import { personByEmailPath } from "./signal-parts.tsx";
import { Step } from "../views/timeline.tsx";

export interface FateProps {
  base: string;
  manager: boolean;
  /** Those of the matched rules that still exist, by id. */
  rules: ReadonlyMap<string, { name: string; version: number }>;
  trace: SignalTrace;
}

export function Fate({ base, manager, rules, trace }: FateProps) {
  switch (trace.status) {
    case "duplicate":
      return (
        <Step title="Duplicate">
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
        </Step>
      );
    case "held":
      return (
        <>
          <Step title="Waiting" tone="warn">
            {trace.heldUntilMs !== null && (
              <>
                Held until its billing period ends, <Time ms={trace.heldUntilMs} />; then it is deleted.{" "}
              </>
            )}
            An owner or admin can release it before that, once the plan has room. <a href={`${base}/usage`}>To Usage</a>
          </Step>
          <Names trace={trace} />
        </>
      );
    case "purged":
      return (
        <Step title="Purged" ms={trace.heldUntilMs}>
          It was held, and its billing period has ended. What it said and whose it was are forgotten.
        </Step>
      );
    case "dead":
      return (
        <Step title="Could not be processed" tone="bad">
          <p>{trace.deadReason ?? "No reason is known."}</p>
          {manager && (
            <form method="post" action={`${base}/signals/dead-letters/replay`} data-once>
              <input type="hidden" name="id" value={trace.id} />
              <button class="small">Replay</button>
            </form>
          )}
        </Step>
      );
    case "anonymous":
      return (
        <>
          <Step title="Visitor not known yet" tone="info">
            It waits in cold storage. When an identify call gives this visitor an email, it becomes that person's, and
            is run through the mapping rules then.
          </Step>
          <Names trace={trace} />
        </>
      );
    case "processed":
      return <Processed base={base} rules={rules} trace={trace} />;
  }
}

function Processed({ base, rules, trace }: Omit<FateProps, "manager">) {
  if (trace.kind === "account") {
    return (
      <Step title="Account updated" tone="good">
        It was mapped by its key's payload template. <a href={`${base}/accounts`}>To Accounts</a>
      </Step>
    );
  }
  return (
    <>
      <Owner base={base} trace={trace} />
      {trace.kind === "signal" && trace.person !== null && <Score base={base} rules={rules} trace={trace} />}
    </>
  );
}

/** Whose the signal is, and by what: its email, else user id, else anonymous id (design §8.3). */
function Owner({ base, trace }: { base: string; trace: SignalTrace }) {
  const { person, kind } = trace;
  if (person === null) {
    return (
      <Step title={kind === "identify" ? "Nobody identified" : "Nobody named"}>
        {kind === "identify"
          ? "It carries no email, so it makes no person and links nothing."
          : "It names no email, user id or anonymous id, so it is nobody's and scores nothing."}
      </Step>
    );
  }
  return (
    <>
      <Step title={kind === "identify" ? "Identified" : "Whose it is"} ms={person.linkedAtMs} tone="good">
        <a href={personByEmailPath(base, person.email)}>{person.email}</a>, named by {NAMED_BY_LABEL[person.by]}
        {person.linkedAtMs !== null && "; linked later, when the visitor became known"}.
      </Step>
      <Names trace={trace} />
    </>
  );
}

function Names({ trace: { userId, anonymousId, person, email } }: { trace: SignalTrace }) {
  const names = [
    ["Email", person === null ? email : null],
    ["User id", userId],
    ["Anonymous id", anonymousId],
  ] as const;
  if (names.every(([, value]) => value === null)) return <></>;
  return (
    <Step title="What it names">
      {names.map(
        ([label, value]) =>
          value !== null && (
            <div>
              {label} <code>{value}</code>
            </div>
          ),
      )}
    </Step>
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
      <Step title={`${counted(rulesTried, "rule")} tried, ${rulesMatched.length} matched`}>
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
      </Step>
      <Step
        title={`${signed(points)} ${Math.abs(points) === 1 ? "point" : "points"}`}
        tone={points === 0 ? "quiet" : "good"}
      >
        {points === 0 ? "The person's score is as it was." : "Added to the person's score."}
      </Step>
    </>
  );
}
