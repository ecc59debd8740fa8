/** One signal from receipt to score (design §1.3: nothing is silent). */
import type { Child } from "hono/jsx";
import { type ApiKey, findKey } from "../../control/api-keys.ts";
import { ruleNames } from "../../control/stored-rules.ts";
import { emailProblemOf } from "../../domain/signal/normalise.ts";
import { timeProblemOf } from "../../domain/signal/occurred-at.ts";
import type { MatchedRule, SignalTrace } from "../../store/protocol/stored-signals.ts";
import type { Admission } from "../../wire/admission.ts";
import { followSignal } from "../../workspace/signal-operations.ts";
import { ALREADY_SCORED, ENDPOINT_LABEL, FREQUENCY_LABEL, NAMED_BY_LABEL, signalTitle } from "../copy.ts";
import { KeyTitle } from "../keys/key-parts.tsx";
import { LinkButton } from "../kit/forms.tsx";
import { counted, day, grouped, signed, withQuery } from "../kit/format.ts";
import { Badge, CopyText, Facts, Json, Panel, StatusBadge, Timeline, type TimelineStep } from "../kit/parts.tsx";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { pages, workspacePath } from "../pages-env.ts";
import { groupPath, keyPath, personPath, rulePath, signalPath } from "../paths.ts";
import { lapseText, type RuleNames } from "../people/person.tsx";
import { ReplayButton } from "./signals.tsx";

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
      heading: trace === null ? "Signal" : signalTitle(trace),
      crumbs: event !== null && source !== null ? [[event, groupPath(base, event, source)]] : [],
      actions: canMakeRule && create,
    },
    <div class="columns wide" id="trace" {...(trace === null ? { "data-refresh": String(REFRESH_MS) } : {})}>
      <Panel title="Trace" actions={<Status trace={trace} />}>
        <Timeline steps={stepsOf(base, signal, trace, rules, mayManage(c))} />
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
  const key = apiKey !== null && (
    <a href={keyPath(base, apiKey.id)}>
      <KeyTitle {...apiKey} />
    </a>
  );
  return (
    <Panel title="Signal">
      <Facts
        of={[
          ["Id", <CopyText id="signal-id" label="signal id" text={signal.id} />],
          ["API key", key],
          ["Source", trace?.source],
          ["Email", trace?.email],
          ["User id", trace?.userId],
          ["Anonymous id", trace?.anonymousId],
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
  if (trace.payloadLost) return "The payload is missing in cold storage. Its effects are kept.";
  if (trace.status === "duplicate")
    return "The payload of a duplicate is not kept. It equals that of the first signal.";
  if (trace.status === "purged") return "The payload was deleted at the end of the billing period.";
  return "The payload is not stored.";
}

function stepsOf(
  base: string,
  signal: Admission | SignalTrace,
  trace: SignalTrace | null,
  rules: RuleNames,
  mayReplay: boolean,
): TimelineStep[] {
  const received = { title: "Received", ms: signal.receivedAtMs, text: `${ENDPOINT_LABEL[signal.endpoint]} endpoint` };
  if (trace === null) return [received, verdictStep(base, signal), IN_FLIGHT];
  const { occurredAtMs, occurredFrom, receivedAtMs, recordedAtMs, deletedAtMs } = trace;
  const by = occurredAtMs === receivedAtMs ? "Not before the receipt, by " : "By ";
  const occurred = { title: "Occurred", ms: occurredAtMs, text: [by, <code>{occurredFrom}</code>, " in the payload"] };
  const recorded = `${duration(recordedAtMs - receivedAtMs)} after receipt`;
  return [
    ...(occurredFrom === "received" ? [] : [occurred]),
    received,
    verdictStep(base, signal),
    { title: "Recorded", ms: recordedAtMs, text: recorded },
    ...(deletedAtMs === null ? outcomeSteps(base, trace, rules, mayReplay) : [deletedStep(deletedAtMs)]),
  ];
}

/** Spec §8.2 to §8.4. */
function verdictStep(base: string, { verdict, ordinal, signalLimit }: Admission | SignalTrace): TimelineStep {
  const place = `signal ${grouped(ordinal)} of ${grouped(signalLimit)}`;
  if (verdict === "held") {
    const held = <a href={`${base}/signals/all?status=held`}>View held signals</a>;
    const text = ["Beyond the signal limit of the billing period. ", held];
    return { title: `Held: ${place}`, tone: "warn", text };
  }
  const text =
    ordinal > signalLimit
      ? "Beyond the signal limit at that time: accepted as overage, or released later."
      : "Within the signal limit of the billing period.";
  return { title: `Accepted: ${place}`, tone: "good", text };
}

const IN_FLIGHT: TimelineStep = {
  title: "In flight",
  tone: "info",
  text: (
    <>
      Stored safely, on its way to the Signal Store. <span class="needs-script">This page refreshes by itself.</span>
      <span class="no-script">Reload this page in a moment.</span>
    </>
  ),
};

function deletedStep(ms: number): TimelineStep {
  const text = "The signal was deleted with its person. Its id, event name and place in the usage are kept.";
  return { title: `Deleted on ${day(ms)}`, ms, text };
}

function outcomeSteps(base: string, trace: SignalTrace, rules: RuleNames, mayReplay: boolean): TimelineStep[] {
  const { id, status, duplicateOf, heldUntilMs, deadReason } = trace;
  switch (status) {
    case "duplicate": {
      const first = duplicateOf !== null && (
        <a class="mono" href={signalPath(base, duplicateOf)}>
          {duplicateOf}
        </a>
      );
      const text = ["Same content as ", first || "an earlier signal", ". Counted, but not scored."];
      return [{ title: "Duplicate", text }];
    }
    case "held": {
      const text = heldUntilMs !== null && `Deleted on ${day(heldUntilMs)} unless an owner or admin releases it.`;
      return [{ title: "Waiting", tone: "warn", text }];
    }
    case "purged": {
      const text = "The billing period ended while the signal was held. Its payload and person are deleted.";
      return [{ title: "Purged", ms: heldUntilMs, text }];
    }
    case "dead": {
      const text = [<p>{deadReason ?? "Unknown reason."}</p>, mayReplay && <ReplayButton base={base} id={id} />];
      return [{ title: "Could not be processed", tone: "bad", text }];
    }
    case "anonymous": {
      const text =
        "Waits in cold storage. An identify call that gives this visitor an email assigns and scores the signal.";
      return [{ title: "Visitor not known yet", tone: "info", text }];
    }
    case "processed":
      return processedSteps(base, trace, rules);
  }
}

function processedSteps(base: string, trace: SignalTrace, rules: RuleNames): TimelineStep[] {
  const { person, kind } = trace;
  if (kind === "account") {
    const text = ["Mapped by the payload template of its key. ", <a href={`${base}/accounts`}>View accounts</a>];
    return [{ title: "Account updated", tone: "good", text }];
  }
  const isIdentify = kind === "identify";
  if (person === null) {
    const [title, text] = isIdentify
      ? ["No person identified", "Without an email, an identify call creates no person and links no ids."]
      : ["No person named", "The signal has no email, user id or anonymous id. It scores nothing."];
    return [{ title, text }];
  }
  const found: TimelineStep = {
    title: isIdentify ? "Person identified" : "Person found",
    ms: person.linkedAtMs,
    tone: "good",
    text: [
      <a href={personPath(base, person.email)}>{person.email}</a>,
      `, by its ${NAMED_BY_LABEL[person.by]}`,
      person.linkedAtMs !== null && ", linked when the visitor became known",
    ],
  };
  return kind === "signal" ? [found, ...scoreSteps(base, trace, rules)] : [found];
}

function scoreSteps(base: string, trace: SignalTrace, rules: RuleNames): TimelineStep[] {
  const { rulesTried, rulesMatched } = trace;
  const scoring = rulesMatched.filter((match) => match.scored && !lapsedOnArrival(trace, match));
  const added = scoring.reduce((sum, { points }) => sum + points, 0);
  const matches = rulesMatched.map((match) => {
    const rule = rules.get(match.ruleId);
    return (
      <div>
        <strong>{signed(scoring.includes(match) ? match.points : 0)}</strong> {match.scoringSignal}
        {frequencyText(base, match)}
        {match.scored && lapseWithEffect(trace, match)}, from{" "}
        <a href={rulePath(base, match.ruleId)}>{rule?.name ?? "a deleted rule"}</a> version {match.ruleVersion}
        {rule !== undefined && rule.version !== match.ruleVersion && ` (now version ${rule.version})`}
      </div>
    );
  });
  return [
    {
      title: `${counted(rulesTried, "rule")} tried, ${rulesMatched.length} matched`,
      text: matches.length === 0 ? <a href={`${base}/rules`}>View mapping rules</a> : matches,
    },
    {
      title: pointsText(added),
      tone: added === 0 ? "quiet" : "good",
      text: effectText(trace, added),
    },
  ];
}

function pointsText(points: number): string {
  return `${signed(points)} ${Math.abs(points) === 1 ? "point" : "points"}`;
}

/** @param added includes points that have lapsed since. */
function effectText(trace: SignalTrace, added: number): string {
  const hadLapsed = trace.rulesMatched.some((match) => match.scored && lapsedOnArrival(trace, match));
  if (added === 0) {
    return hadLapsed
      ? "The points had lapsed before the signal arrived. The score of the person did not change."
      : "The score of the person did not change.";
  }
  const lapsed = added - trace.points;
  return `Added to the score of the person.${lapsed === 0 ? "" : ` ${pointsText(lapsed)} lapsed since.`}`;
}

/** Whether the points had lapsed when the signal was recorded, or linked to its person. */
function lapsedOnArrival({ recordedAtMs, person }: SignalTrace, { lapsesAtMs }: MatchedRule): boolean {
  return lapsesAtMs !== null && lapsesAtMs <= Math.max(recordedAtMs, person?.linkedAtMs ?? 0);
}

function lapseWithEffect(trace: SignalTrace, match: MatchedRule): string {
  if (!lapsedOnArrival(trace, match)) return lapseText(match);
  return `${lapseText(match)}, so ${pointsText(match.points)} ${Math.abs(match.points) === 1 ? "was" : "were"} not added`;
}

function frequencyText(base: string, { scored, scoredBy, frequency }: MatchedRule): Child {
  if (frequency === undefined) return "";
  if (scored) return `, ${FREQUENCY_LABEL[frequency].phrase}`;
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
