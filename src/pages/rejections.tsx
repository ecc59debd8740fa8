/** Rejections (spec §7): rejected calls by key and reason, with what the sender should change. */
import type { RejectionCode, RejectionEntry, RejectionReason, UnauthorizedCause } from "../domain/keys/rejection.ts";
import { REJECTIONS } from "../http/rejection-table.ts";
import { PAGE_ROWS, REJECTION_KEPT_DAYS, REJECTIONS_KEPT } from "../limits.ts";
import type { ListQuery, ListPage } from "../platform/list-page.ts";
import { cut } from "../domain/text.ts";
import { CAUSE_COPY, optionsOf } from "./copy.ts";
import { type KeyNames, keyText, KeyTitle, readKeyNames } from "./keys/key-parts.tsx";
import { LinkButton } from "./kit/forms.tsx";
import { counted, grouped } from "./kit/format.ts";
import { Filters, ListAddress, ListPanel, NoMatches } from "./kit/list.tsx";
import { type Column, CopyId, Count, ExactTime, Panel, Table, Time, ValueList, WithCode } from "./kit/parts.tsx";
import { mayManage, notFoundPage, page } from "./page.tsx";
import { adviceFor, reasonText } from "./rejection-texts.ts";
import { counterOf, type Ctx, pages, workspacePath, keyPath, withQuery } from "./pages-env.ts";

const SEE_USAGE: readonly RejectionCode[] = ["allowance_exceeded", "extra_room_exceeded", "unavailable"];

const CODES = optionsOf("Any", REJECTIONS);
const CAUSES = optionsOf(
  "Any",
  Object.fromEntries(Object.entries(CAUSE_COPY).map(([cause, label]) => [cause, { label }])) as Record<
    UnauthorizedCause,
    { label: string }
  >,
);

export const rejectionPages = pages
  .createApp()
  .get("/", async (c) => {
    const base = workspacePath(c);
    const { kept, names } = await readKept(c);
    const list = new ListAddress(`${base}/rejections`, c.req.query());
    const code = list.choice("code", "Reason", CODES);
    const cause = list.choice("cause", "Cause", CAUSES);
    const keyId = c.req.query("key") ?? "";
    if (keyId !== "") list.addFilter("API key", keyText(names.get(keyId), keyId), { key: keyId });
    const keyIds = [...new Set(kept.map((entry) => entry.keyId))];
    const keys = keyIds.map((id) => [id, keyText(names.get(id), id)] as const);
    list.addSelect("key", "API key", [["", "Any"], ...keys], keyId);
    const { sinceMs, untilMs } = list.times("Rejected");
    const ofAnyReason = kept.filter(
      (entry) =>
        (keyId === "" || entry.keyId === keyId) &&
        // An entry stands for all calls from its first to its last.
        (untilMs === undefined || entry.firstAtMs < untilMs) &&
        (sinceMs === undefined || entry.lastAtMs >= sinceMs),
    );
    const shown = ofAnyReason.filter(
      (entry) => (code === undefined || entry.code === code) && (cause === undefined || entry.cause === cause),
    );
    return page(
      c,
      { section: "rejections", title: "Rejections", intro: introOf(kept) },
      kept.length > 0 && <Filters list={list} />,
      <Reasons list={list} entries={ofAnyReason} shown={{ code, cause }} />,
      kept.length > 0 && shown.length === 0 && <NoMatches noun="rejected calls" list={list} />,
      shown.length > 0 && <Calls base={base} names={names} list={list} rejections={shown} />,
      <p class="quiet small">Calls with an unknown key belong to no workspace and are not listed.</p>,
    );
  })
  .get("/:entry", async (c) => {
    const { kept, names } = await readKept(c);
    const entry = kept.find((of) => cursorOf(of) === c.req.param("entry"));
    return entry === undefined ? notFoundPage(c, "rejected call") : callPage(c, entry, names);
  });

async function readKept(c: Ctx): Promise<{ kept: RejectionEntry[]; names: KeyNames }> {
  const kept = await counterOf(c).rejections(REJECTIONS_KEPT);
  return { kept, names: await readKeyNames(c, [...new Set(kept.map(({ keyId }) => keyId))]) };
}

export interface RejectionEntryGroup extends RejectionReason {
  calls: number;
  signals: number;
  latestMs: number;
}

export function groupRejections(rejections: readonly RejectionEntry[]): RejectionEntryGroup[] {
  const groups = new Map<string, RejectionEntryGroup>();
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
function sliceOf(rejections: readonly RejectionEntry[], { cursor, limit }: ListQuery): ListPage<RejectionEntry> {
  const start = cursor === null ? 0 : rejections.findIndex((entry) => cursorOf(entry) === cursor) + 1;
  const items = rejections.slice(start, start + limit);
  const last = items.at(-1);
  return { items, next: start + limit < rejections.length && last !== undefined ? cursorOf(last) : null };
}

/** One call may be rejected for several reasons, and be the first of each: its request id alone is not unique. */
function cursorOf({ requestId, keyId, code, cause }: RejectionEntry): string {
  return [requestId, keyId, code, cause ?? ""].join(".");
}

function introOf(kept: readonly RejectionEntry[]): string {
  if (kept.length === 0) return `No rejected calls in the last ${REJECTION_KEPT_DAYS} days.`;
  const calls = kept.reduce((sum, entry) => sum + entry.calls, 0);
  const older = kept.length === REJECTIONS_KEPT ? " Older ones are not kept." : "";
  return `${counted(calls, "rejected call")} in the last ${REJECTION_KEPT_DAYS} days.${older}`;
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

interface ReasonsProps {
  list: ListAddress;
  /** Entries of any reason, with the other filters applied. */
  entries: readonly RejectionEntry[];
  shown: { code: string | undefined; cause: string | undefined };
}

/** The reasons with their numbers of calls, as filters of the table below. */
function Reasons({ list, entries, shown }: ReasonsProps) {
  const { cursor: _, back: __, code: ___, cause: ____, ...others } = list.query;
  const groups = groupRejections(entries.map((entry) => ({ ...entry, keyId: "" })));
  if (groups.length < 2) return <></>;
  const all = groups.reduce((sum, { calls }) => sum + calls, 0);
  const isAll = shown.code === undefined && shown.cause === undefined;
  return (
    <nav class="chips reasons" aria-label="Reasons">
      <a href={withQuery(list.path, others)} aria-current={isAll ? "true" : undefined}>
        All <span class="quiet">{grouped(all)}</span>
      </a>
      {groups.map(({ code, cause, calls }) => (
        <a
          href={withQuery(list.path, { ...others, code, ...(cause !== null && { cause }) })}
          aria-current={shown.code === code && shown.cause === (cause ?? undefined) ? "true" : undefined}
        >
          {reasonText({ code, cause })} <span class="quiet">{grouped(calls)}</span>
        </a>
      ))}
    </nav>
  );
}

interface RowsProps {
  base: string;
  names: KeyNames;
  list: ListAddress;
  rejections: readonly RejectionEntry[];
}

function Calls({ base, names, list, rejections }: RowsProps) {
  const found = sliceOf(rejections, list.slice(PAGE_ROWS));
  return (
    <ListPanel list={list} found={found}>
      <Table
        caption="Rejected calls, the latest first"
        rows={found.items}
        href={(entry) => callPath(base, entry)}
        columns={[
          {
            head: "Reason",
            cell: (entry) => (
              <>
                {reasonText(entry)}
                <small class="nowrap">{`${REJECTIONS[entry.code].status} ${entry.code}`}</small>
              </>
            ),
          },
          {
            head: "Detail",
            kind: "text",
            drop: "phone",
            cell: (entry) => (
              <WithCode text={entry.cause === null ? cut(entry.detail, DETAIL_CHARACTERS) : adviceFor(entry)} />
            ),
          },
          keyColumn(base, names),
          { head: "Calls", kind: "number", cell: ({ calls }) => <Count value={calls} /> },
          {
            head: "Signals",
            kind: "number",
            drop: "narrow",
            cell: ({ calls, signals }) => signals !== calls && <Count value={signals} />,
          },
          { head: "Latest", cell: ({ lastAtMs }) => <Time ms={lastAtMs} /> },
        ]}
      />
    </ListPanel>
  );
}

/** Characters of a detail in the list. Its page has the whole. */
const DETAIL_CHARACTERS = 140;

export function callPath(base: string, entry: RejectionEntry): string {
  return `${base}/rejections/${encodeURIComponent(cursorOf(entry))}`;
}

/** One reason of a key, without a pause of an hour: the first of its calls, and what the sender should change. */
function callPage(c: Ctx, entry: RejectionEntry, names: KeyNames) {
  const base = workspacePath(c);
  const { code, cause, keyId, detail, requestId, calls, signals, firstAtMs, lastAtMs } = entry;
  const key = names.get(keyId);
  const active = key !== undefined && <a href={`${keyPath(base, keyId)}/rotate`}>Rotate key</a>;
  const hasAdvice = REJECTIONS[code].adviceIsInDetail !== true;
  const usage = SEE_USAGE.includes(code) && <a href={`${base}/usage`}>View usage</a>;
  const isLost = cause === "secret_missing" || cause === "secret_wrong";
  return page(
    c,
    {
      section: "rejections",
      title: reasonText(entry),
      crumbs: [],
      intro: `${counted(calls, "call")} rejected with ${REJECTIONS[code].status} ${code}.`,
      actions: <LinkButton href={withQuery(`${base}/rejections`, { key: keyId })} text="All rejections of this key" />,
    },
    <div class="columns main-first">
      <Panel title={hasAdvice ? "How to fix" : "The answer said"}>
        {hasAdvice && (
          <>
            <p>
              {adviceFor(entry)} {usage} {isLost && active}
            </p>
            <h3>The answer said</h3>
          </>
        )}
        <p>
          <WithCode text={detail} /> {!hasAdvice && usage}
        </p>
        {code === "event_missing" && mayManage(c) && (
          <p>
            The sender cannot change its body? A payload template says where its event stands.{" "}
            <a href={`${keyPath(base, keyId)}/template`}>Map its payloads</a>
          </p>
        )}
        <p class="quiet small">
          Nothing of the body is stored. Positions count from the beginning of the body, in lines and characters.
        </p>
      </Panel>
      <Panel title={calls === 1 ? "Call" : "Calls"}>
        <ValueList
          of={[
            [
              "API key",
              key === undefined ? (
                keyText(key, keyId)
              ) : (
                <a href={keyPath(base, keyId)}>
                  <KeyTitle {...key} />
                </a>
              ),
            ],
            [calls === 1 ? "Request id" : "First request id", <CopyId id={requestId} label="request id" />],
            calls > 1 && ["First", <ExactTime ms={firstAtMs} />],
            [calls === 1 ? "Time" : "Latest", <ExactTime ms={lastAtMs} />],
            ["Calls", grouped(calls)],
            ["Rejected signals", grouped(signals)],
          ]}
        />
      </Panel>
    </div>,
  );
}
