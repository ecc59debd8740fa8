/** One API key: its settings, its accepted and rejected calls, its payload template. */
import { findKey, renameKey, rotatedWith, watchForSilence, type ApiKey } from "../../control/api-keys.ts";
import type { PayloadMapping } from "../../domain/accounts/payload-template.ts";
import { DAY_MS } from "../../domain/duration.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { REFUSALS } from "../../http/refusal-table.ts";
import { DAYS_COUNTED, KEY_SILENT_MAX_DAYS, PAGE_ROWS, REJECTION_KEPT_DAYS } from "../../limits.ts";
import type { KeyCalls } from "../../quota/protocol.ts";
import { silentAfterDays } from "../../workspace/manage-keys.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { KEY_PLACEHOLDER, SECRET_PLACEHOLDER, TestCall } from "../connect/senders.tsx";
import { CAUSE_COPY, ENDPOINT_LABEL } from "../copy.ts";
import { BarLegend, DayBars, type DayBar } from "../kit/charts.tsx";
import { authorName, counted, day, grouped } from "../kit/format.ts";
import { TextField } from "../kit/forms.tsx";
import { Fact, FactList, PageHead, Panel, Time } from "../kit/parts.tsx";
import { Count, Table } from "../kit/table.tsx";
import { done, notFoundPage, page } from "../page.tsx";
import { formText, contextOf, pages, workspacePath } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { checkKeyName } from "./key-form.ts";
import {
  Expiration,
  keyCrumbs,
  type KeyContext,
  KeyMenu,
  KEYS_PAGE,
  keysPath,
  KeyStatus,
  LastUsed,
  LocalTime,
} from "./key-parts.tsx";

/** The settings that can be changed, as typed. */
interface Typed {
  name: string;
  /** Days of the inactivity alert. */
  silence: string;
  errors: { name?: string; silence?: string };
}

export const oneKeyPages = pages
  .createApp()
  .get("/:key_id", async (c) => {
    const key = await findKey(c.get("db"), c.get("workspace").id, c.req.param("key_id"));
    if (key === null) return notFoundPage(c, "key");
    return keyPage(c, key, { name: key.name, silence: String(key.silentAfterDays ?? ""), errors: {} });
  })
  .post("/:key_id", readForm(), async (c) => {
    const [form, keyId] = [c.get("form"), c.req.param("key_id")];
    const key = await findKey(c.get("db"), c.get("workspace").id, keyId);
    if (key === null) return notFoundPage(c, "key");
    const typed = { name: formText(form, "name"), silence: formText(form, "silent_after_days").trim() };
    const name = checkKeyName(typed.name);
    const days = silentAfterDays.safeParse(typed.silence === "" ? null : Number(typed.silence));
    if (!name.ok || !days.success) {
      const errors = {
        ...(name.ok ? {} : { name: name.refusal }),
        ...(days.success ? {} : { silence: `Enter 1 to ${KEY_SILENT_MAX_DAYS} days, or leave it empty.` }),
      };
      return keyPage(c, key, { ...typed, errors });
    }
    await renameKey(contextOf(c), keyId, name.value);
    // An inactive key has no such field.
    if (form.has("silent_after_days")) await watchForSilence(contextOf(c), keyId, days.data);
    return done(c, `settings/api-keys/${keyId}`, "saved");
  });

async function keyPage(c: KeyContext, apiKey: ApiKey, typed: Typed) {
  const { id } = c.get("workspace");
  const [calls, { successors, predecessors }] = await Promise.all([
    quotaCounter(c.env, id).keyCalls(apiKey.id),
    rotatedWith(c.get("db"), id, [apiKey]),
  ]);
  const view = {
    home: workspacePath(c),
    path: keysPath(c),
    origin: new URL(c.req.url).origin,
    apiKey,
    typed,
    calls,
    successor: successors.get(apiKey.id),
    predecessor: predecessors.get(apiKey.successorOf ?? ""),
    nowMs: Date.now(),
  };
  const status = Object.keys(typed.errors).length === 0 ? 200 : 422;
  return page(c, { ...KEYS_PAGE, title: apiKey.name, status }, <KeyView {...view} />);
}

interface Props {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  /** Path of the list. */
  path: string;
  origin: string;
  apiKey: ApiKey;
  typed: Typed;
  calls: KeyCalls;
  /** The keys that this key was rotated into and from. */
  successor: ApiKey | undefined;
  predecessor: ApiKey | undefined;
  nowMs: number;
}

function KeyView(props: Props) {
  const { home, path, origin, apiKey, calls, nowMs } = props;
  const isActive = keyStatus(apiKey, nowMs) === "Active";
  const secret = apiKey.hasSecret ? SECRET_PLACEHOLDER : null;
  return (
    <>
      <PageHead
        title={apiKey.name}
        crumbs={keyCrumbs(path)}
        actions={
          isActive && (
            <>
              <KeyMenu path={path} apiKey={apiKey} usedMs={calls.usedMs} nowMs={nowMs} />
              <a class="button primary" href={`${home}/connect?key=${apiKey.id}`}>
                Connect a sender
              </a>
            </>
          )
        }
      >
        <code>{apiKey.maskedKey}</code>
      </PageHead>
      <div class="columns main-first">
        <CallsPanel calls={calls} nowMs={nowMs} />
        <Details {...props} />
      </div>
      <RejectedPanel {...props} />
      {apiKey.payloadTemplate !== null && <Template template={apiKey.payloadTemplate} />}
      <div class="columns">
        <Settings {...props} isActive={isActive} />
        {isActive && <TestCall home={home} setUp={{ ...apiKey, origin, key: KEY_PLACEHOLDER, secret }} />}
      </div>
    </>
  );
}

function Details({ path, apiKey, calls: { usedMs }, successor, predecessor, nowMs }: Props) {
  return (
    <Panel title="Details">
      <FactList>
        <Fact name="Status">
          <KeyStatus apiKey={apiKey} nowMs={nowMs} />
        </Fact>
        <Fact name="Last used">
          <LastUsed usedMs={usedMs} nowMs={nowMs} />
        </Fact>
        <Fact name="Expires">
          <Expiration apiKey={apiKey} nowMs={nowMs} />
        </Fact>
        <Fact name="Endpoint type">{ENDPOINT_LABEL[apiKey.endpointType]}</Fact>
        <Fact name="Shared secret">{apiKey.hasSecret ? "Required" : "None"}</Fact>
        <Fact name="Created">
          <LocalTime iso={apiKey.createdAt} /> by {authorName(apiKey.createdBy)}
        </Fact>
        {successor !== undefined && (
          <Fact name="Replaced by">
            <a href={`${path}/${successor.id}`}>{successor.maskedKey}</a>
          </Fact>
        )}
        {predecessor !== undefined && (
          <Fact name="Replaces">
            <a href={`${path}/${predecessor.id}`}>{predecessor.maskedKey}</a>
          </Fact>
        )}
      </FactList>
    </Panel>
  );
}

/** Calls by day. A call that is accepted in part counts as accepted and as rejected. */
function CallsPanel({ calls, nowMs }: { calls: KeyCalls; nowMs: number }) {
  const first = dayOf(nowMs) - DAYS_COUNTED + 1;
  const days: DayBar[] = Array.from({ length: DAYS_COUNTED }, (_, index) => ({
    atMs: (first + index) * DAY_MS,
    held: 0,
    ...(calls.days[first + index] ?? { accepted: 0, refused: 0 }),
  }));
  const [accepted, rejected] = (["accepted", "refused"] as const).map((part) =>
    days.reduce((sum, bar) => sum + bar[part], 0),
  ) as [number, number];
  if (accepted + rejected === 0) {
    return (
      <Panel title="Calls">
        <p class="quiet">No calls in the last {DAYS_COUNTED} days.</p>
      </Panel>
    );
  }
  const label = `${counted(accepted, "call")} accepted and ${grouped(rejected)} rejected in ${DAYS_COUNTED} days`;
  return (
    <Panel title="Calls">
      <p class="quiet">{label}.</p>
      <DayBars label={label} days={days} />
      <BarLegend
        parts={[
          ["", "Accepted"],
          ["bad", "Rejected, in whole or in part"],
        ]}
      />
      <details>
        <summary class="small">Calls by day (UTC)</summary>
        <Table
          caption="Calls by day"
          rows={days.toReversed().filter((bar) => bar.accepted + bar.refused > 0)}
          columns={[
            { head: "Day", cell: ({ atMs }) => day(atMs) },
            { head: "Accepted", kind: "number", cell: (bar) => <Count value={bar.accepted} /> },
            { head: "Rejected", kind: "number", cell: (bar) => <Count value={bar.refused} /> },
          ]}
        />
      </details>
    </Panel>
  );
}

/** The latest rejections; consecutive calls with the same reason share a row. */
function RejectedPanel({ home, apiKey, calls: { rejections }, nowMs }: Props) {
  const calls = rejections.reduce((sum, run) => sum + run.calls, 0);
  if (calls === 0) return <></>;
  return (
    <Panel
      title={`${counted(calls, "rejected call")} in ${REJECTION_KEPT_DAYS} days`}
      actions={<a href={`${home}/rejections?key=${apiKey.id}`}>View all rejections</a>}
      list
    >
      <Table
        caption="Rejected calls, latest first"
        rows={rejections.slice(0, PAGE_ROWS)}
        columns={[
          {
            head: "Reason",
            cell: ({ code, cause }) => (
              <>
                {REFUSALS[code].label}
                {cause !== null && <small> {CAUSE_COPY[cause]}</small>}
              </>
            ),
          },
          { head: "Calls", kind: "number", cell: (run) => grouped(run.calls) },
          { head: "First", drop: "narrow", cell: ({ firstAtMs }) => <Time ms={firstAtMs} nowMs={nowMs} /> },
          { head: "Last", cell: ({ lastAtMs }) => <Time ms={lastAtMs} nowMs={nowMs} /> },
          { head: "How to fix", kind: "text", cell: ({ code }) => REFUSALS[code].advice },
        ]}
      />
    </Panel>
  );
}

function Template({ template }: { template: readonly PayloadMapping[] }) {
  return (
    <Panel title="Payload template" list>
      <Table
        caption="Payload template"
        rows={template}
        columns={[
          { head: "Target", cell: ({ target }) => <code>{target}</code> },
          { head: "Path", cell: ({ path }) => <code>{path}</code> },
          { head: "Type", cell: ({ type }) => type },
          { head: "Required", cell: ({ required }) => (required ? "Yes" : "No") },
        ]}
      />
    </Panel>
  );
}

function Settings({ home, path, apiKey, typed, isActive }: Props & { isActive: boolean }) {
  return (
    <Panel title="Settings">
      <form method="post" action={`${path}/${apiKey.id}`} data-once class="form">
        <TextField name="name" label="Name" value={typed.name} error={typed.errors.name} autocomplete="off" required />
        {isActive && (
          <TextField
            name="silent_after_days"
            label="Inactivity alert: days without a call"
            hint={
              <>
                Notifies your <a href={`${home}/settings/notifications`}>destinations</a>. Empty: no alert.
              </>
            }
            value={typed.silence}
            error={typed.errors.silence}
            inputmode="numeric"
            autocomplete="off"
          />
        )}
        <div class="row">
          <button>Save</button>
        </div>
      </form>
    </Panel>
  );
}
