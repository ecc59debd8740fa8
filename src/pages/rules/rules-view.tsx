/** The list of mapping rules. */
import { dayOf, latestDays } from "../../domain/quota/day-counts.ts";
import type { StoredRule } from "../../control/stored-rules.ts";
import type { PageOf } from "../../platform/list-page.ts";
import type { RuleFacts } from "../../store/protocol/store-operations.ts";
import { FREQUENCY_LABEL } from "../copy.ts";
import { counted, signed } from "../kit/format.ts";
import { isUnderWay } from "./rule-job-panel.tsx";
import { Badge, Empty, PageHead, Panel } from "../views/parts.tsx";
import { Pager, Table, Count } from "../views/table.tsx";

export function RulesView({
  base,
  manager,
  query,
  nowMs,
  rules: { items, next },
  facts,
}: {
  base: string;
  manager: boolean;
  query: Record<string, string>;
  nowMs: number;
  rules: PageOf<StoredRule>;
  /** What the store knows of each rule, in the order of the rules. */
  facts: readonly RuleFacts[];
}) {
  const create = manager && (
    <a class="button primary" href={`${base}/rules/new`}>
      New rule
    </a>
  );
  return (
    <>
      <PageHead
        title="Mapping Rules"
        actions={
          <>
            {items.length > 0 && (
              <a class="button" href={`${base}/rules/export.json`} download>
                Export
              </a>
            )}
            {manager && (
              <a class="button" href={`${base}/rules/import`}>
                Import
              </a>
            )}
            {items.length > 0 && create}
          </>
        }
      >
        They turn signals into scoring signals: points for the person whose signal it is.
      </PageHead>
      <Panel flush>
        {items.length === 0 ? (
          <Empty title="No mapping rules yet">
            <p>
              Without rules, signals score nothing. Make one from a signal that has come in, in the{" "}
              <a href={`${base}/signals`}>Signal Queue</a>, or from scratch.
            </p>
            {create}
          </Empty>
        ) : (
          <Table
            caption="Mapping rules"
            head={[
              "Rule",
              "Event",
              "Scoring signal",
              { text: "Points", number: true },
              { text: "Scored, 7 d", number: true },
              { text: "30 d", number: true },
              "Status",
              ...(manager ? [{ text: "Change", hidden: true }] : []),
            ]}
          >
            {items.map((rule, index) => (
              <RuleRow base={base} manager={manager} rule={rule} facts={facts[index]} today={dayOf(nowMs)} />
            ))}
          </Table>
        )}
        <Pager path={`${base}/rules`} query={query} next={next} />
      </Panel>
    </>
  );
}

function RuleRow({
  base,
  manager,
  rule,
  facts,
  today,
}: {
  base: string;
  manager: boolean;
  rule: StoredRule;
  facts: RuleFacts | undefined;
  today: number;
}) {
  const path = `${base}/rules/${rule.id}`;
  return (
    <tr>
      <th scope="row" class="rule">
        <a href={path}>{rule.name}</a>
      </th>
      <td class="event">
        <code>{rule.event}</code>
        {rule.conditions.length > 0 && <div class="quiet small">{counted(rule.conditions.length, "condition")}</div>}
      </td>
      <td class="event">
        {rule.scoringSignal}
        <div class="quiet small">{FREQUENCY_LABEL[rule.frequency].option}</div>
      </td>
      <td class="number">{signed(rule.points)}</td>
      <Count value={scoredSince(facts, today, 7)} />
      <Count value={scoredSince(facts, today, 30)} />
      <td>
        <EnabledBadge enabled={rule.enabled} />
        {facts !== undefined && isUnderWay(facts.job) && <Badge tone="info">Applying</Badge>}
      </td>
      {manager && (
        <td>
          <form method="post" action={`${path}/${rule.enabled ? "disable" : "enable"}`} data-once>
            <button class="small" aria-label={`${rule.enabled ? "Disable" : "Enable"} ${rule.name}`}>
              {rule.enabled ? "Disable" : "Enable"}
            </button>
          </form>
        </td>
      )}
    </tr>
  );
}

export function EnabledBadge({ enabled }: { enabled: boolean }) {
  return enabled ? <Badge tone="good">Enabled</Badge> : <Badge>Disabled</Badge>;
}

/** Signals received in the last `days` days, today included, that the rule has scored. */
export function scoredSince(facts: RuleFacts | undefined, today: number, days: number): number {
  return latestDays(facts?.days ?? "", today, days).reduce((sum, count) => sum + count, 0);
}
