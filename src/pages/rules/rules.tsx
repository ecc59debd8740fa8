/** Mapping rules (spec §1, design §8.5): the list, and the routes of a rule's pages. */
import { listRules, type StoredRule } from "../../control/stored-rules.ts";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { PAGE_ROWS } from "../../limits.ts";
import type { RuleFacts } from "../../store/protocol/store-operations.ts";
import { signalStore } from "../../workspace/objects.ts";
import { countText, FREQUENCY_LABEL } from "../copy.ts";
import { Menu, PostButton } from "../kit/actions.tsx";
import { counted, signed } from "../kit/format.ts";
import { ListAddress } from "../kit/list-address.ts";
import { Badge, Empty, PageHead, Panel } from "../kit/parts.tsx";
import { Count, Pager, Table, type Column } from "../kit/table.tsx";
import { mayManage, page } from "../page.tsx";
import { pages, workspacePath } from "../pages-env.ts";
import { ruleFilePages } from "./import.tsx";
import { EnabledBadge } from "./rule-text.tsx";
import { isInProgress, oneRulePages, scoredSince } from "./rule.tsx";
import { ruleVersionPages } from "./versions.tsx";

export const rulePages = pages
  .createApp()
  .get("/", async (c) => {
    const [base, manager, today] = [`${workspacePath(c)}/rules`, mayManage(c), dayOf(Date.now())];
    const list = new ListAddress(base, c.req.query());
    const rules = await listRules(c.get("db"), c.get("workspace").id, list.slice(PAGE_ROWS));
    const facts = await signalStore(c.env, c.get("workspace").id).ruleFacts(rules.items.map(({ id }) => id));
    const rows = rules.items.map((rule, index) => ({ ...rule, facts: facts[index] }));
    return page(
      c,
      { title: "Mapping rules", section: "rules" },
      <>
        <PageHead title="Mapping rules" actions={<ListActions base={base} manager={manager} />}>
          A mapping rule gives points to the person of each signal that matches.
        </PageHead>
        <Panel list>
          {rows.length === 0 ? (
            <Empty title="No mapping rules yet">
              <p>
                Without rules, signals score no points. You can also create a rule from a signal in the{" "}
                <a href={`${workspacePath(c)}/signals`}>signal queue</a>.
              </p>
            </Empty>
          ) : (
            <Table
              caption="Mapping rules"
              rows={rows}
              href={({ id }) => `${base}/${id}`}
              columns={[...columns(today), ...(manager ? [actionsColumn(base)] : [])]}
            />
          )}
          <Pager list={list} next={rules.next} />
        </Panel>
      </>,
    );
  })
  .route("/", ruleFilePages)
  .route("/", ruleVersionPages)
  .route("/", oneRulePages);

function ListActions({ base, manager }: { base: string; manager: boolean }) {
  return (
    <>
      <a class="button" href={`${base}/export.json`} download>
        Export
      </a>
      {manager && (
        <>
          <a class="button" href={`${base}/import`}>
            Import
          </a>
          <a class="button primary" href={`${base}/new`}>
            Create rule
          </a>
        </>
      )}
    </>
  );
}

type Row = StoredRule & { facts: RuleFacts | undefined };

function columns(today: number): Column<Row>[] {
  return [
    { head: "Rule", cell: ({ name }) => name },
    {
      head: "Event",
      drop: "phone",
      cell: ({ event, conditions }) => (
        <>
          <code>{event}</code>
          {conditions.length > 0 && <small>{counted(conditions.length, "condition")}</small>}
        </>
      ),
    },
    {
      head: "Scoring signal",
      drop: "narrow",
      cell: ({ scoringSignal, frequency }) => (
        <>
          {scoringSignal}
          <small>{FREQUENCY_LABEL[frequency].option}</small>
        </>
      ),
    },
    {
      head: "Points",
      kind: "number",
      cell: ({ points, pointsLastDays }) => (
        <>
          {signed(points)}
          {pointsLastDays !== null && <small>{countText(pointsLastDays)}</small>}
        </>
      ),
    },
    { head: "Scored, 7 days", kind: "number", cell: ({ facts }) => <Count value={scoredSince(facts, today, 7)} /> },
    {
      head: "30 days",
      kind: "number",
      drop: "narrow",
      cell: ({ facts }) => <Count value={scoredSince(facts, today, 30)} />,
    },
    {
      head: "Status",
      cell: ({ enabled, facts }) =>
        isInProgress(facts?.job) ? <Badge tone="info">Applying</Badge> : <EnabledBadge enabled={enabled} />,
    },
  ];
}

function actionsColumn(base: string): Column<Row> {
  return {
    head: "",
    kind: "actions",
    cell: ({ id, name, enabled }) => (
      <Menu label={`Actions for ${name}`}>
        <PostButton action={`${base}/${id}/${enabled ? "disable" : "enable"}`}>
          {enabled ? "Disable" : "Enable"}
        </PostButton>
        <a href={`${base}/new?copy=${id}`}>Duplicate</a>
      </Menu>
    ),
  };
}
