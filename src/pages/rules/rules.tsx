/** Mapping rules (spec §1, design §8.5): the list, and the routes of a rule's pages. */
import { listRules, type StoredRule } from "../../control/stored-rules.ts";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { DAYS_COUNTED, PAGE_ROWS } from "../../limits.ts";
import type { RuleFacts } from "../../store/protocol/store-operations.ts";
import { signalStore } from "../../workspace/objects.ts";
import { FREQUENCY_LABEL } from "../copy.ts";
import { Menu, PostButton } from "../kit/actions.tsx";
import { counted, signed } from "../kit/format.ts";
import { ListAddress } from "../kit/list-address.ts";
import { Badge, Empty, PageHead, Panel } from "../kit/parts.tsx";
import { Count, Pager, Table, type Column } from "../kit/table.tsx";
import { mayManage, page } from "../page.tsx";
import { pages, workspacePath } from "../pages-env.ts";
import { ruleFilePages } from "./import.tsx";
import { newRulePages } from "./new-rule.tsx";
import { isInProgress, scoredSince } from "./rule-job.tsx";
import { EnabledBadge } from "./rule-text.tsx";
import { oneRulePages } from "./rule.tsx";
import { ruleVersionPages } from "./versions.tsx";

export const rulePages = pages
  .createApp()
  .get("/", async (c) => {
    const { id } = c.get("workspace");
    const base = `${workspacePath(c)}/rules`;
    const list = new ListAddress(base, c.req.query());
    const rules = await listRules(c.get("db"), id, list.slice(PAGE_ROWS));
    const facts = await signalStore(c.env, id).ruleFacts(rules.items.map((rule) => rule.id));
    const rows = rules.items.map((rule, index) => ({ rule, facts: facts[index] }));
    return page(
      c,
      { title: "Mapping rules", section: "rules" },
      <>
        <PageHead
          title="Mapping rules"
          actions={<ListActions base={base} manager={mayManage(c)} isEmpty={rows.length === 0} />}
        >
          A mapping rule gives points to the person of each signal that matches.
        </PageHead>
        <Panel list>
          {rows.length === 0 ? (
            <Empty title="No mapping rules yet">
              <p>
                Without rules, signals score no points. Create a rule from a signal in the{" "}
                <a href={`${workspacePath(c)}/signals`}>signal queue</a>, or start with an empty rule.
              </p>
              {mayManage(c) && <CreateButton base={base} />}
            </Empty>
          ) : (
            <Table
              caption="Mapping rules"
              rows={rows}
              href={({ rule }) => `${base}/${rule.id}`}
              columns={[...columns(dayOf(Date.now())), ...(mayManage(c) ? [actionsColumn(base)] : [])]}
            />
          )}
          <Pager list={list} next={rules.next} />
        </Panel>
      </>,
    );
  })
  .route("/", ruleFilePages)
  .route("/", ruleVersionPages)
  .route("/", newRulePages)
  .route("/", oneRulePages);

function ListActions({ base, manager, isEmpty }: { base: string; manager: boolean; isEmpty: boolean }) {
  return (
    <>
      {!isEmpty && (
        <a class="button" href={`${base}/export.json`} download>
          Export
        </a>
      )}
      {manager && (
        <a class="button" href={`${base}/import`}>
          Import
        </a>
      )}
      {manager && !isEmpty && <CreateButton base={base} />}
    </>
  );
}

function CreateButton({ base }: { base: string }) {
  return (
    <a class="button primary" href={`${base}/new`}>
      Create rule
    </a>
  );
}

interface Row {
  rule: StoredRule;
  facts: RuleFacts | undefined;
}

function columns(today: number): Column<Row>[] {
  return [
    { head: "Rule", cell: ({ rule }) => rule.name },
    {
      head: "Event",
      drop: "phone",
      cell: ({ rule: { event, conditions } }) => (
        <>
          <code>{event}</code>
          {conditions.length > 0 && <small>{counted(conditions.length, "condition")}</small>}
        </>
      ),
    },
    {
      head: "Scoring signal",
      drop: "narrow",
      cell: ({ rule: { scoringSignal, frequency } }) => (
        <>
          {scoringSignal}
          <small>{FREQUENCY_LABEL[frequency].option}</small>
        </>
      ),
    },
    { head: "Points", kind: "number", cell: ({ rule }) => signed(rule.points) },
    { head: "Scored, 7 days", kind: "number", cell: ({ facts }) => <Count value={scoredSince(facts, today, 7)} /> },
    {
      head: "30 days",
      kind: "number",
      drop: "narrow",
      cell: ({ facts }) => <Count value={scoredSince(facts, today, DAYS_COUNTED)} />,
    },
    {
      head: "Status",
      cell: ({ rule, facts }) =>
        isInProgress(facts?.job) ? <Badge tone="info">Applying</Badge> : <EnabledBadge enabled={rule.enabled} />,
    },
  ];
}

function actionsColumn(base: string): Column<Row> {
  return {
    head: "",
    kind: "actions",
    cell: ({ rule: { id, name, enabled } }) => (
      <Menu label={`Actions for ${name}`}>
        <PostButton action={`${base}/${id}/${enabled ? "disable" : "enable"}`}>
          {enabled ? "Disable" : "Enable"}
        </PostButton>
        <a href={`${base}/new?copy=${id}`}>Duplicate</a>
      </Menu>
    ),
  };
}
