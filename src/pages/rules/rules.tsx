/** Mapping rules (spec §1): the list, and the routes of a rule's pages. */
import { listRules, type StoredRule } from "../../d1/stored-rules.ts";
import { dayOf } from "../../domain/duration.ts";
import { PAGE_ROWS } from "../../limits.ts";
import type { RuleResults } from "../../store/protocol/store-operations.ts";
import { pointsDurationText, FREQUENCY_LABEL } from "../copy.ts";
import { LinkButton, Menu, PostButton } from "../kit/forms.tsx";
import { counted, signed } from "../kit/format.ts";
import { Filters, ListAddress, ListPanel } from "../kit/list.tsx";
import { Badge, type Column, Count, Empty, Table } from "../kit/parts.tsx";
import { mayManage, page } from "../page.tsx";
import { pages, storeOf, workspacePath } from "../pages-env.ts";
import { exclusionPages } from "./exclusions.tsx";
import { ruleFilePages } from "./import.tsx";
import { EnabledBadge } from "./rule-text.tsx";
import { isInProgress, ruleDetailPages, scoredSince } from "./rule.tsx";

export const rulePages = pages
  .createApp()
  .get("/", async (c) => {
    const base = `${workspacePath(c)}/rules`;
    const list = new ListAddress(base, c.req.query());
    const text = list.searchText("q", "Search", "Search name or event");
    const rules = await listRules(c.get("db"), c.get("workspace").id, list.slice(PAGE_ROWS), text);
    const results = await storeOf(c).ruleResults(rules.items.map(({ id }) => id));
    const rows = rules.items.map((rule, index) => ({ ...rule, results: results[index] }));
    const actions = [
      <a class="button" href={`${base}/export.json`} download>
        Export
      </a>,
      <LinkButton href={`${base}/exclusions`} text="Exclude signals" />,
      mayManage(c) && <LinkButton href={`${base}/import`} text="Import" />,
      mayManage(c) && <LinkButton href={`${base}/new`} text="Create rule" look="primary" />,
    ];
    const hint = (
      <>
        Without rules, signals score no points. You can also create a rule from a signal in the{" "}
        <a href={`${workspacePath(c)}/signals`}>signal queue</a>.
      </>
    );
    return page(
      c,
      {
        section: "rules",
        title: "Mapping rules",
        intro: "A mapping rule gives points to the person of each signal that matches.",
        actions,
      },
      (list.isFiltered || rules.items.length > 0) && <Filters list={list} />,
      <ListPanel list={list} found={rules} noun="rules" empty={<Empty title="No mapping rules yet" text={hint} />}>
        <Table
          caption="Mapping rules"
          rows={rows}
          href={({ id }) => `${base}/${id}`}
          columns={[...columns(), ...(mayManage(c) ? [actionsColumn(base)] : [])]}
        />
      </ListPanel>,
    );
  })
  .route("/", ruleFilePages)
  .route("/exclusions", exclusionPages)
  .route("/", ruleDetailPages);

type Row = StoredRule & { results: RuleResults | undefined };

function columns(): Column<Row>[] {
  const today = dayOf(Date.now());
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
          {pointsLastDays !== null && <small>{pointsDurationText(pointsLastDays)}</small>}
        </>
      ),
    },
    { head: "Scored, 7 days", kind: "number", cell: ({ results }) => <Count value={scoredSince(results, today, 7)} /> },
    {
      head: "30 days",
      kind: "number",
      drop: "narrow",
      cell: ({ results }) => <Count value={scoredSince(results, today, 30)} />,
    },
    {
      head: "Status",
      cell: ({ enabled, results }) =>
        isInProgress(results?.job) ? <Badge tone="info">Applying</Badge> : <EnabledBadge enabled={enabled} />,
    },
  ];
}

function actionsColumn(base: string): Column<Row> {
  return {
    head: "",
    kind: "actions",
    cell: ({ id, name, enabled }) => (
      <Menu label={`Actions for ${name}`}>
        <PostButton action={`${base}/${id}/${enabled ? "disable" : "enable"}`} text={enabled ? "Disable" : "Enable"} />
        <a href={`${base}/new?copy=${id}`}>Duplicate</a>
      </Menu>
    ),
  };
}
