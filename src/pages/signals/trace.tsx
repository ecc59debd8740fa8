/** The trace of a signal from receipt to score: its status is always explained. */
import { asSent, isJsonObject, parsed } from "../../domain/json/json-value.ts";
import type { Child } from "hono/jsx";
import { type ApiKey, findKey } from "../../d1/api-keys.ts";
import { exclusionName } from "../../d1/exclusions.ts";
import { ruleNames } from "../../d1/stored-rules.ts";
import { DAY_MS } from "../../domain/duration.ts";
import { MISFIT_KEPT_DAYS } from "../../limits.ts";
import { addressPathIn } from "../../domain/template/propose-template.ts";
import type { MatchedRule, SignalTrace } from "../../store/protocol/stored-signals.ts";
import type { Admission } from "../../wire/message.ts";
import { followSignal } from "../../use-cases/signal-operations.ts";
import { ALREADY_SCORED, ENDPOINT_LABEL, FREQUENCY_LABEL, NAMED_BY_LABEL, signalTitle } from "../copy.ts";
import { KeyTitle } from "../keys/key-parts.tsx";
import { LinkButton } from "../kit/forms.tsx";
import { counted, day, grouped, signed } from "../kit/format.ts";
import {
  Badge,
  CopyId,
  EmailText,
  ValueList,
  Json,
  Panel,
  StatusBadge,
  Timeline,
  WithCode,
  type TimelineStep,
} from "../kit/parts.tsx";
import { mayManage, notFoundPage, page } from "../page.tsx";
import {
  counterOf,
  type Ctx,
  pages,
  workspacePath,
  accountPath,
  groupPath,
  keyPath,
  mapPath,
  personPath,
  rulePath,
  signalPath,
  withQuery,
} from "../pages-env.ts";
import { lapseText, type RuleNames } from "../people/person.tsx";
import { DeadReason, ReplayButton } from "./signals.tsx";

const REFRESH_MS = 2_000;
/** The page follows a replay for this long. */
const REPLAY_FOLLOWED_MS = 60_000;

/** A replay that this page began is under way, or has left the signal a dead letter. Null: neither is known. */
type Replay = "under_way" | "dead_again" | null;

interface Names {
  rules: RuleNames;
  /** Name of the exclusion that covers the signal; null: no stored version of the exclusions has it. */
  exclusion: string | null;
}

export const tracePages = pages.createApp().get("/:signal_id", async (c) => {
  const [base, { id }, db] = [workspacePath(c), c.get("workspace"), c.get("db")];
  // Before the signal is read: once nothing is unsettled, the store has what came of the replay.
  const replay = await followReplay(c);
  const found = await followSignal(c.env, id, c.req.param("signal_id"));
  if (found === null) return notFoundPage(c, "signal");
  const trace = "recorded" in found ? found.recorded : null;
  const signal = "recorded" in found ? found.recorded : found.inFlight;
  const [apiKey, rules, exclusion] = await Promise.all([
    // Spec §1: only owners and admins see keys.
    mayManage(c) ? findKey(db, id, signal.keyId) : null,
    ruleNames(db, id, trace?.rulesMatched.map(({ ruleId }) => ruleId) ?? []),
    trace === null || trace.excludedBy === null ? null : exclusionName(db, id, trace.excludedBy),
  ]);
  const names = { rules, exclusion };
  const { event = null, source = null } = trace?.kind === "signal" ? trace : {};
  const canMakeRule = mayManage(c) && trace?.kind === "signal" && trace.payload !== null;
  const canMap = mayManage(c) && trace !== null && needsTemplate(trace);
  const map = <LinkButton href={mapPath(base, signal)} text="Map this payload" look={canMakeRule ? "" : "primary"} />;
  const create = <LinkButton href={withQuery(`${base}/rules/new`, { from: signal.id })} text="Create mapping rule" />;
  const follows = trace === null || (trace.status === "dead" && replay === "under_way");
  return page(
    c,
    {
      section: "signals",
      title: signal.id,
      heading:
        // The refresh does not replace it.
        follows || trace === null
          ? "Signal"
          : trace.misfit && trace.event === null
            ? "Signal that its template does not fit"
            : signalTitle(trace),
      crumbs: event !== null && source !== null ? [[event, groupPath(base, event, source)]] : [],
    },
    <div class="columns wide" id="trace" {...(follows ? { "data-refresh": String(REFRESH_MS) } : {})}>
      <Panel
        title="Trace"
        // Here, because the refresh replaces this part of the page.
        actions={
          <div class="row">
            {canMap && map}
            {canMakeRule && create}
            <Status trace={trace} />
          </div>
        }
      >
        <Timeline
          steps={stepsOf(base, signal, trace, names, { mayReplay: mayManage(c), replay })}
          fromMs={signal.receivedAtMs}
        />
      </Panel>
      <SignalPanel base={base} signal={signal} trace={trace} apiKey={apiKey} />
    </div>,
  );
});

/** The redirect after a replay carries its time. */
async function followReplay(c: Ctx): Promise<Replay> {
  const sinceMs = Date.now() - Number(c.req.query("replayed"));
  if (!(sinceMs >= 0 && sinceMs < REPLAY_FOLLOWED_MS)) return null;
  return (await counterOf(c).books()).unsettled > 0 ? "under_way" : "dead_again";
}

/** A misfit, or a signal whose payload may name a person whom no template reads. */
function needsTemplate({ endpoint, kind, status, payload, misfit, person, ...trace }: SignalTrace): boolean {
  if (payload === null || endpoint !== "signal_staging") return false;
  const isNameless = trace.email === null && trace.userId === null && trace.anonymousId === null;
  return misfit || (kind === "signal" && status === "processed" && person === null && isNameless);
}

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
      <ValueList
        of={[
          ["Id", <CopyId id={signal.id} label="signal id" />],
          ["About", trace?.topic],
          ["API key", key],
          ["Source", trace?.source],
          ["Email", typeof trace?.email === "string" && <EmailText text={trace.email} />],
          ["User id", trace?.userId],
          ["Anonymous id", trace?.anonymousId],
        ]}
      />
      {trace !== null &&
        Object.values(trace.problems).map((problem) => (
          <p>
            <WithCode text={problem} />
          </p>
        ))}
      {trace !== null && trace.payload !== null ? (
        <Json value={asSent(trace.payload)} label="Payload as it was sent" />
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
  if (trace.status === "duplicate") {
    const first = trace.sameId ? "The first signal has the same id." : "It equals that of the first signal.";
    return `The payload of a duplicate is not kept. ${first}`;
  }
  if (isPurgedMisfit(trace)) {
    return `The payload was deleted, because no template has fitted it within ${MISFIT_KEPT_DAYS} days.`;
  }
  if (trace.status === "purged") return "The payload was deleted at the end of the billing period.";
  return "The payload is not stored.";
}

/** Deletions and the ends of billing periods purge too, but the line of another signal, or with the time of the deletion. */
function isPurgedMisfit({ status, kind, deletedAtMs }: SignalTrace): boolean {
  return status === "purged" && kind === "unknown" && deletedAtMs === null;
}

interface DeadProps {
  mayReplay: boolean;
  replay: Replay;
}

function stepsOf(
  base: string,
  signal: Admission | SignalTrace,
  trace: SignalTrace | null,
  names: Names,
  dead: DeadProps,
): TimelineStep[] {
  const received = { title: "Received", ms: signal.receivedAtMs, text: `${ENDPOINT_LABEL[signal.endpoint]} endpoint` };
  if (trace === null) return [received, verdictStep(base, signal), IN_FLIGHT];
  const { occurredAtMs, occurredFrom, receivedAtMs, recordedAtMs, deletedAtMs } = trace;
  const by = occurredAtMs === receivedAtMs ? "Not before the receipt, by " : "By ";
  const from = trace.mapped ? "the payload template of its key" : [<code>{occurredFrom}</code>, " in the payload"];
  const occurred = { title: "Occurred", ms: occurredAtMs, text: [by, from] };
  const recorded = "In the Signal Store, with its place in the usage";
  return [
    ...(occurredFrom === "received" ? [] : [occurred]),
    received,
    verdictStep(base, signal),
    { title: "Recorded", ms: recordedAtMs, text: recorded },
    ...(deletedAtMs === null ? outcomeSteps(base, trace, names, dead) : [deletedStep(deletedAtMs)]),
  ];
}

/** Why the signal was accepted, held or rejected (spec §8.2 to §8.4). */
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

const FOLLOWED = (
  <>
    <span class="needs-script">This page refreshes by itself.</span>
    <span class="no-script">Reload this page in a moment.</span>
  </>
);

const IN_FLIGHT: TimelineStep = {
  title: "In flight",
  tone: "info",
  text: ["Stored safely, on its way to the Signal Store. ", FOLLOWED],
};

const REPLAY_UNDER_WAY: TimelineStep = {
  title: "Replay in progress",
  tone: "info",
  text: ["On its way to the Signal Store again. ", FOLLOWED],
};

function deletedStep(ms: number): TimelineStep {
  const text = "The signal was deleted with its person. Its id, event name and place in the usage are kept.";
  return { title: `Deleted on ${day(ms)}`, ms, text };
}

function outcomeSteps(
  base: string,
  trace: SignalTrace,
  names: Names,
  { mayReplay, replay }: DeadProps,
): TimelineStep[] {
  const { id, status, duplicateOf, heldUntilMs, deadReason } = trace;
  switch (status) {
    case "duplicate": {
      const first = duplicateOf !== null && (
        <a class="mono" href={signalPath(base, duplicateOf)}>
          {duplicateOf}
        </a>
      );
      const same = trace.sameId ? "Same id as " : "Same content as ";
      const text = [same, first || "an earlier signal", ". Counted, but not scored."];
      return [{ title: "Duplicate", text }];
    }
    case "held": {
      const text = heldUntilMs !== null && `Deleted on ${day(heldUntilMs)} unless an owner or admin releases it.`;
      return [{ title: "Waiting", tone: "warn", text }];
    }
    case "purged": {
      if (isPurgedMisfit(trace)) {
        const ms = trace.recordedAtMs + MISFIT_KEPT_DAYS * DAY_MS;
        const text = `The template of its key did not fit it, and no other has within ${MISFIT_KEPT_DAYS} days. Its payload is deleted. It counts in the usage.`;
        return [{ title: "Purged", ms, text }];
      }
      const text = "The billing period ended while the signal was held. Its payload and person are deleted.";
      return [{ title: "Purged", ms: heldUntilMs, text }];
    }
    case "dead": {
      if (replay === "under_way") return [REPLAY_UNDER_WAY];
      const text = [
        replay === "dead_again" && <p>The replay has not changed that.</p>,
        <p>
          <DeadReason base={base} reason={deadReason ?? "Unknown reason."} />
        </p>,
        mayReplay && <ReplayButton base={base} id={id} />,
      ];
      const title = trace.misfit ? "The payload template does not fit" : "Could not be processed";
      return [{ title, tone: "bad", text }];
    }
    case "anonymous": {
      const text =
        "Waits in cold storage. An identify call that gives this visitor an email assigns and scores the signal.";
      return [{ title: "Visitor not known yet", tone: "info", text }, ...accountSteps(base, trace)];
    }
    case "processed":
      return processedSteps(base, trace, names);
  }
}

function processedSteps(base: string, trace: SignalTrace, names: Names): TimelineStep[] {
  const { person, kind } = trace;
  if (kind === "account") {
    const [path, view] =
      trace.topic === null
        ? [`${base}/accounts`, "View accounts"]
        : [withQuery(`${base}/accounts`, { q: trace.topic }), "View account"];
    const text = ["Mapped by the payload template of its key. ", <a href={path}>{view}</a>];
    return [{ title: "Account updated", tone: "good", text }];
  }
  const isIdentify = kind === "identify";
  if (person === null) {
    const { email: emailProblem, id: idProblem } = trace.problems;
    const [title, text] = isIdentify
      ? ["No person identified", "Without an email, an identify call creates no person and links no ids."]
      : [
          "No person named",
          emailProblem !== undefined || idProblem !== undefined
            ? "The signal's email and ids name nobody, for the reasons under “Signal”. It scores nothing."
            : "The signal has no email, user id or anonymous id. It scores nothing.",
        ];
    return [{ title, text: [text, <AddressFound trace={trace} />] }];
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
  const isScored = kind === "signal" && (!trace.isGroupCall || trace.rulesMatched.length > 0);
  return [found, ...accountSteps(base, trace), ...(isScored ? scoreSteps(base, trace, names) : [])];
}

/** Where an address stands that nothing reads. The address itself is not repeated. */
function AddressFound({ trace }: { trace: SignalTrace }) {
  const path = needsTemplate(trace) ? addressPathIn(parsed(trace.payload)) : undefined;
  if (path === undefined) return <></>;
  return (
    <>
      {" "}
      An address stands at <code>{path}</code>, which{" "}
      {trace.mapped ? "its template does not read" : "a payload template can read"}.
    </>
  );
}

/** Fields that a step names. */
const FIELDS_NAMED = 10;

/** The effect of a `group` call, or of an identify call that names a company: membership, and the account's fields. */
function accountSteps(base: string, trace: SignalTrace): TimelineStep[] {
  const { traits, person, isGroupCall, payload } = trace;
  if (traits.account === undefined) return [];
  const link = <a href={accountPath(base, traits.account)}>{trace.topic ?? traits.account}</a>;
  const sent = isGroupCall ? parsed(payload) : null;
  const names = isJsonObject(sent) && isJsonObject(sent["traits"]) ? Object.keys(sent["traits"]) : [];
  const shown = names.slice(0, FIELDS_NAMED).join(", ");
  const more = names.length > FIELDS_NAMED ? ` and ${grouped(names.length - FIELDS_NAMED)} more` : "";
  const fields = names.length === 0 ? "" : ` Sent fields: ${shown}${more}. An account update sets a field first.`;
  const title = person === null ? "Account named" : "Member of account";
  const text =
    person === null
      ? [link, ". The visitor becomes its member once they are known.", fields]
      : [person.email, " is now a member of ", link, ".", fields];
  return [{ title, tone: "good", text }];
}

function scoreSteps(base: string, trace: SignalTrace, { rules, exclusion }: Names): TimelineStep[] {
  const { rulesMatched, excludedBy } = trace;
  if (excludedBy !== null) {
    return [
      {
        title: "Excluded: scores nothing",
        tone: "quiet",
        text: [
          "Covered by ",
          <a href={`${base}/rules/exclusions`}>{exclusion ?? "an exclusion that is no longer kept"}</a>,
          ". It counts as a signal, but never for a score.",
        ],
      },
    ];
  }
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
    triedStep(base, trace, matches),
    {
      title: pointsText(added),
      tone: added === 0 ? "quiet" : "good",
      text: effectText(trace, added),
    },
  ];
}

function triedStep(base: string, { rulesTried, rulesMatched }: SignalTrace, matches: Child[]): TimelineStep {
  // A rule that was applied to past signals has matched, but was not tried when the signal was recorded.
  const tried = Math.max(rulesTried, rulesMatched.length);
  const rules = <a href={`${base}/rules`}>View mapping rules</a>;
  if (tried === 0) return { title: "No rule tried", text: ["No enabled mapping rule was for this event. ", rules] };
  const title = `${counted(tried, "rule")} tried, ${rulesMatched.length} matched`;
  return { title, text: matches.length === 0 ? rules : matches };
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
