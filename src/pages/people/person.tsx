/** A person's page: their score with its breakdown by rule, their timeline, and the ids that they are known by. */
import type { Child } from "hono/jsx";
import { ruleNames } from "../../control/stored-rules.ts";
import { DAY_MS } from "../../domain/duration.ts";
import { emailAsStored } from "../../domain/signal/identity.ts";
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
import { NAMED_BY_LABEL, signalTitle } from "../copy.ts";
import { LinkButton, Menu } from "../kit/forms.tsx";
import { TimeChart } from "../kit/charts.tsx";
import { counted, day, exactTime, grouped, signed } from "../kit/format.ts";
import { ListAddress, ListPanel, scanUntilMatch } from "../kit/list.tsx";
import { Empty, Facts, Panel, Stat, Stats, StatusBadge, Table, Tabs, Time } from "../kit/parts.tsx";
import { mayManage, page } from "../page.tsx";
import { type Ctx, pages, storeOf, workspacePath } from "../pages-env.ts";
import { accountPath, personPath, rulePath, signalPath } from "../paths.ts";
import { SignalList } from "../signal-list.tsx";

export function emailOf(c: Ctx): string {
  return emailAsStored(c.req.param("email") ?? "");
}

const TIMELINES = { all: "All signals", scores: "Scoring signals" } as const satisfies Record<PersonTimeline, string>;

export const personPages = pages.createApp().get("/:email", async (c) => {
  const email = emailOf(c);
  const base = workspacePath(c);
  const path = personPath(base, email);
  const list = new ListAddress(path, c.req.query());
  const shown = list.option<PersonTimeline>("show", TIMELINES, "all");
  const found = await storeOf(c).personPage(email, shown, list.slice(PAGE_ROWS));
  if (found === null) {
    const isDeleted = (await storeOf(c).deletion(email)) !== null;
    return isDeleted ? c.redirect(`${path}/deletion`, 303) : unknownPersonPage(c, email);
  }
  const { person, curve } = found;
  const scoring = found.timeline.items.flatMap(({ scores }) => scores);
  const ruleIds = [...scoring, ...curve.byRule].map(({ ruleId }) => ruleId);
  const rules = await ruleNames(c.get("db"), c.get("workspace").id, [...new Set(ruleIds)]);
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
      <Stat label="Score" value={person.score} note={scoreNote(person, curve)} />
      <Stat label="Last seen" value={<Time ms={person.lastSeenMs} />} />
      <Stat label="First seen" value={<Time ms={person.firstSeenMs} />} />
    </Stats>,
    <div class="columns main-first">
      <Panel title="Score over time">
        <Curve curve={curve} score={person.score} />
      </Panel>
      <Panel title="Profile">
        <Facts
          of={[
            ["Account", <AccountLink base={base} account={person.account} />],
            ...TRAIT_NAMES.map((trait) => [traitLabel(trait), person[trait] ?? UNKNOWN] as const),
          ]}
        />
        <p class="quiet small">From traits and properties of signals. The latest value of each field wins.</p>
      </Panel>
    </div>,
    curve.byRule.length > 0 && <Breakdown base={base} curve={curve} rules={rules} />,
    <TimelinePanel base={base} found={found} shown={shown} list={list} rules={rules} />,
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

function scoreNote({ nextLapseAtMs }: PersonSummary, { signals, complete, byRule }: ScoreCurve): string {
  if (signals === 0) return "no scoring signals yet";
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

/** Steps: a score stays the same until the next signal, or until points lapse. */
function Curve({ curve, score }: { curve: ScoreCurve; score: number }) {
  const [first] = curve.points;
  if (first === undefined) return <p class="quiet">No mapping rule has matched a signal of this person yet.</p>;
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
      fromMs={Math.min(first.atMs, nowMs - CURVE_MIN_MS)}
      toMs={nowMs}
    />
  );
}

function Breakdown({ base, curve, rules }: { base: string; curve: ScoreCurve; rules: RuleNames }) {
  return (
    <Panel title="Where the score comes from" list>
      {!curve.complete && (
        <p class="quiet small">Of the latest {counted(curve.signals, "scoring signal")} of this person.</p>
      )}
      <Table
        caption="Score by rule"
        rows={curve.byRule}
        href={({ ruleId }) => rulePath(base, ruleId)}
        columns={[
          { head: "Rule", cell: ({ ruleId }) => rules.get(ruleId)?.name ?? "Deleted rule" },
          { head: "Points", kind: "number", cell: ({ points }) => <Points points={points} /> },
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
}

function TimelinePanel({ base, found: { timeline, deletedUntilMs }, shown, list, rules }: TimelineProps) {
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
          <NoScores base={base} text="Mapping rules turn signals into points." />
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
      <ol class="entries">
        {timeline.items.map((entry) => (
          <Entry entry={entry} base={base} rules={rules} />
        ))}
      </ol>
    </ListPanel>
  );
}

function Entry({ entry: { signal, scores }, base, rules }: { entry: TimelineEntry; base: string; rules: RuleNames }) {
  const atMs = signal?.occurredAtMs ?? scores[0]?.occurredAtMs;
  return (
    <li>
      <span class="quiet">{atMs !== undefined && <Time ms={atMs} />}</span>
      <div>
        {signal === null ? (
          <span class="quiet">Signal deleted after the retention time</span>
        ) : (
          <div class="row">
            <a href={signalPath(base, signal.id)}>{signalTitle(signal)}</a>
            {signal.source !== null && <span class="tag">{signal.source}</span>}
            {signal.status !== "processed" && <StatusBadge status={signal.status} />}
            <span class="quiet small">{reasonOf(signal)}</span>
          </div>
        )}
        {scores.map((score) => (
          <Score score={score} base={base} rules={rules} />
        ))}
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
  return (
    <>
      matched by {NAMED_BY_LABEL[namedBy ?? "email"]}
      {namedBy !== null && namedBy !== "email" && (
        <>
          {" "}
          <code>{namedByValue}</code>
        </>
      )}
      {linkedAtMs !== null && (
        <>
          , anonymous until <Time ms={linkedAtMs} />
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
