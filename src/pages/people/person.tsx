/** A person's page: their score with its breakdown by rule, their timeline, and the ids that they are known by. */
import type { Child, PropsWithChildren } from "hono/jsx";
import { ruleNames } from "../../d1/stored-rules.ts";
import { DAY_MS, utcDay } from "../../domain/duration.ts";
import { TRAIT_NAMES, traitLabel } from "../../domain/signal/traits.ts";
import { PAGE_ROWS, PERSON_MAX_IDS } from "../../limits.ts";
import type {
  Identity,
  PersonAccount,
  PersonPage,
  PersonSummary,
  PersonTimeline,
  ScoreCurve,
  ScoringSignal,
  TimelineEntry,
  TimelineSignal,
} from "../../store/protocol/people-and-accounts.ts";
import { destinationsOf } from "../../use-cases/objects.ts";
import { NAMED_BY_LABEL, signalTitle } from "../copy.ts";
import { LinkButton, Menu } from "../kit/forms.tsx";
import { TimeChart } from "../kit/charts.tsx";
import { counted, day, exactTime, grouped, signed } from "../kit/format.ts";
import { ListAddress, ListPanel, scanUntilMatch } from "../kit/list.tsx";
import {
  Clock,
  Day,
  Empty,
  ValueList,
  Panel,
  ShareBar,
  shareText,
  Stat,
  Stats,
  StatusBadge,
  Table,
  Tabs,
  Time,
} from "../kit/parts.tsx";
import { mayManage, page } from "../page.tsx";
import {
  type Ctx,
  emailOf,
  pages,
  storeOf,
  workspacePath,
  accountPath,
  personPath,
  rulePath,
  signalPath,
} from "../pages-env.ts";
import { SignalList } from "../signal-list.tsx";

const TIMELINES = { all: "All signals", scores: "Scoring signals" } as const satisfies Record<PersonTimeline, string>;

export const personPages = pages.createApp().get("/:email", async (c) => {
  const email = emailOf(c);
  const base = workspacePath(c);
  const path = personPath(base, email);
  const list = new ListAddress(path, c.req.query());
  const shown = list.option<PersonTimeline>("show", TIMELINES, "all");
  const slice = list.slice(PAGE_ROWS);
  const found = await storeOf(c).personPage(email, shown, slice);
  if (found === null) {
    const isDeleted = (await storeOf(c).deletion(email)) !== null;
    return isDeleted ? c.redirect(`${path}/deletion`, 303) : unknownPersonPage(c, email);
  }
  const { person, curve } = found;
  const isLatest = shown === "all" && slice.cursor === null;
  const latest =
    curve.signals > 0 || isLatest ? found : await storeOf(c).personPage(email, "all", { ...slice, cursor: null });
  const isExcluded = latest?.timeline.items.some(({ signal }) => signal?.isExcluded === true) === true;
  const scoring = found.timeline.items.flatMap(({ scores }) => scores);
  const ruleIds = [...scoring, ...curve.byRule].map(({ ruleId }) => ruleId);
  const [rules, { people: thresholds }] = await Promise.all([
    ruleNames(c.get("db"), c.get("workspace").id, [...new Set(ruleIds)]),
    // Only owners and admins see notifications.
    mayManage(c) ? destinationsOf(c.env, c.get("workspace").id).thresholds() : { people: [] },
  ]);
  const actions = (
    <Menu label="Actions for this person">
      <a class="danger" href={`${path}/delete`}>
        Delete person
      </a>
    </Menu>
  );
  return page(
    c,
    {
      section: "people",
      title: email,
      heading: person.name ?? email,
      crumbs: [],
      intro: person.name !== null && email,
      actions: mayManage(c) && actions,
    },
    <Stats>
      <Stat label="Score" value={person.score} note={scoreNote(person, curve, isExcluded)} lead />
      <Stat label="Last seen" value={<Time ms={person.lastSeenMs} />} />
      <Stat label="First seen" value={<Time ms={person.firstSeenMs} />} />
    </Stats>,
    <div class="columns main-first">
      <Panel title="Score over time (UTC)">
        <Curve curve={curve} score={person.score} thresholds={thresholds} whose="this person" />
      </Panel>
      <Panel title="Profile">
        <ValueList
          of={[
            ["Account", <AccountLink base={base} account={person.account} />],
            ...TRAIT_NAMES.map((trait) => [traitLabel(trait), person[trait] ?? UNKNOWN] as const),
          ]}
        />
        <p class="quiet small">From traits and properties of signals. The latest value of each field wins.</p>
      </Panel>
    </div>,
    curve.byRule.length > 0 && <Breakdown base={base} curve={curve} rules={rules} whose="this person" />,
    <TimelinePanel base={base} found={found} shown={shown} list={list} rules={rules} isExcluded={isExcluded} />,
    <IdentitiesPanel base={base} found={found} />,
  );
});

/** The 404 page of a person. Held signals may name the email: a signal creates its person when it is processed. */
export async function unknownPersonPage(c: Ctx, email: string): Promise<Response> {
  const base = workspacePath(c);
  const filter = { email, status: "held" } as const;
  const list = new ListAddress(`${base}/signals/all`, {});
  list.addFilter("Person", email, filter);
  const held = await scanUntilMatch(list.slice(PAGE_ROWS), (slice) => storeOf(c).signals(filter, slice));
  const hasHeld = held.items.length > 0;
  return page(
    c,
    {
      section: "people",
      title: "This person does not exist",
      crumbs: [],
      intro: `No processed signal names ${email} yet.${hasHeld ? " Releasing a held signal creates the person." : ""}`,
      status: 404,
    },
    hasHeld && <SignalList base={base} list={list} signals={held} withEvent title="Held signals" />,
  );
}

const UNKNOWN = <span class="quiet">Unknown</span>;

export type RuleNames = ReadonlyMap<string, { name: string; version: number }>;

/** The curve spans at least this time, so that a new score is not drawn as a slow rise. */
const CURVE_MIN_MS = 3_600_000;

/** @param isExcluded whether an exclusion covers one of the latest signals. */
function scoreNote(
  { recomputing, nextLapseAtMs }: PersonSummary,
  { signals, complete, byRule }: ScoreCurve,
  isExcluded: boolean,
): string {
  if (recomputing) return "being recomputed";
  if (signals === 0) return isExcluded ? "no scoring signals: some signals are excluded" : "no scoring signals yet";
  const lapsed = signals - byRule.reduce((sum, { times }) => sum + times, 0);
  const from = complete
    ? `from ${counted(signals - lapsed, "scoring signal")}${lapsed === 0 ? "" : `, ${grouped(lapsed)} lapsed`}`
    : `from more than ${grouped(signals)} scoring signals`;
  return nextLapseAtMs === null ? from : `${from}; next points lapse on ${day(nextLapseAtMs)}`;
}

function AccountLink({ base, account }: { base: string; account: PersonAccount | null }) {
  if (account === null) return <span class="quiet">None</span>;
  return <a href={accountPath(base, account.externalId)}>{account.name ?? account.externalId}</a>;
}

interface CurveProps {
  curve: ScoreCurve;
  score: number;
  thresholds: readonly number[];
  /** Such as `this person`. */
  whose: string;
}

/** Steps: a score stays the same until the next signal, or until points lapse. */
export function Curve({ curve, score, thresholds, whose }: CurveProps) {
  const [first] = curve.points;
  if (first === undefined)
    return (
      <p class="quiet">
        No signal of {whose} scores: no mapping rule matched it when it came, or an exclusion covers it.
      </p>
    );
  const nowMs = Date.now();
  const points = curve.points.flatMap((point, index) => [
    { atMs: point.atMs, value: curve.points[index - 1]?.score ?? curve.fromScore },
    { atMs: point.atMs, value: point.score },
  ]);
  return (
    <TimeChart
      label={`Score from ${grouped(curve.fromScore)} on ${exactTime(first.atMs)} to ${grouped(score)} now.`}
      caption={curve.complete ? undefined : `The latest ${counted(curve.signals, "scoring signal")}.`}
      series={[{ kind: "area", points: [...points, { atMs: nowMs, value: score }] }]}
      references={thresholds
        .filter((value) => value > 0)
        .map((value) => ({ value, label: `Threshold ${grouped(value)}` }))}
      fromMs={Math.min(first.atMs, nowMs - CURVE_MIN_MS)}
      toMs={nowMs}
    />
  );
}

interface BreakdownProps extends Pick<CurveProps, "curve" | "whose"> {
  base: string;
  rules: RuleNames;
}

export function Breakdown({ base, curve, rules, whose }: BreakdownProps) {
  const nameOf = (ruleId: string): string => rules.get(ruleId)?.name ?? "Deleted rule";
  const added = curve.byRule.filter(({ points }) => points > 0);
  const sum = added.reduce((total, { points }) => total + points, 0);
  const label = added.map(({ ruleId, points }) => `${nameOf(ruleId)} ${shareText(points, sum)}`).join(", ");
  return (
    <Panel title="Where the score comes from" list>
      {!curve.complete && (
        <p class="quiet small">
          Of the latest {counted(curve.signals, "scoring signal")} of {whose}.
        </p>
      )}
      {added.length > 1 && <ShareBar parts={added.map(({ points }) => points)} label={label} />}
      <Table
        caption="Score by rule"
        rows={curve.byRule}
        href={({ ruleId }) => rulePath(base, ruleId)}
        columns={[
          { head: "Rule", cell: ({ ruleId }) => nameOf(ruleId) },
          { head: "Points", kind: "number", cell: ({ points }) => <Points points={points} /> },
          { head: "Share", kind: "number", cell: ({ points }) => points > 0 && shareText(points, sum) },
          { head: "Times", kind: "number", cell: ({ times }) => grouped(times) },
          { head: "Last", cell: ({ latestMs }) => <Time ms={latestMs} /> },
        ]}
      />
    </Panel>
  );
}

function Points({ points }: { points: number }) {
  return <span class={points < 0 ? "points bad" : "points good"}>{signed(points)}</span>;
}

interface TimelineProps {
  base: string;
  found: PersonPage;
  shown: PersonTimeline;
  list: ListAddress;
  rules: RuleNames;
  isExcluded: boolean;
}

function TimelinePanel({ base, found, shown, list, rules, isExcluded }: TimelineProps) {
  const { timeline, deletedUntilMs } = found;
  const excluded = isExcluded ? " Some signals of this person are excluded, so they never score." : "";
  const tabs = [
    { href: `${list.path}#timeline`, text: TIMELINES.all, current: shown === "all" },
    { href: `${list.path}?show=scores#timeline`, text: TIMELINES.scores, current: shown === "scores" },
  ];
  return (
    <ListPanel
      id="timeline"
      title="Timeline"
      list={list}
      found={timeline}
      head={<Tabs label="Timeline" tabs={tabs} />}
      empty={
        shown === "all" ? (
          <Empty title="No signals kept" text="All signals of this person are older than your plan keeps them." />
        ) : (
          <NoScores base={base} text={`Mapping rules turn signals into points.${excluded}`} />
        )
      }
      end={
        shown === "all" &&
        timeline.next === null &&
        deletedUntilMs > 0 && (
          <p class="quiet small">
            Your plan keeps signals for a limited time. Signals until {day(deletedUntilMs)} are deleted. Their points
            are kept under “Scoring signals”.
          </p>
        )
      }
    >
      {byDay(timeline.items).map(([dayMs, runs]) => (
        <section class="day">
          <h3>
            <Day ms={dayMs} />
          </h3>
          <ol class="entries">
            {runs.map((run) => (
              <Run run={run} base={base} rules={rules} />
            ))}
          </ol>
        </section>
      ))}
      <p class="quiet small">Days and times in UTC.</p>
    </ListPanel>
  );
}

function timeOf({ signal, scores }: TimelineEntry): number {
  return signal?.occurredAtMs ?? scores[0]?.occurredAtMs ?? 0;
}

/** Equal signals without a score, one after the other, share an entry. */
function byDay(entries: readonly TimelineEntry[]): [dayMs: number, runs: TimelineEntry[][]][] {
  const days: [number, TimelineEntry[][]][] = [];
  for (const entry of entries) {
    const dayMs = utcDay(timeOf(entry));
    if (days.at(-1)?.[0] !== dayMs) days.push([dayMs, []]);
    const runs = days.at(-1)?.[1] ?? [];
    const last = runs.at(-1)?.[0];
    if (last !== undefined && isRepeat(last, entry)) runs.at(-1)?.push(entry);
    else runs.push([entry]);
  }
  return days;
}

/** The fields that two signals of the same run share. */
const REPEATED = [
  "kind",
  "event",
  "source",
  "topic",
  "status",
  "isExcluded",
  "namedBy",
  "namedByValue",
  "linkedAtMs",
] as const satisfies (keyof TimelineSignal)[];

function isRepeat(a: TimelineEntry, b: TimelineEntry): boolean {
  if (a.signal === null || b.signal === null || a.scores.length + b.scores.length > 0) return false;
  const [earlier, later] = [a.signal, b.signal];
  return REPEATED.every((field) => earlier[field] === later[field]);
}

function Run({ run: [first, ...others], base, rules }: { run: TimelineEntry[]; base: string; rules: RuleNames }) {
  if (first === undefined) return <></>;
  return (
    <Entry entry={first} base={base} rules={rules}>
      {others.length > 0 && (
        <details>
          <summary class="small">{`${grouped(others.length)} more like this`}</summary>
          <span class="row">
            {others.map(
              (entry) =>
                entry.signal !== null && (
                  <a class="small" href={signalPath(base, entry.signal.id)}>
                    <Clock ms={timeOf(entry)} />
                  </a>
                ),
            )}
          </span>
        </details>
      )}
    </Entry>
  );
}

interface EntryProps {
  entry: TimelineEntry;
  base: string;
  rules: RuleNames;
}

function Entry({ entry, base, rules, children }: PropsWithChildren<EntryProps>) {
  const { signal, scores } = entry;
  return (
    <li>
      <span class="quiet">
        <Clock ms={timeOf(entry)} />
      </span>
      <div>
        {signal === null ? (
          <span class="quiet">Signal deleted after the retention time</span>
        ) : (
          <div class="row">
            <a href={signalPath(base, signal.id)}>{signalTitle(signal)}</a>
            {signal.topic !== null && <span>{signal.topic}</span>}
            {signal.source !== null && <span class="tag">{signal.source}</span>}
            {signal.status !== "processed" && <StatusBadge status={signal.status} />}
            {signal.isExcluded && <span class="tag">Excluded</span>}
            <span class="quiet small">{reasonOf(signal)}</span>
          </div>
        )}
        {scores.map((score) => (
          <Score score={score} base={base} rules={rules} />
        ))}
        {children}
      </div>
    </li>
  );
}

export function lapseText({ lapsed, lapsesAtMs }: Pick<ScoringSignal, "lapsed" | "lapsesAtMs">): string {
  if (lapsesAtMs === null) return "";
  return lapsed ? `, lapsed on ${day(lapsesAtMs)}` : `, until ${day(lapsesAtMs - DAY_MS)}`;
}

export function Score({ score, base, rules }: { score: ScoringSignal; base: string; rules: RuleNames }) {
  const rule = rules.get(score.ruleId);
  return (
    <div>
      {score.lapsed ? (
        <span class="quiet">
          {signed(score.points)}
          {lapseText(score)}:
        </span>
      ) : (
        <Points points={score.points} />
      )}{" "}
      {score.scoringSignal}{" "}
      <span class="quiet small">
        {rule === undefined ? (
          "from a deleted rule"
        ) : (
          <>
            from <a href={rulePath(base, score.ruleId)}>{rule.name}</a>
            {score.ruleVersion !== rule.version && `, version ${score.ruleVersion} (now ${rule.version})`}
          </>
        )}
        {!score.lapsed && lapseText(score)}
      </span>
    </div>
  );
}

/** Why the signal belongs to this person. The page's title has the email, so it is not repeated. */
function reasonOf({ kind, namedBy, namedByValue, linkedAtMs }: TimelineSignal): Child {
  if (kind === "identify") return "links ids to the email";
  const byId = namedBy !== null && namedBy !== "email";
  return (
    <>
      {byId && (
        <>
          matched by {NAMED_BY_LABEL[namedBy]} <code>{namedByValue}</code>
        </>
      )}
      {linkedAtMs !== null && (
        <>
          {byId ? ", anonymous" : "anonymous"} until <Time ms={linkedAtMs} />
        </>
      )}
    </>
  );
}

export function NoScores({ base, text }: { base: string; text: string }) {
  return (
    <Empty title="No scores yet" text={text}>
      <LinkButton href={`${base}/rules`} text="View mapping rules" />
    </Empty>
  );
}

const ID_LABEL = { anonymous_id: "Anonymous id", user_id: "User id" } as const satisfies Record<
  Identity["kind"],
  string
>;

function IdentitiesPanel({ base, found }: { base: string; found: PersonPage }) {
  const { identities, moreIdentities, sharedIds, person } = found;
  const none =
    sharedIds.length === 0
      ? "No id is linked: no identify call has named this email with an anonymous id or user id."
      : "No id is linked any more: a later identify call gave each of them to another person.";
  return (
    <Panel title="Identities" list id="identities">
      <p class="quiet small">Signals without an email belong to this person if they carry one of these ids.</p>
      <Table
        caption="Identities"
        rows={identities}
        empty={<p>{none}</p>}
        columns={[
          { head: "Id", cell: ({ value }) => <code>{value}</code> },
          { head: "Kind", cell: ({ kind }) => ID_LABEL[kind] },
          { head: "Linked", cell: ({ linkedAtMs }) => <Time ms={linkedAtMs} /> },
        ]}
      />
      {moreIdentities && <p class="quiet small">More ids exist. An export of people contains all of them.</p>}
      {person.idsDropped > 0 && (
        <p class="small">
          {`${counted(person.idsDropped, "older id")} dropped: a person keeps the latest ${grouped(PERSON_MAX_IDS)} of each kind. `}
          Earlier signals stay with this person. New signals with a dropped id are anonymous until an identify call
          names the id again. So many ids usually mean that a sender creates a new id for each visit.
        </p>
      )}
      {sharedIds.length > 0 && (
        <div class="small">
          <p>These ids name other people too. Each signal belongs to the person who had the id when it was received.</p>
          <ul>
            {sharedIds.map(({ kind, value, email, sinceMs }) => (
              <li>
                {ID_LABEL[kind]} <code>{value}</code>: <a href={personPath(base, email)}>{email}</a>, since{" "}
                <Time ms={sinceMs} />
              </li>
            ))}
          </ul>
        </div>
      )}
    </Panel>
  );
}
