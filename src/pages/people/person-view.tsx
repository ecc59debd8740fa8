/** One person: who they are, their score and where it comes from, what they did, what they are known by. */
import { TRAIT_NAMES, traitLabel } from "../../domain/signal/traits.ts";
import { PERSON_MAX_IDS } from "../../limits.ts";
import type { Identity } from "../../store/protocol/people-and-accounts.ts";
import type { PersonPage, PersonTimeline, ScoreCurve } from "../../store/protocol/people-and-accounts.ts";
import { TimeChart } from "../views/charts.tsx";
import { counted, exactTime, grouped } from "../kit/format.ts";
import { Fact, FactList, PageHead, Panel, Stat, Stats, Time } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";
import { personPath } from "./people-view.tsx";
import { TimelinePanel, type RuleNames } from "./person-timeline.tsx";

interface Props {
  base: string;
  found: PersonPage;
  shown: PersonTimeline;
  /** The timeline's cursor; undefined on its first page. */
  cursor: string | undefined;
  rules: RuleNames;
  mayManage: boolean;
  nowMs: number;
}

export function PersonView({ base, found, shown, cursor, rules, mayManage, nowMs }: Props) {
  const { person, curve } = found;
  const path = personPath(base, person.email);
  return (
    <>
      <PageHead
        title={person.email}
        crumbs={<a href={`${base}/people`}>People</a>}
        actions={
          mayManage && (
            <a class="button small danger" href={`${path}/delete`}>
              Delete this person…
            </a>
          )
        }
      />
      <Stats>
        <Stat label="Score" value={person.score} note={scoreNote(curve)} />
        <Stat label="Last seen" value={<Time ms={person.lastSeenMs} nowMs={nowMs} />} />
        <Stat label="First seen" value={<Time ms={person.firstSeenMs} nowMs={nowMs} />} />
      </Stats>
      <div class="person-top">
        <Panel title="Score over time">
          <ScoreCurvePanel curve={curve} score={person.score} nowMs={nowMs} />
        </Panel>
        <Panel title="Who this is">
          <FactList>
            {TRAIT_NAMES.map((trait) => (
              <Fact name={traitLabel(trait)}>{person[trait] ?? <NotKnown />}</Fact>
            ))}
          </FactList>
          <p class="quiet small">
            These are taken from the traits and properties that signals carry. Of several, the one received last counts,
            each for itself.
          </p>
        </Panel>
      </div>
      <TimelinePanel
        base={base}
        path={path}
        timeline={found.timeline}
        shown={shown}
        cursor={cursor}
        rules={rules}
        deletedUntilMs={found.deletedUntilMs}
        nowMs={nowMs}
      />
      <IdentitiesPanel base={base} found={found} nowMs={nowMs} />
    </>
  );
}

/** The shortest time that the curve spans, so that what happened just now is not drawn as if it had taken all day. */
const CURVE_MIN_MS = 3_600_000;

function scoreNote({ signals, complete }: ScoreCurve): string {
  if (signals === 0) return "nothing has scored yet";
  return complete ? `from ${counted(signals, "scoring signal")}` : `from more than ${grouped(signals)} scoring signals`;
}

function NotKnown() {
  return <span class="quiet">not known</span>;
}

/** The score over time. It goes in steps: a score is what it is until the next signal. */
function ScoreCurvePanel({ curve, score, nowMs }: { curve: ScoreCurve; score: number; nowMs: number }) {
  const [first] = curve.points;
  if (first === undefined) {
    return <p class="quiet">No mapping rule has matched one of this person's signals yet.</p>;
  }
  const points = curve.points.flatMap((point, index) => {
    const before = curve.points[index - 1]?.score ?? curve.fromScore;
    return [
      { atMs: point.atMs, value: before },
      { atMs: point.atMs, value: point.score },
    ];
  });
  const fromMs = Math.min(first.atMs, nowMs - CURVE_MIN_MS);
  return (
    <TimeChart
      label={`Score from ${grouped(curve.fromScore)} on ${exactTime(first.atMs)} to ${grouped(score)} now.`}
      caption={
        curve.complete
          ? "The sum of the points, by the times at which the signals were received."
          : `The latest ${counted(curve.signals, "scoring signal")}, by the times at which the signals were received.`
      }
      series={[{ kind: "area", points: [...points, { atMs: nowMs, value: score }] }]}
      fromMs={fromMs}
      toMs={nowMs}
    />
  );
}

const IDENTITY_LABEL = { anonymous_id: "Anonymous id", user_id: "User id" } as const satisfies Record<
  Identity["kind"],
  string
>;

function IdentitiesPanel({ base, found, nowMs }: Pick<Props, "base" | "found" | "nowMs">) {
  const { identities, moreIdentities, sharedIds, person } = found;
  return (
    <Panel title="Identities" flush id="identities">
      <p class="panel-text quiet small">
        Signals that carry one of these ids and no email are this person's, because an identify call named both. Earlier
        ones were linked then.
      </p>
      {identities.length === 0 ? (
        <p class="panel-text">
          {sharedIds.length === 0
            ? "No id is linked: no identify call has named this email together with an anonymous id or user id."
            : "No id is linked any more: somebody else has been named by each of them since."}
        </p>
      ) : (
        <Table caption="Identities" head={["Kind", "Id", "Linked"]}>
          {identities.map(({ kind, value, linkedAtMs }) => (
            <tr>
              <td class="nowrap">{IDENTITY_LABEL[kind]}</td>
              <td class="what">
                <code>{value}</code>
              </td>
              <td>
                <Time ms={linkedAtMs} nowMs={nowMs} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {moreIdentities && <p class="panel-text quiet small">There are more; an export of the people has all of them.</p>}
      {person.idsDropped > 0 && (
        <p class="panel-text small">
          {`${counted(person.idsDropped, "older id")} ${person.idsDropped === 1 ? "was" : "were"} dropped: a person keeps the latest ${grouped(PERSON_MAX_IDS)} of each kind. `}
          Their earlier signals stay this person's; one that carries such an id from now on is kept as anonymous until
          an identify call names it once more. So many ids mostly mean that a sender makes a new one for each visit.
        </p>
      )}
      {sharedIds.length > 0 && (
        <div class="panel-text small">
          <p>
            Other people have been named by the same id. Each signal belongs to the one who had it when the signal was
            received; what was linked stays.
          </p>
          <ul>
            {sharedIds.map(({ kind, value, email, sinceMs }) => (
              <li>
                {IDENTITY_LABEL[kind]} <code>{value}</code>: <a href={personPath(base, email)}>{email}</a>, named{" "}
                <Time ms={sinceMs} nowMs={nowMs} />
              </li>
            ))}
          </ul>
        </div>
      )}
    </Panel>
  );
}
