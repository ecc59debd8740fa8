/** A person's page: their score with its breakdown by rule, their timeline, and the ids that they are known by. */
import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { ruleNames } from "../../control/stored-rules.ts";
import { DAY_MS } from "../../domain/duration.ts";
import { TRAIT_NAMES, traitLabel } from "../../domain/signal/traits.ts";
import { PAGE_ROWS, PERSON_MAX_IDS } from "../../limits.ts";
import type {
  Identity,
  PersonAccount,
  PersonPage,
  PersonSummary,
  PersonTimeline,
  RuleShare,
  ScoreCurve,
  ScoringSignal,
  TimelineEntry,
  TimelineSignal,
} from "../../store/protocol/people-and-accounts.ts";
import { signalStore } from "../../workspace/objects.ts";
import { Menu } from "../kit/actions.tsx";
import { TimeChart } from "../kit/charts.tsx";
import { counted, day, exactTime, grouped, signed } from "../kit/format.ts";
import { ListAddress } from "../kit/list-address.ts";
import { Empty, Fact, FactList, PageHead, Panel, Stat, Stats, StatusBadge, Tabs, Time } from "../kit/parts.tsx";
import { Pager, Table } from "../kit/table.tsx";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { accountPath, pages, type PagesEnv, workspacePath } from "../pages-env.ts";

/** Path of a person's page. An email may contain slashes and percent signs. */
export function personPath(base: string, email: string): string {
  return `${base}/people/${encodeURIComponent(email)}`;
}

/** The email of the path, as the store has it. */
export function emailOf(c: Context<PagesEnv>): string {
  return (c.req.param("email") ?? "").trim().toLowerCase();
}

export const personPages = pages.createApp().get("/:email", async (c) => {
  const email = emailOf(c);
  const path = personPath(workspacePath(c), email);
  const list = new ListAddress(path, c.req.query());
  const shown = list.choice<PersonTimeline>("show", null, { all: "All signals", scores: "Scoring signals" }, "all");
  const store = signalStore(c.env, c.get("workspace").id);
  const found = await store.personPage(email, shown, list.slice(PAGE_ROWS));
  if (found === null) {
    const isDeleted = (await store.deletion(email)) !== null;
    return isDeleted ? c.redirect(`${path}/deletion`, 303) : notFoundPage(c, "person");
  }
  const scoring = found.timeline.items.flatMap(({ scores }) => scores);
  const ruleIds = [...scoring, ...found.curve.byRule].map(({ ruleId }) => ruleId);
  const rules = await ruleNames(c.get("db"), c.get("workspace").id, [...new Set(ruleIds)]);
  const view = { base: workspacePath(c), path, found, shown, list, rules, mayDelete: mayManage(c), nowMs: Date.now() };
  return page(c, { title: email, section: "people" }, <PersonView {...view} />);
});

export type RuleNames = ReadonlyMap<string, { name: string; version: number }>;

interface Props {
  /** The workspace's path. */
  base: string;
  /** Path of this page. */
  path: string;
  found: PersonPage;
  shown: PersonTimeline;
  list: ListAddress;
  rules: RuleNames;
  mayDelete: boolean;
  nowMs: number;
}

function PersonView(props: Props) {
  const { base, path, found, mayDelete, nowMs } = props;
  const { person, curve } = found;
  return (
    <>
      <PageHead
        title={person.name ?? person.email}
        crumbs={[<a href={`${base}/people`}>People</a>]}
        actions={
          mayDelete && (
            <Menu label="Actions for this person">
              <a class="danger" href={`${path}/delete`}>
                Delete person
              </a>
            </Menu>
          )
        }
      >
        {person.name !== null && person.email}
      </PageHead>
      <Stats>
        <Stat label="Score" value={person.score} note={scoreNote(person, curve)} />
        <Stat label="Last seen" value={<Time ms={person.lastSeenMs} nowMs={nowMs} />} />
        <Stat label="First seen" value={<Time ms={person.firstSeenMs} nowMs={nowMs} />} />
      </Stats>
      <div class="columns main-first">
        <Panel title="Score over time">
          <Curve curve={curve} score={person.score} nowMs={nowMs} />
        </Panel>
        <Panel title="Profile">
          <FactList>
            <Fact name="Account">
              <AccountLink base={base} account={person.account} />
            </Fact>
            {TRAIT_NAMES.map((trait) => (
              <Fact name={traitLabel(trait)}>{person[trait] ?? <span class="quiet">Unknown</span>}</Fact>
            ))}
          </FactList>
          <p class="quiet small">From traits and properties of signals. The latest value of each field wins.</p>
        </Panel>
      </div>
      {curve.byRule.length > 0 && <Breakdown {...props} />}
      <TimelinePanel {...props} />
      <IdentitiesPanel {...props} />
    </>
  );
}

/** The shortest time that the curve spans, so that a score of just now is not drawn as if it had taken all day. */
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

/** The score over time, in steps: it stays the same until the next signal, or until points lapse. */
function Curve({ curve, score, nowMs }: { curve: ScoreCurve; score: number; nowMs: number }) {
  const [first] = curve.points;
  if (first === undefined) return <p class="quiet">No mapping rule has matched a signal of this person yet.</p>;
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

function Breakdown({ base, found: { curve }, rules, nowMs }: Props) {
  return (
    <Panel title="Where the score comes from" list>
      {!curve.complete && (
        <p class="quiet small">Of the latest {counted(curve.signals, "scoring signal")} of this person.</p>
      )}
      <Table
        caption="Score by rule"
        rows={curve.byRule}
        href={({ ruleId }: RuleShare) => `${base}/rules/${encodeURIComponent(ruleId)}`}
        columns={[
          { head: "Rule", cell: ({ ruleId }) => rules.get(ruleId)?.name ?? "Deleted rule" },
          { head: "Points", kind: "number", cell: ({ points }) => <Points points={points} /> },
          { head: "Times", kind: "number", cell: ({ times }) => grouped(times) },
          { head: "Last", cell: ({ latestMs }) => <Time ms={latestMs} nowMs={nowMs} /> },
        ]}
      />
    </Panel>
  );
}

export function Points({ points }: { points: number }) {
  return <span class={points < 0 ? "points bad" : "points good"}>{signed(points)}</span>;
}

function TimelinePanel({ base, path, found, shown, list, rules, nowMs }: Props) {
  const { timeline, deletedUntilMs } = found;
  const isLast = timeline.next === null;
  return (
    <Panel title="Timeline" list id="timeline">
      <Tabs
        label="Timeline"
        tabs={[
          { href: `${path}#timeline`, text: "All signals", current: shown === "all" },
          { href: `${path}?show=scores#timeline`, text: "Scoring signals", current: shown === "scores" },
        ]}
      />
      {timeline.items.length === 0 ? (
        <NoEntries shown={shown} base={base} />
      ) : (
        <ol class="entries">
          {timeline.items.map((entry) => (
            <Entry entry={entry} base={base} rules={rules} nowMs={nowMs} />
          ))}
        </ol>
      )}
      {shown === "all" && isLast && deletedUntilMs > 0 && (
        <p class="quiet small">
          Your plan keeps signals for a limited time. Signals until {day(deletedUntilMs)} are deleted. Their points are
          kept under “Scoring signals”.
        </p>
      )}
      <Pager list={list} next={timeline.next} />
    </Panel>
  );
}

function Entry({ entry, base, rules, nowMs }: { entry: TimelineEntry; base: string; rules: RuleNames; nowMs: number }) {
  const { signal, scores } = entry;
  const atMs = signal?.occurredAtMs ?? scores[0]?.occurredAtMs;
  return (
    <li>
      <span class="quiet">{atMs !== undefined && <Time ms={atMs} nowMs={nowMs} />}</span>
      <div>
        {signal === null ? (
          <span class="quiet">Signal deleted after the retention time</span>
        ) : (
          <div class="row">
            <a href={`${base}/signals/${encodeURIComponent(signal.id)}`}>{titleOf(signal)}</a>
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

/** When points lapsed, or the last day on which they count. */
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
            from <a href={`${base}/rules/${encodeURIComponent(score.ruleId)}`}>{rule.name}</a>
            {score.ruleVersion !== rule.version && `, version ${score.ruleVersion} (now ${rule.version})`}
          </>
        )}
        {!score.lapsed && lapseText(score)}
      </span>
    </div>
  );
}

export function titleOf({ kind, event }: Pick<TimelineSignal, "kind" | "event">): string {
  return kind === "identify" ? "Identify call" : (event ?? "Signal without an event");
}

const MATCHED_BY = {
  email: "matched by email",
  user_id: "matched by user id",
  anonymous_id: "matched by anonymous id",
} as const satisfies Record<NonNullable<TimelineSignal["namedBy"]>, string>;

/** The reason why a signal belongs to this person. The email is omitted, because the page's title has it. */
function reasonOf({ kind, namedBy, namedByValue, linkedAtMs }: TimelineSignal): Child {
  if (kind === "identify") return "links ids to the email";
  return (
    <>
      {MATCHED_BY[namedBy ?? "email"]}
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

function NoEntries({ shown, base }: { shown: PersonTimeline; base: string }) {
  return shown === "all" ? (
    <Empty title="No signals kept">
      <p>All signals of this person are older than your plan keeps them.</p>
    </Empty>
  ) : (
    <Empty title="No scoring signals yet">
      <p>Mapping rules turn signals into points.</p>
      <a class="button" href={`${base}/rules`}>
        View mapping rules
      </a>
    </Empty>
  );
}

const ID_LABEL = { anonymous_id: "Anonymous id", user_id: "User id" } as const satisfies Record<
  Identity["kind"],
  string
>;

function IdentitiesPanel({ base, found, nowMs }: Props) {
  const { identities, moreIdentities, sharedIds, person } = found;
  return (
    <Panel title="Identities" list id="identities">
      <p class="quiet small">Signals without an email belong to this person if they carry one of these ids.</p>
      {identities.length === 0 ? (
        <p>
          {sharedIds.length === 0
            ? "No id is linked: no identify call has named this email with an anonymous id or user id."
            : "No id is linked any more: a later identify call gave each of them to another person."}
        </p>
      ) : (
        <Table
          caption="Identities"
          rows={identities}
          columns={[
            { head: "Id", cell: ({ value }) => <code>{value}</code> },
            { head: "Kind", cell: ({ kind }) => ID_LABEL[kind] },
            { head: "Linked", cell: ({ linkedAtMs }) => <Time ms={linkedAtMs} nowMs={nowMs} /> },
          ]}
        />
      )}
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
                <Time ms={sinceMs} nowMs={nowMs} />
              </li>
            ))}
          </ul>
        </div>
      )}
    </Panel>
  );
}
