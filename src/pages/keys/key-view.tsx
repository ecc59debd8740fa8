/** Settings › API Keys: one key: what it is, what was refused of its calls, and what can be changed about it. */
import type { ApiKey } from "../../control/stored-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import type { PayloadMapping } from "../../domain/accounts/payload-template.ts";
import type { Rejection } from "../../domain/keys/rejection.ts";
import { REJECTION_KEPT_DAYS } from "../../limits.ts";
import { webhooksOf } from "../../workspace/webhook-calls.ts";
import { REFUSALS } from "../../http/refusal-table.ts";
import type { KeyCalls as Calls } from "../../quota/protocol.ts";
import { CAUSE_COPY } from "../../workspace/refusal-copy.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import type { RejectionGroup } from "../rejections/rejection-list.ts";
import { KEY_PLACEHOLDER } from "../connect/connect-set-up.tsx";
import { TextField } from "../views/fields.tsx";
import { counted, grouped } from "../views/format.ts";
import { KeyCalls } from "./key-calls-panel.tsx";
import { Expiration, KeyBadge, KeyCrumbs, LocalTime } from "./key-parts.tsx";
import { Fact, Facts, Head, Panel, Table, Time } from "../views/parts.tsx";
import { TestCall } from "../connect/test-call-view.tsx";

/** What a field holds: what is stored, or what was typed and refused. */
export interface TypedField {
  typed: string;
  error: string | undefined;
}

export interface KeyPage {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  /** Path of the API keys, `/w/{slug}/settings/api-keys`. */
  path: string;
  origin: string;
  apiKey: ApiKey;
  /** What has come of the key's calls. */
  calls: Calls;
  /** The keys that this one was rotated into and from; null where there is none. */
  successor: ApiKey | null;
  predecessor: ApiKey | null;
  /** The key's refused calls by reason. */
  refused: readonly RejectionGroup[];
  /** The key's latest refused calls, an entry for each run of the same. */
  runs: readonly Rejection[];
  rename: TypedField;
  silence: TypedField;
  nowMs: number;
}

export function KeyView(page: KeyPage) {
  const { home, path, origin, apiKey, nowMs } = page;
  const isActive = keyStatus(apiKey, nowMs) === "Active";
  const [webhook] = webhooksOf(origin, { ...apiKey, key: KEY_PLACEHOLDER });
  return (
    <>
      <Head
        title={apiKey.name}
        crumbs={<KeyCrumbs path={path} />}
        actions={isActive ? <Actions home={home} path={path} id={apiKey.id} /> : undefined}
      />
      <Panel>
        <What page={page} />
      </Panel>
      <KeyCalls accepted={page.calls.accepted} refused={page.calls.refused} nowMs={nowMs} />
      <Refused page={page} />
      {apiKey.payloadTemplate !== null && <Template template={apiKey.payloadTemplate} />}
      <div class="columns wide">
        <div class="stack wide-gap">
          <Rename page={page} />
          {isActive && <Silence page={page} />}
        </div>
        {isActive && (
          <TestCall
            home={home}
            webhook={webhook}
            placeholder={KEY_PLACEHOLDER}
            secret={apiKey.hasSecret ? "ask" : null}
          />
        )}
      </div>
    </>
  );
}

function Rename({ page: { path, apiKey, rename } }: { page: KeyPage }) {
  return (
    <Panel title="Name">
      <form method="post" action={`${path}/${apiKey.id}/name`} data-once class="form">
        <TextField name="name" label="Name" value={rename.typed} error={rename.error} autocomplete="off" required />
        <div class="row">
          <button>Rename</button>
        </div>
      </form>
    </Panel>
  );
}

function Silence({ page: { home, path, apiKey, silence } }: { page: KeyPage }) {
  return (
    <Panel title="Silence">
      <form method="post" action={`${path}/${apiKey.id}/silence`} data-once class="form">
        <TextField
          name="silent_after_days"
          label="Tell when no call has come for so many days"
          hint={
            <>
              Told to the <a href={`${home}/settings/notifications`}>destinations</a> that want it. Empty: never.
            </>
          }
          value={silence.typed}
          error={silence.error}
          inputmode="numeric"
          autocomplete="off"
        />
        <div class="row">
          <button>Save</button>
        </div>
      </form>
    </Panel>
  );
}

function Actions({ home, path, id }: { home: string; path: string; id: string }) {
  return (
    <>
      <a class="button primary" href={`${home}/connect?key=${id}`}>
        Connect a sender
      </a>
      <a class="button" href={`${path}/${id}/rotate`}>
        Rotate
      </a>
      <a class="button danger" href={`${path}/${id}/deactivate`}>
        Deactivate
      </a>
    </>
  );
}

function What({
  page: {
    path,
    apiKey,
    calls: { usedMs },
    successor,
    predecessor,
    nowMs,
  },
}: {
  page: KeyPage;
}) {
  return (
    <Facts>
      <Fact name="Key">
        <code>{apiKey.maskedKey}</code>
      </Fact>
      <Fact name="Status">
        <KeyBadge apiKey={apiKey} nowMs={nowMs} />
      </Fact>
      <Fact name="Endpoint Type">{ENDPOINT_LABEL[apiKey.endpointType]}</Fact>
      <Fact name="Secret">{apiKey.hasSecret ? "Calls must carry the shared secret" : "None"}</Fact>
      <Fact name="Created">
        <LocalTime iso={apiKey.createdAt} /> by {apiKey.createdBy === "operator" ? "the operator" : apiKey.createdBy}
      </Fact>
      <Fact name="Expires">
        <Expiration apiKey={apiKey} nowMs={nowMs} />
      </Fact>
      <Fact name="Last Used">{usedMs === null ? "Never" : <Time ms={usedMs} nowMs={nowMs} />}</Fact>
      {successor !== null && (
        <Fact name="Replaced by">
          <KeyLink path={path} apiKey={successor} />
        </Fact>
      )}
      {predecessor !== null && (
        <Fact name="Replaces">
          <KeyLink path={path} apiKey={predecessor} />
        </Fact>
      )}
    </Facts>
  );
}

function KeyLink({ path, apiKey }: { path: string; apiKey: ApiKey }) {
  return (
    <a href={`${path}/${apiKey.id}`}>
      {apiKey.name} <code class="nowrap">{apiKey.maskedKey}</code>
    </a>
  );
}

function Refused({ page: { home, apiKey, refused, runs, nowMs } }: { page: KeyPage }) {
  const calls = refused.reduce((sum, group) => sum + group.calls, 0);
  const isLowerBound = refused.some(({ atLeast }) => atLeast);
  if (refused.length === 0) {
    return (
      <Panel title="Refused calls">
        <p class="quiet">None in the last {REJECTION_KEPT_DAYS} days.</p>
      </Panel>
    );
  }
  return (
    <Panel title="Refused calls" flush>
      <div class="panel-head stack">
        <p>
          {isLowerBound && "At least "}
          {counted(calls, "call")} in the last {REJECTION_KEPT_DAYS} days:{" "}
          {refused.map(({ code, calls: ofReason }) => `${grouped(ofReason)} × ${REFUSALS[code].label}`).join(", ")}.{" "}
          <a href={`${home}/rejections?key=${apiKey.id}`}>See each</a>
        </p>
      </div>
      <Table
        caption="Refused calls of this key, the latest first"
        head={["Reason", { text: "Calls", number: true }, "From", "To", "What the sender should change"]}
      >
        {runs.map(({ code, cause, calls: ofRun, atLeast, firstAtMs, lastAtMs }) => (
          <tr>
            <th scope="row">
              {REFUSALS[code].label}
              {cause !== null && <div class="small">{CAUSE_COPY[cause]}</div>}
            </th>
            <td class="number">
              {atLeast && "at least "}
              {grouped(ofRun)}
            </td>
            <td>
              <Time ms={firstAtMs} nowMs={nowMs} />
            </td>
            <td>
              <Time ms={lastAtMs} nowMs={nowMs} />
            </td>
            <td class="advice">{REFUSALS[code].advice}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function Template({ template }: { template: readonly PayloadMapping[] }) {
  return (
    <Panel title="Payload Template" flush>
      <Table caption="The payload template of this key" head={["Fills", "From", "Type", "Required"]}>
        {template.map(({ target, path, type, required }) => (
          <tr>
            <th scope="row">
              <code>{target}</code>
            </th>
            <td>
              <code>{path}</code>
            </td>
            <td>{type}</td>
            <td>{required ? "Yes" : "No"}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
