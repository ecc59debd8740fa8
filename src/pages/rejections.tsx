/** Rejections (spec §7): refused calls by key and reason, with what the sender should change. */
import type { RefusalCode, Rejection, RejectionReason } from "../domain/keys/refusal.ts";
import { REFUSALS } from "../http/refusal-table.ts";
import { PAGE_ROWS, REJECTION_KEPT_DAYS, REJECTIONS_KEPT } from "../limits.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import { CAUSE_COPY, optionsOf } from "./copy.ts";
import { type KeyNames, keyText, KeyTitle, readKeyNames } from "./keys/key-parts.tsx";
import { counted, withQuery } from "./kit/format.ts";
import { Filters, ListAddress, ListPanel, NoMatches } from "./kit/list.tsx";
import { Clamped, type Column, Count, Panel, ShortId, Table, Time } from "./kit/parts.tsx";
import { page } from "./page.tsx";
import { counterOf, pages, workspacePath } from "./pages-env.ts";
import { keyPath } from "./paths.ts";

const OVER_LIMIT: readonly RefusalCode[] = ["allowance_exceeded", "extra_room_exceeded", "unavailable"];

const CODES = optionsOf("Any", REFUSALS);

export const rejectionPages = pages.createApp().get("/", async (c) => {
  const base = workspacePath(c);
  const kept = await counterOf(c).rejections(REJECTIONS_KEPT);
  const keyIds = [...new Set(kept.map((entry) => entry.keyId))];
  const names = await readKeyNames(c, keyIds);
  const list = new ListAddress(`${base}/rejections`, c.req.query());
  const code = list.choice("code", "Reason", CODES);
  const keyId = c.req.query("key") ?? "";
  if (keyId !== "") list.addFilter("API key", keyText(names.get(keyId), keyId), { key: keyId });
  const keys = keyIds.map((id) => [id, keyText(names.get(id), id)] as const);
  list.addSelect("key", "API key", [["", "Any"], ...keys], keyId);
  const { sinceMs, untilMs } = list.times("Refused");
  const shown = kept.filter(
    (entry) =>
      (code === undefined || entry.code === code) &&
      (keyId === "" || entry.keyId === keyId) &&
      // An entry stands for all calls from its first to its last.
      (untilMs === undefined || entry.firstAtMs < untilMs) &&
      (sinceMs === undefined || entry.lastAtMs >= sinceMs),
  );
  return page(
    c,
    { section: "rejections", title: "Rejections", intro: introOf(kept) },
    kept.length > 0 && <Filters list={list} />,
    kept.length > 0 && shown.length === 0 && <NoMatches noun="refused calls" list={list} />,
    shown.length > 0 && (
      <>
        <Reasons base={base} names={names} list={list} groups={groupRejections(shown)} />
        <Calls base={base} names={names} list={list} rejections={shown} />
      </>
    ),
    <p class="quiet small">Calls with an unknown key belong to no workspace and are not listed.</p>,
  );
});

export interface RejectionGroup extends RejectionReason {
  calls: number;
  signals: number;
  latestMs: number;
}

export function groupRejections(rejections: readonly Rejection[]): RejectionGroup[] {
  const groups = new Map<string, RejectionGroup>();
  for (const { keyId, code, cause, calls, signals, lastAtMs } of rejections) {
    const name = `${code} ${cause} ${keyId}`;
    const group = groups.get(name) ?? { keyId, code, cause, calls: 0, signals: 0, latestMs: 0 };
    group.calls += calls;
    group.signals += signals;
    group.latestMs = Math.max(group.latestMs, lastAtMs);
    groups.set(name, group);
  }
  return [...groups.values()].sort((a, b) => b.calls - a.calls || b.latestMs - a.latestMs);
}

/** A cursor whose entry is no longer kept begins at the first slice again. */
function sliceOf(rejections: readonly Rejection[], { cursor, limit }: Page): PageOf<Rejection> {
  const start = cursor === null ? 0 : rejections.findIndex((entry) => cursorOf(entry) === cursor) + 1;
  const items = rejections.slice(start, start + limit);
  const last = items.at(-1);
  return { items, next: start + limit < rejections.length && last !== undefined ? cursorOf(last) : null };
}

/** One call may be refused for several reasons, and be the first of each: its request id alone is not unique. */
function cursorOf({ requestId, keyId, code, cause }: Rejection): string {
  return [requestId, keyId, code, cause ?? ""].join(".");
}

function introOf(kept: readonly Rejection[]): string {
  if (kept.length === 0) return `No refused calls in the last ${REJECTION_KEPT_DAYS} days.`;
  const calls = kept.reduce((sum, entry) => sum + entry.calls, 0);
  const older = kept.length === REJECTIONS_KEPT ? " Older ones are not kept." : "";
  return `${counted(calls, "refused call")} in the last ${REJECTION_KEPT_DAYS} days.${older}`;
}

function keyColumn<Row extends { keyId: string }>(base: string, names: KeyNames): Column<Row> {
  return {
    head: "API key",
    cell: ({ keyId }) => {
      const key = names.get(keyId);
      if (key === undefined) return keyText(key, keyId);
      return (
        <a href={keyPath(base, keyId)}>
          <KeyTitle {...key} />
        </a>
      );
    },
  };
}

interface RowsProps {
  base: string;
  names: KeyNames;
  list: ListAddress;
}

function Reasons({ base, names, list, groups }: RowsProps & { groups: readonly RejectionGroup[] }) {
  const { cursor: _, back: __, ...filters } = list.query;
  return (
    <Panel title="By reason and key" list>
      <Table
        caption="Refused calls by reason and key"
        rows={groups}
        href={({ code, keyId }) => withQuery(list.path, { ...filters, code, key: keyId })}
        columns={[
          {
            head: "Reason",
            cell: ({ code, cause }) => (
              <>
                {REFUSALS[code].label}
                {cause === null ? (
                  <small class="nowrap">{`${REFUSALS[code].status} ${code}`}</small>
                ) : (
                  <small>{CAUSE_COPY[cause]}</small>
                )}
              </>
            ),
          },
          keyColumn(base, names),
          { head: "Calls", kind: "number", cell: ({ calls }) => <Count value={calls} /> },
          { head: "Signals", kind: "number", cell: ({ signals }) => <Count value={signals} />, drop: "narrow" },
          { head: "Latest", cell: ({ latestMs }) => <Time ms={latestMs} /> },
          {
            head: "How to fix",
            kind: "text",
            cell: ({ code }) => (
              <>
                {REFUSALS[code].advice} {OVER_LIMIT.includes(code) && <a href={`${base}/usage`}>View usage</a>}
              </>
            ),
          },
        ]}
      />
    </Panel>
  );
}

function Calls({ base, names, list, rejections }: RowsProps & { rejections: readonly Rejection[] }) {
  const found = sliceOf(rejections, list.slice(PAGE_ROWS));
  return (
    <ListPanel title="Calls" list={list} found={found}>
      <Table
        caption="Refused calls, the latest first"
        rows={found.items}
        columns={[
          { head: "Reason", cell: ({ code }) => REFUSALS[code].label },
          {
            head: "Detail",
            kind: "text",
            cell: ({ cause, detail }) => <Clamped>{cause === null ? detail : CAUSE_COPY[cause]}</Clamped>,
          },
          keyColumn(base, names),
          { head: "Calls", kind: "number", cell: ({ calls }) => <Count value={calls} /> },
          { head: "First request", cell: ({ requestId }) => <ShortId id={requestId} />, drop: "narrow" },
          {
            head: "Latest",
            cell: ({ calls, firstAtMs, lastAtMs }) => (
              <>
                <Time ms={lastAtMs} />
                {calls > 1 && lastAtMs - firstAtMs >= 60_000 && (
                  <small class="nowrap">
                    first <Time ms={firstAtMs} />
                  </small>
                )}
              </>
            ),
          },
        ]}
      />
    </ListPanel>
  );
}
