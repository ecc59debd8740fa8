/** One signal from receipt to score (design §1.3: nothing is silent). */
import type { Child } from "hono/jsx";
import { type ApiKey, findKey } from "../../control/api-keys.ts";
import { ruleNames } from "../../control/stored-rules.ts";
import { emailProblemOf } from "../../domain/signal/normalise.ts";
import { timeProblemOf } from "../../domain/signal/occurred-at.ts";
import type { MatchedRule, SignalTrace } from "../../store/protocol/stored-signals.ts";
import type { Admission } from "../../wire/admission.ts";
import { followSignal } from "../../workspace/signal-operations.ts";
import { ALREADY_SCORED, ENDPOINT_LABEL, FREQUENCY_LABEL, NAMED_BY_LABEL } from "../copy.ts";
import { KeyTitle } from "../key-names.tsx";
import { LinkButton } from "../kit/actions.tsx";
import { counted, day, grouped, signed, withQuery } from "../kit/format.ts";
import { Badge, CopyText, Facts, Json, Panel, StatusBadge, Timeline, TimelineStep } from "../kit/parts.tsx";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { pages, workspacePath } from "../pages-env.ts";
import { personPath } from "../people/person.tsx";
import { ReplayButton } from "./dead-letters.tsx";
import { groupPath, signalPath, titleOf } from "./signals.tsx";

/** Milliseconds between two refreshes of the page while the signal is in flight. */
const REFRESH_MS = 2_000;

export const tracePages = pages.createApp().get("/:signal_id", async (c) => {
  const [base, { id }, db] = [workspacePath(c), c.get("workspace"), c.get("db")];
  const found = await followSignal(c.env, id, c.req.param("signal_id"));
  if (found === null) return notFoundPage(c, "signal");
  const trace = "recorded" in found ? found.recorded : null;
  const signal = "recorded" in found ? found.recorded : found.inFlight;
  const [apiKey, rules] = await Promise.all([
    // Spec §1: only owners and admins see keys.
    mayManage(c) ? findKey(db, id, signal.keyId) : null,
    ruleNames(db, id, trace?.rulesMatched.map(({ ruleId }) => ruleId) ?? []),
  ]);
  const canMakeRule = mayManage(c) && trace?.kind === "signal" && trace.payload !== null;
  const { event = null, source = null } = trace?.kind === "signal" ? trace : {};
  const create = <LinkButton href={withQuery(`${base}/rules/new`, { from: signal.id })} text="Create mapping rule" />;
  return page(
    c,
    {
      section: "signals",
      title: signal.id,
      heading: trace === null ? "Signal" : titleOf(trace),
      crumbs: event !== null && source !== null ? [[event, groupPath(base, event, source)]] : [],
      actions: canMakeRule && create,
    },
    <div class="columns wide" id="trace" {...(trace === null ? { "data-refresh": String(REFRESH_MS) } : {})}>
      <Panel title="Trace" actions={<Status trace={trace} />}>
        <Timeline>
          {trace !== null && trace.occurredFrom !== "received" && <OccurredStep trace={trace} />}
          <TimelineStep title="Received" ms={signal.receivedAtMs}>
            {ENDPOINT_LABEL[signal.endpoint]} endpoint
          </TimelineStep>
          <VerdictStep base={base} signal={signal} />
          {trace === null ? (
            <InFlightStep />
          ) : (
            <Fate base={base} trace={trace} rules={rules} mayReplay={mayManage(c)} />
          )}
        </Timeline>
      </Panel>
      <SignalPanel base={base} signal={signal} trace={trace} apiKey={apiKey} />
    </div>,
  );
});

function Status({ trace }: { trace: SignalTrace | null }) {
  if (trace !== null && trace.deletedAtMs !== null) return <Badge>Deleted</Badge>;
  return <StatusBadge status={trace?.status ?? "in_flight"} />;
}

interface SignalProps {
  base: string;
  signal: Admission | SignalTrace;
  trace: SignalTrace | null;
  /** Null: not visible to the member, or deleted. */
  apiKey: ApiKey | null;
}

function SignalPanel({ base, signal, trace, apiKey }: SignalProps) {
  const facts = [
    ["Source", trace?.source],
    ["Email", trace?.email],
    ["User id", trace?.userId],
    ["Anonymous id", trace?.anonymousId],
  ] as const;
  const key = apiKey !== null && (
    <a href={`${base}/settings/api-keys/${encodeURIComponent(apiKey.id)}`}>
      <KeyTitle {...apiKey} />
    </a>
  );
  return (
    <Panel title="Signal">
      <Facts
        of={[
          ["Id", <CopyText id="signal-id" label="signal id" text={signal.id} />],
          key && ["API key", key],
          ...facts.map(([name, value]) => (value ? ([name, value] as const) : null)),
        ]}
      />
      {[emailProblemOf(trace?.payload), timeProblemOf(trace?.payload)].map(
        (problem) => problem !== null && <p>{problem}</p>,
      )}
      {trace !== null && trace.payload !== null ? (
        <Json value={trace.payload} label="Payload as it was sent" />
      ) : (
        <p class="quiet">{noPayload(trace)}</p>
      )}
    </Panel>
  );
}

function noPayload(trace: SignalTrace | null): string {
  if (trace === null) return "The payload appears once the signal is recorded.";
  if (trace.deletedAtMs !== null) return "The payload was deleted with the person.";
  if (trace.payloadLost) return "The payload was lost in a restore of this workspace. Its effects are kept.";
  if (trace.status === "duplicate")
    return "The payload of a duplicate is not kept. It equals that of the first signal.";
  if (trace.status === "purged") return "The payload was deleted at the end of the billing period.";
  return "The payload is not stored.";
}

function OccurredStep({ trace: { occurredAtMs, occurredFrom, receivedAtMs } }: { trace: SignalTrace }) {
  return (
    <TimelineStep title="Occurred" ms={occurredAtMs}>
      {occurredAtMs === receivedAtMs ? "Not before the receipt, by " : "By "}
      <code>{occurredFrom}</code> in the payload
    </TimelineStep>
  );
}

/** Accepted or held (spec §8.2 to §8.4), by the signal's ordinal in the billing period and the limit at that moment. */
function VerdictStep({ base, signal }: { base: string; signal: Admission | SignalTrace }) {
  const { verdict, ordinal, signalLimit } = signal;
  const place = `signal ${grouped(ordinal)} of ${grouped(signalLimit)}`;
  return verdict === "held" ? (
    <TimelineStep title={`Held: ${place}`} tone="warn">
      Beyond the signal limit of the billing period. <a href={`${base}/signals/all?status=held`}>View held signals</a>
    </TimelineStep>
  ) : (
    <TimelineStep title={`Accepted: ${place}`} tone="good">
      {ordinal > signalLimit
        ? "Beyond the signal limit at that time: accepted as overage, or released later."
        : "Within the signal limit of the billing period."}
    </TimelineStep>
  );
}

function InFlightStep() {
  return (
    <TimelineStep title="In flight" tone="info">
      Stored safely, on its way to the Signal Store. <span class="needs-script">This page refreshes by itself.</span>
      <span class="no-script">Reload this page in a moment.</span>
    </TimelineStep>
  );
}

interface FateProps {
  base: string;
  trace: SignalTrace;
  /** The matched rules that still exist, by id. */
  rules: ReadonlyMap<string, { name: string; version: number }>;
  mayReplay: boolean;
}

function Fate(props: FateProps) {
  const { receivedAtMs, recordedAtMs, deletedAtMs } = props.trace;
  return (
    <>
      <TimelineStep title="Recorded" ms={recordedAtMs}>
        {duration(recordedAtMs - receivedAtMs)} after receipt
      </TimelineStep>
      {deletedAtMs === null ? (
        <Outcome {...props} />
      ) : (
        <TimelineStep title={`Deleted on ${day(deletedAtMs)}`} ms={deletedAtMs}>
          The signal was deleted with its person. Its id, event name and place in the usage are kept.
        </TimelineStep>
      )}
    </>
  );
}

function Outcome(props: FateProps) {
  const { base, trace, mayReplay } = props;
  switch (trace.status) {
    case "duplicate":
      return (
        <TimelineStep title="Duplicate">
          Same content as{" "}
          {trace.duplicateOf === null ? (
            "an earlier signal"
          ) : (
            <a class="mono" href={signalPath(base, trace.duplicateOf)}>
              {trace.duplicateOf}
            </a>
          )}
          . Counted, but not scored.
        </TimelineStep>
      );
    case "held":
      return (
        <TimelineStep title="Waiting" tone="warn">
          {trace.heldUntilMs !== null && `Deleted on ${day(trace.heldUntilMs)} unless an owner or admin releases it.`}
        </TimelineStep>
      );
    case "purged":
      return (
        <TimelineStep title="Purged" ms={trace.heldUntilMs}>
          The billing period ended while the signal was held. Its payload and person are deleted.
        </TimelineStep>
      );
    case "dead":
      return (
        <TimelineStep title="Could not be processed" tone="bad">
          <p>{trace.deadReason ?? "Unknown reason."}</p>
          {mayReplay && <ReplayButton base={base} id={trace.id} />}
        </TimelineStep>
      );
    case "anonymous":
      return (
        <TimelineStep title="Visitor not known yet" tone="info">
          Waits in cold storage. An identify call that gives this visitor an email assigns and scores the signal.
        </TimelineStep>
      );
    case "processed":
      return <Processed {...props} />;
  }
}

function Processed(props: FateProps) {
  const { base, trace } = props;
  if (trace.kind === "account") {
    return (
      <TimelineStep title="Account updated" tone="good">
        Mapped by the payload template of its key. <a href={`${base}/accounts`}>View accounts</a>
      </TimelineStep>
    );
  }
  const { person, kind } = trace;
  const isIdentify = kind === "identify";
  if (person === null) {
    return (
      <TimelineStep title={isIdentify ? "No person identified" : "No person named"}>
        {isIdentify
          ? "Without an email, an identify call creates no person and links no ids."
          : "The signal has no email, user id or anonymous id. It scores nothing."}
      </TimelineStep>
    );
  }
  return (
    <>
      <TimelineStep title={isIdentify ? "Person identified" : "Person found"} ms={person.linkedAtMs} tone="good">
        <a href={personPath(base, person.email)}>{person.email}</a>, by {NAMED_BY_LABEL[person.by]}
        {person.linkedAtMs !== null && ", linked when the visitor became known"}
      </TimelineStep>
      {kind === "signal" && <Score {...props} />}
    </>
  );
}

function Score({ base, rules, trace: { rulesTried, rulesMatched, points } }: FateProps) {
  return (
    <>
      <TimelineStep title={`${counted(rulesTried, "rule")} tried, ${rulesMatched.length} matched`}>
        {rulesMatched.length === 0 && <a href={`${base}/rules`}>View mapping rules</a>}
        {rulesMatched.map((match) => {
          const rule = rules.get(match.ruleId);
          return (
            <div>
              <strong>{signed(match.scored ? match.points : 0)}</strong> {match.scoringSignal}
              {howOften(base, match)}, from{" "}
              <a href={`${base}/rules/${encodeURIComponent(match.ruleId)}`}>{rule?.name ?? "a deleted rule"}</a> version{" "}
              {match.ruleVersion}
              {rule !== undefined && rule.version !== match.ruleVersion && ` (now version ${rule.version})`}
            </div>
          );
        })}
      </TimelineStep>
      <TimelineStep
        title={`${signed(points)} ${Math.abs(points) === 1 ? "point" : "points"}`}
        tone={points === 0 ? "quiet" : "good"}
      >
        {points === 0 ? "The score of the person did not change." : "Added to the score of the person."}
      </TimelineStep>
    </>
  );
}

/** The frequency of a rule, or why the rule did not score here. */
function howOften(base: string, { scored, scoredBy, frequency }: MatchedRule): Child {
  if (frequency === undefined) return "";
  if (scored) return `, ${FREQUENCY_LABEL[frequency].said}`;
  if (scoredBy === null) return `, ${ALREADY_SCORED[frequency]}`;
  return (
    <>
      , <a href={signalPath(base, scoredBy)}>{ALREADY_SCORED[frequency]}</a>
    </>
  );
}

function duration(ms: number): string {
  if (ms < 120_000) return `${(Math.max(0, ms) / 1_000).toFixed(1)} seconds`;
  return ms < 2 * 3_600_000 ? `${Math.round(ms / 60_000)} minutes` : `${Math.round(ms / 3_600_000)} hours`;
}
