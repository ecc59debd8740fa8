/** What a person did, the newest first: each signal, how it came to be theirs, and what it scored. */
import type { Child } from "hono/jsx";
import type { PageOf } from "../../platform/list-page.ts";
import type { ScoringSignal } from "../../store/protocol/people-and-accounts.ts";
import type { PersonTimeline, TimelineEntry, TimelineSignal } from "../../store/protocol/people-and-accounts.ts";
import { day, signed } from "../kit/format.ts";
import { Empty, Panel, StatusBadge, Time } from "../views/parts.tsx";
import { Pager } from "../views/table.tsx";

export type RuleNames = ReadonlyMap<string, { name: string; version: number }>;

interface Props {
  base: string;
  /** Path of the person's page. */
  path: string;
  timeline: PageOf<TimelineEntry>;
  shown: PersonTimeline;
  cursor: string | undefined;
  rules: RuleNames;
  deletedUntilMs: number;
  nowMs: number;
}

export function TimelinePanel({ base, path, timeline, shown, cursor, rules, deletedUntilMs, nowMs }: Props) {
  const { items, next } = timeline;
  const tab = (of: PersonTimeline) => (of === shown ? ("page" as const) : undefined);
  const query: Record<string, string> = { show: shown, ...(cursor === undefined ? {} : { cursor }) };
  return (
    <Panel title="Timeline" flush id="timeline">
      <nav class="tabs in-panel" aria-label="What the timeline shows">
        <a href={`${path}#timeline`} aria-current={tab("all")}>
          Signals and what they scored
        </a>
        <a href={`${path}?show=scores#timeline`} aria-current={tab("scores")}>
          Scoring signals only
        </a>
      </nav>
      {items.length === 0 ? (
        <Nothing shown={shown} base={base} />
      ) : (
        <ol class="person-timeline">
          {items.map((entry) => (
            <Entry entry={entry} base={base} rules={rules} nowMs={nowMs} />
          ))}
        </ol>
      )}
      {shown === "all" && next === null && deletedUntilMs > 0 && (
        <p class="panel-text quiet small">
          Signals are kept for as long as the plan says; older ones, up to {day(deletedUntilMs)}, are deleted. What they
          scored stays, under “Scoring signals only”.
        </p>
      )}
      <Pager path={path} query={query} next={next} />
    </Panel>
  );
}

function Entry({ entry, base, rules, nowMs }: { entry: TimelineEntry; base: string; rules: RuleNames; nowMs: number }) {
  const { signal, scores } = entry;
  const [first] = scores;
  const atMs = signal?.receivedAtMs ?? first?.atMs;
  return (
    <li>
      <div class="quiet small">{atMs !== undefined && <Time ms={atMs} nowMs={nowMs} />}</div>
      <div class="what">
        {signal === null ? (
          <span class="quiet">A signal that is not kept any more</span>
        ) : (
          <div class="row">
            <a href={`${base}/signals/${encodeURIComponent(signal.id)}`}>{titleOf(signal)}</a>
            {signal.source !== null && <span class="small">{signal.source}</span>}
            {signal.status !== "processed" && <StatusBadge status={signal.status} />}
            <span class="quiet small">{why(signal)}</span>
          </div>
        )}
        {scores.map((score) => (
          <Score score={score} base={base} rules={rules} />
        ))}
      </div>
    </li>
  );
}

function Score({ score, base, rules }: { score: ScoringSignal; base: string; rules: RuleNames }) {
  const rule = rules.get(score.ruleId);
  return (
    <p>
      <strong class={score.points < 0 ? "points down" : "points"}>{signed(score.points)}</strong>{" "}
      <span>{score.scoringSignal}</span>{" "}
      <span class="quiet small">
        by{" "}
        {rule === undefined ? (
          "a rule that was deleted since"
        ) : (
          <>
            <a href={`${base}/rules/${encodeURIComponent(score.ruleId)}`}>{rule.name}</a>
            {score.ruleVersion !== rule.version && `, version ${score.ruleVersion} of now ${rule.version}`}
          </>
        )}
      </span>
    </p>
  );
}

function titleOf({ kind, event }: TimelineSignal): Child {
  return kind === "identify" ? "Identify call" : (event ?? "A signal without an event");
}

const WHY = {
  email: "matched by its email",
  user_id: "matched by user id",
  anonymous_id: "matched by anonymous id",
} as const satisfies Record<NonNullable<TimelineSignal["namedBy"]>, string>;

/** How a signal came to be this person's. */
function why({ kind, namedBy, namedByValue, linkedAtMs }: TimelineSignal): Child {
  const by = (
    <>
      {WHY[namedBy ?? "email"]}
      {/* An email is not repeated here: it stands at the top of the page. */}
      {namedBy !== null && namedBy !== "email" && (
        <>
          {" "}
          <code>{namedByValue}</code>
        </>
      )}
    </>
  );
  if (kind === "identify") return "links its ids to the email";
  if (linkedAtMs === null) return by;
  return (
    <>
      {by}; was anonymous until <Time ms={linkedAtMs} />
    </>
  );
}

function Nothing({ shown, base }: { shown: PersonTimeline; base: string }) {
  return shown === "all" ? (
    <Empty title="No signals">
      <p>No signal of this person is kept.</p>
    </Empty>
  ) : (
    <Empty title="Nothing has scored yet">
      <p>A mapping rule turns signals into scoring signals, with points.</p>
      <p>
        <a href={`${base}/rules`}>To the mapping rules</a>
      </p>
    </Empty>
  );
}
