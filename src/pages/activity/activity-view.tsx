/** The audit log: who did what, and when. */
import type { KeyNames } from "../key-names.tsx";
import type { Child } from "hono/jsx";
import type { AuditRecord } from "../../control/audit.ts";
import { MANAGERS_ACTIONS } from "../../control/audit.ts";
import type { PageOf } from "../../platform/list-page.ts";
import type { ActivityQuery } from "./activity-query.ts";
import type { KeyFilter } from "../key-filter.ts";
import { AUDIT_COPY, readingOf } from "./audit-copy.tsx";
import type { AuditPlace } from "./audit-parts.tsx";
import { DayFields, SelectField, TextField } from "../kit/forms.tsx";
import { KeyFields } from "../views/key-fields.tsx";
import { daysAsked, NothingFits } from "../views/nothing-fits.tsx";
import { Empty, PageHead, Json, Panel, Time } from "../views/parts.tsx";
import { Pager, Table } from "../views/table.tsx";

interface Props {
  base: string;
  asked: ActivityQuery;
  entries: PageOf<AuditRecord>;
  /** Actors to choose from; others can be typed. */
  actors: readonly string[];
  /** Null where nothing is shown of keys and notifications. */
  keyFilter: KeyFilter | null;
  /** Names of the entries' API keys by id. */
  keys: KeyNames;
  plans: ReadonlyMap<string, string>;
  nowMs: number;
}

export function ActivityView({ base, asked, entries: { items, next }, actors, keyFilter, keys, plans, nowMs }: Props) {
  const forManagers = keyFilter !== null;
  const path = `${base}/settings/activity`;
  const isFiltered = Object.keys(asked.shown).some((name) => name !== "cursor");
  return (
    <>
      <PageHead title="Activity">
        Everything that was created, changed or ended in this workspace, by whom.
        {!forManagers && " What concerns API keys and notifications is shown to owners and admins only."}
      </PageHead>
      <form method="get" action={path} class="filters">
        <SelectField
          name="action"
          label="What"
          value={asked.action}
          options={actionOptions(asked.action, forManagers)}
        />
        <TextField name="actor" label="By" value={asked.actor} placeholder="anybody" list="actors" autocomplete="off" />
        <datalist id="actors">
          {actors.map((actor) => (
            <option value={actor} />
          ))}
        </datalist>
        {keyFilter !== null && <KeyFields filter={keyFilter} label="API key" any="Any, or none" />}
        <DayFields days={asked.days} />
        <button>Show</button>
        {isFiltered && (
          <a class="button" href={path}>
            Show all
          </a>
        )}
      </form>
      <Panel flush>
        {items.length > 0 ? (
          <Table caption="Activity" head={["When", "Who", "What", "Details"]}>
            {items.map((entry) => (
              <Entry entry={entry} place={{ base, keys, plans }} nowMs={nowMs} />
            ))}
          </Table>
        ) : (
          <Nothing path={path} asked={asked} keyFilter={keyFilter} hasMore={next !== null} />
        )}
        <Pager path={path} query={asked.shown} next={next} />
      </Panel>
    </>
  );
}

function Entry({ entry, place, nowMs }: { entry: AuditRecord; place: AuditPlace; nowMs: number }) {
  const { label, sentence } = readingOf(entry.action);
  return (
    <tr>
      <td>
        <Time ms={Date.parse(entry.at)} nowMs={nowMs} />
      </td>
      <td class="what">{actorName(entry.actor)}</td>
      <td class="what">{sentence(entry, place)}</td>
      <td class="what">
        {Object.keys(entry.detail).length > 0 && (
          <details>
            <summary class="small" aria-label={`Details of “${label}”`}>
              Details
            </summary>
            <Json value={entry.detail} label="Details" />
          </details>
        )}
      </td>
    </tr>
  );
}

function actionOptions(chosen: string, forManagers: boolean): [string, string][] {
  const known = Object.entries(AUDIT_COPY)
    // Plans belong to no workspace: their entries are in no workspace's log.
    .filter(
      ([action]) =>
        !action.startsWith("plan.") && (forManagers || !MANAGERS_ACTIONS.some((begin) => action.startsWith(begin))),
    )
    .map(([action, { label }]): [string, string] => [action, label]);
  const other: [string, string][] =
    chosen === "" || known.some(([action]) => action === chosen) ? [] : [[chosen, chosen]];
  return [["", "Everything"], ...known, ...other];
}

type NothingProps = Pick<Props, "asked" | "keyFilter"> & { path: string; hasMore: boolean };

function Nothing({ path, asked, keyFilter, hasMore }: NothingProps) {
  if (hasMore) {
    return (
      <Empty title="Nothing among these">
        <p>None of the entries looked at fits; the next page goes on from there.</p>
      </Empty>
    );
  }
  if (Object.keys(asked.shown).length === 0) {
    return (
      <Empty title="Nothing to show">
        <p>What members and the operator do here is written down from the first day on.</p>
      </Empty>
    );
  }
  const { actor, action, days, shown } = asked;
  const named = actionOptions(action, keyFilter !== null).find(([value]) => value === action)?.[1] ?? "";
  const filters = [
    { label: "What", value: action === "" ? "" : named, names: ["action"] },
    { label: "By", value: actor, names: ["actor"] },
    {
      label: "API key",
      value: keyFilter?.offered.get(keyFilter.id) ?? keyFilter?.id ?? "",
      names: ["key", "key_name"],
    },
    daysAsked("Days", days),
  ];
  return <NothingFits title="Nothing to show" path={path} query={shown} filters={filters} />;
}

function actorName(actor: string): Child {
  if (actor === "operator") return <span class="quiet">The operator</span>;
  return actor === "service" ? <span class="quiet">The service</span> : actor;
}
