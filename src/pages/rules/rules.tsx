/** Mapping rules (spec §1): the list, and the routes of a rule's pages. */
import { listRules, rulesToSort, rulesWithIds, type StoredRule } from "../../d1/stored-rules.ts";
import { dayOf } from "../../domain/duration.ts";
import { PAGE_ROWS } from "../../limits.ts";
import type { ListPage, ListQuery } from "../../platform/list-page.ts";
import type { RuleResults } from "../../store/protocol/store-operations.ts";
import { pointsDurationText, FREQUENCY_LABEL } from "../copy.ts";
import { LinkButton, Menu, PostButton } from "../kit/forms.tsx";
import { counted, signed } from "../kit/format.ts";
import { Filters, ListAddress, ListPanel, totalOf } from "../kit/list.tsx";
import { Badge, type Column, Count, Empty, Table } from "../kit/parts.tsx";
import { mayManage, page } from "../page.tsx";
import { type Ctx, pages, storeOf, workspacePath } from "../pages-env.ts";
import { exclusionPages } from "./exclusions.tsx";
import { ruleFilePages } from "./import.tsx";
import { EnabledBadge } from "./rule-text.tsx";
import { isInProgress, ruleDetailPages, scoredSince } from "./rule.tsx";

const SORTS = {
  newest: "Newest",
  scored_7: "Scored in 7 days",
  scored_30: "Scored in 30 days",
  points: "Most points",
  points_up: "Fewest points",
  name: "Name",
} as const;
type RulesSort = keyof typeof SORTS;

export const rulePages = pages
  .createApp()
  .get("/", async (c) => {
    const base = `${workspacePath(c)}/rules`;
    const list = new ListAddress(base, c.req.query());
    const text = list.searchText("q", "Search", "Search name or event");
    const sort = list.sort<RulesSort>(SORTS, "newest");
    const slice = list.slice(PAGE_ROWS);
    const rules = await (sort === "newest" ? newestRules(c, slice, text) : sortedRules(c, slice, text, sort));
    const actions = [
      <a class="button" href={`${base}/export.json`} download>
        Export
      </a>,
      <LinkButton href={`${base}/exclusions`} text="View exclusions" />,
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
        total: totalOf(list, rules),
        intro: "A mapping rule gives points to the person of each signal that matches.",
        actions,
      },
      (list.isFiltered || rules.items.length > 0) && <Filters list={list} />,
      <ListPanel list={list} found={rules} noun="rules" empty={<Empty title="No mapping rules yet" text={hint} />}>
        <Table
          caption="Mapping rules"
          rows={rules.items}
          href={({ id }) => `${base}/${id}`}
          order={list.order}
          columns={[...columns(sort), ...(mayManage(c) ? [actionsColumn(base)] : [])]}
        />
      </ListPanel>,
    );
  })
  .route("/", ruleFilePages)
  .route("/exclusions", exclusionPages)
  .route("/", ruleDetailPages);

type Row = StoredRule & { results: RuleResults | undefined };

async function newestRules(c: Ctx, slice: ListQuery, text?: string): Promise<ListPage<Row>> {
  const { items, next } = await listRules(c.get("db"), c.get("workspace").id, slice, text);
  return { items: await withResults(c, items), next };
}

async function withResults(c: Ctx, rules: readonly StoredRule[]): Promise<Row[]> {
  const results = await storeOf(c).ruleResults(rules.map(({ id }) => id));
  return rules.map((rule, index) => ({ ...rule, results: results[index] }));
}

/** Sorts all rules in memory, because D1 does not have the counts. The cursor is the last rule's id; an unknown one is ignored. */
async function sortedRules(
  c: Ctx,
  { cursor, limit }: ListQuery,
  text: string | undefined,
  sort: Exclude<RulesSort, "newest">,
): Promise<ListPage<Row>> {
  const [db, { id: workspaceId }] = [c.get("db"), c.get("workspace")];
  const all = await rulesToSort(db, workspaceId, text);
  const isByCount = sort === "scored_7" || sort === "scored_30";
  const counts = isByCount ? await storeOf(c).ruleResults(all.map(({ id }) => id)) : [];
  const [today, days] = [dayOf(Date.now()), sort === "scored_7" ? 7 : 30];
  const sorted = all
    .map((rule, index) => ({ ...rule, scored: scoredSince(counts[index], today, days) }))
    .sort((a, b) => {
      if (sort === "name") return a.name.localeCompare(b.name, "en");
      if (isByCount) return b.scored - a.scored;
      return sort === "points" ? b.points - a.points : a.points - b.points;
    });
  const first = sorted.findIndex(({ id }) => id === cursor) + 1;
  const ids = sorted.slice(first, first + limit).map(({ id }) => id);
  const byId = new Map((await rulesWithIds(db, workspaceId, ids)).map((rule) => [rule.id, rule]));
  const items = await withResults(
    c,
    ids.flatMap((id) => byId.get(id) ?? []),
  );
  return { items, next: first + limit < sorted.length ? (ids.at(-1) ?? null) : null, total: all.length };
}

function columns(sort: RulesSort): Column<Row>[] {
  const today = dayOf(Date.now());
  // A narrow screen shows one of the two counts. A list that is ordered by one of them shows that one.
  const isByMonth = sort === "scored_30";
  return [
    { head: "Rule", cell: ({ name }) => name, sorts: ["name"] },
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
      sorts: ["points", "points_up"],
    },
    {
      head: "Scored, 7 days",
      kind: "number",
      ...(isByMonth && { drop: "narrow" }),
      cell: ({ results }) => <Count value={scoredSince(results, today, 7)} />,
      sorts: ["scored_7"],
    },
    {
      head: isByMonth ? "Scored, 30 days" : "30 days",
      kind: "number",
      ...(!isByMonth && { drop: "narrow" }),
      cell: ({ results }) => <Count value={scoredSince(results, today, 30)} />,
      sorts: ["scored_30"],
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
