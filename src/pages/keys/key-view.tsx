/** Settings › API Keys: one key: what it is, what was refused of its calls, and what can be changed about it. */
import type { ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import type { PayloadMapping } from "../../domain/accounts/payload-template.ts";
import type { Rejection } from "../../domain/keys/refusal.ts";
import { webhooksOf } from "../../domain/webhook-calls.ts";
import type { KeyCalls } from "../../quota/protocol.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import type { RejectionGroup } from "../rejections.tsx";
import { KEY_PLACEHOLDER } from "../connect/connect-set-up.tsx";
import { TextField } from "../kit/forms.tsx";
import { KeyCallsPanel } from "./key-calls-panel.tsx";
import { KeyRefusals } from "./key-refusals-panel.tsx";
import { Expiration, KeyBadge, KeyCrumbs, LocalTime } from "./key-parts.tsx";
import { Fact, FactList, PageHead, Panel, Time } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";
import { TestCall } from "../views/test-call-view.tsx";
import { authorName } from "../kit/format.ts";

/** What a field holds: what is stored, or what was typed and refused. */
export interface TypedField {
  typed: string;
  error: string | undefined;
}

interface KeyPage {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  /** Path of the API keys, `/w/{slug}/settings/api-keys`. */
  path: string;
  origin: string;
  apiKey: ApiKey;
  /** What has come of the key's calls. */
  calls: KeyCalls;
  /** The keys that this one was rotated into and from; null where there is none. */
  successor: ApiKey | null;
  predecessor: ApiKey | null;
  refused: readonly RejectionGroup[];
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
      <PageHead
        title={apiKey.name}
        crumbs={<KeyCrumbs path={path} />}
        actions={isActive ? <KeyActions home={home} path={path} id={apiKey.id} /> : undefined}
      />
      <Panel>
        <KeyDetails page={page} />
      </Panel>
      <KeyCallsPanel calls={page.calls} nowMs={nowMs} />
      <KeyRefusals home={home} keyId={apiKey.id} refused={page.refused} runs={page.runs} nowMs={nowMs} />
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

function KeyActions({ home, path, id }: { home: string; path: string; id: string }) {
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

function KeyDetails({
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
    <FactList>
      <Fact name="Key">
        <code>{apiKey.maskedKey}</code>
      </Fact>
      <Fact name="Status">
        <KeyBadge apiKey={apiKey} nowMs={nowMs} />
      </Fact>
      <Fact name="Endpoint Type">{ENDPOINT_LABEL[apiKey.endpointType]}</Fact>
      <Fact name="Secret">{apiKey.hasSecret ? "Calls must carry the shared secret" : "None"}</Fact>
      <Fact name="Created">
        <LocalTime iso={apiKey.createdAt} /> by {authorName(apiKey.createdBy)}
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
    </FactList>
  );
}

function KeyLink({ path, apiKey }: { path: string; apiKey: ApiKey }) {
  return (
    <a href={`${path}/${apiKey.id}`}>
      {apiKey.name} <code class="nowrap">{apiKey.maskedKey}</code>
    </a>
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
