/** The Rejections page: what was refused and why, by key and reason, and what the sender should change. */
import { CAUSE_COPY } from "../copy.ts";
import type { RefusalCode, Rejection } from "../../domain/keys/refusal.ts";
import { REJECTION_KEPT_DAYS } from "../../limits.ts";
import { isRefusalCode, REFUSALS } from "../../http/refusal-table.ts";
import type { RejectionGroup } from "./rejection-list.ts";
import { shownRange } from "../day-range.ts";
import type { DayRange } from "../day-range.ts";
import { keyText, type KeyNames } from "../key-names.tsx";
import { DayFields, SelectField } from "../kit/forms.tsx";
import { counted, grouped } from "../kit/format.ts";
import { daysAsked, NothingFits } from "../views/nothing-fits.tsx";
import type { AskedFilter } from "../views/nothing-fits.tsx";
import { Badge, Clamped, Empty, PageHead, Panel, ShortId, Time } from "../views/parts.tsx";
import { Pager, Table } from "../views/table.tsx";

/** Refusals because of a limit: the Usage page offers remedies. */
const OVER_LIMIT: readonly RefusalCode[] = ["allowance_exceeded", "extra_room_exceeded", "unavailable"];

interface RejectionsData {
  /** The workspace's path, `/w/{slug}`. */
  path: string;
  /** Whether whoever looks is owner or admin: only they see the keys. */
  manager: boolean;
  /** All refused calls that are kept, whatever the filter. */
  kept: readonly RejectionGroup[];
  /** Those that the filter lets through, as `items` are a page of. */
  groups: readonly RejectionGroup[];
  /** True: as many entries are kept as can be, so that earlier ones may have gone. */
  isFull: boolean;
  days: DayRange;
  keyNames: KeyNames;
  query: Record<string, string>;
  items: readonly Rejection[];
  next: string | null;
  nowMs: number;
}

export function RejectionsView(data: RejectionsData) {
  const { path, kept, groups, isFull, query } = data;
  if (kept.length === 0) {
    return (
      <>
        <PageHead title="Rejections">Calls that were refused, and why.</PageHead>
        <Panel>
          <Empty title="Nothing was refused">
            <p>Every call with a key of this workspace was accepted. What is refused is listed here with its reason.</p>
            <p>
              <a href={`${path}/connect`}>Connect a sender</a>
            </p>
          </Empty>
        </Panel>
      </>
    );
  }
  return (
    <>
      <PageHead title="Rejections">
        {heading(kept)} with a key of this workspace in the last {REJECTION_KEPT_DAYS} days
        {isFull && "; earlier ones are not kept"}. Nothing of a body is kept. Calls with a key that does not exist
        belong to no workspace and are not shown.
      </PageHead>
      <Filter data={data} />
      {groups.length === 0 ? (
        <Panel>
          <NothingFits
            title="No such call among those that are kept"
            path={`${path}/rejections`}
            query={query}
            filters={askedOf(data)}
          />
        </Panel>
      ) : (
        <>
          <ByReason data={data} />
          <Calls data={data} />
        </>
      )}
    </>
  );
}

function Filter({ data }: { data: RejectionsData }) {
  const { path, kept, query, keyNames } = data;
  const codes = [...new Set(kept.map(({ code }) => code))];
  const keys = [...new Set(kept.map(({ keyId }) => keyId))];
  return (
    <form method="get" action={`${path}/rejections`} class="filters">
      <SelectField
        name="code"
        label="Reason"
        value={query["code"] ?? ""}
        options={[["", "Any"], ...codes.map((code) => [code, REFUSALS[code].label] as const)]}
      />
      <SelectField
        name="key"
        label="Key"
        value={query["key"] ?? ""}
        options={[["", "Any"], ...keys.map((keyId) => [keyId, keyText(keyNames.get(keyId), keyId)] as const)]}
      />
      <DayFields days={data.days} />
      <button>Filter</button>
      {Object.keys(query).some((name) => name !== "cursor") && <a href={`${path}/rejections`}>All</a>}
    </form>
  );
}

function ByReason({ data }: { data: RejectionsData }) {
  const { path, groups, days, nowMs } = data;
  return (
    <Panel title="By reason and key" flush>
      <Table
        caption="Refused calls by reason and key"
        tall
        head={[
          "Reason",
          "Key",
          { text: "Calls", number: true },
          { text: "Signals", number: true },
          "Latest",
          "What the sender should change",
        ]}
      >
        {groups.map(({ keyId, code, cause, calls, signals, latestMs }) => (
          <tr>
            <th scope="row">
              <a href={filterLink(path, { ...shownRange(days), code, key: keyId })}>{REFUSALS[code].label}</a>
              <div class="quiet small nowrap">
                {REFUSALS[code].status} <code>{code}</code>
              </div>
              {cause !== null && <div class="small">{CAUSE_COPY[cause]}</div>}
            </th>
            <td class="what">
              <KeyName data={data} keyId={keyId} />
            </td>
            <td class="number">{grouped(calls)}</td>
            <td class="number">{grouped(signals)}</td>
            <td>
              <Time ms={latestMs} nowMs={nowMs} />
            </td>
            <td class="advice">
              {REFUSALS[code].advice} {OVER_LIMIT.includes(code) && <a href={`${path}/usage`}>See the usage.</a>}
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function Calls({ data }: { data: RejectionsData }) {
  const { path, query, items, next, nowMs } = data;
  return (
    <Panel title="Calls" flush>
      <Table
        caption="Refused calls, the latest first"
        tall
        head={["Time", "Reason", "Detail", "Key", { text: "Calls", number: true }, "First request"]}
      >
        {items.map(({ firstAtMs, lastAtMs, code, cause, detail, keyId, calls, requestId }) => (
          <tr>
            <td>
              <Time ms={lastAtMs} nowMs={nowMs} />
              {calls > 1 && (
                <div class="quiet small">
                  since <Time ms={firstAtMs} nowMs={nowMs} />
                </div>
              )}
            </td>
            <td class="reason">
              <Reason code={code} />
            </td>
            <td class="advice">
              <Clamped>{cause === null ? detail : CAUSE_COPY[cause]}</Clamped>
            </td>
            <td class="what">
              <KeyName data={data} keyId={keyId} />
            </td>
            <td class="number">{grouped(calls)}</td>
            <td>
              <ShortId id={requestId} />
            </td>
          </tr>
        ))}
      </Table>
      <Pager path={`${path}/rejections`} query={query} next={next} />
    </Panel>
  );
}

function askedOf({ query, days, keyNames }: RejectionsData): AskedFilter[] {
  const { code, key = "" } = query;
  return [
    { label: "Reason", value: isRefusalCode(code) ? REFUSALS[code].label : "", names: ["code"] },
    { label: "Key", value: key === "" ? "" : keyText(keyNames.get(key), key), names: ["key"] },
    daysAsked("Days", days),
  ];
}

function Reason({ code }: { code: RefusalCode }) {
  return (
    <Badge tone={REFUSALS[code].status === 429 ? "warn" : "bad"} title={code}>
      {REFUSALS[code].label}
    </Badge>
  );
}

/** A key's name, a link for owners and admins only: nobody else gets to the keys (spec §5.6). */
function KeyName({ data: { path, manager, keyNames }, keyId }: { data: RejectionsData; keyId: string }) {
  const name = keyText(keyNames.get(keyId), keyId);
  return manager ? <a href={`${path}/settings/api-keys/${keyId}`}>{name}</a> : <>{name}</>;
}

function heading(groups: readonly RejectionGroup[]): string {
  const calls = groups.reduce((sum, group) => sum + group.calls, 0);
  return counted(calls, "refused call");
}

function filterLink(path: string, query: Record<string, string>): string {
  return `${path}/rejections?${new URLSearchParams(query).toString()}`;
}
