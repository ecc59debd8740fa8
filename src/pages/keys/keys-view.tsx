/** Settings › API Keys: the list (spec §2.1). Masked keys only, and nothing to copy. */
import type { ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import type { PageOf } from "../../platform/list-page.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import { counted } from "../kit/format.ts";
import { Expiration, KeyBadge, LocalDate } from "./key-parts.tsx";
import { Badge, Empty, PageHead, Panel, Time } from "../views/parts.tsx";
import { Pager, Table } from "../views/table.tsx";

interface KeyList {
  /** Path of the API keys, `/w/{slug}/settings/api-keys`. */
  path: string;
  query: Record<string, string>;
  page: PageOf<ApiKey>;
  /** When each key was used last, in milliseconds since 1970, by key id. */
  lastUsed: Record<string, number>;
  successors: ReadonlyMap<string, ApiKey>;
  predecessors: ReadonlyMap<string, ApiKey>;
  nowMs: number;
}

const COLUMNS = [
  "Name",
  "Key",
  "Endpoint Type",
  "Created",
  "Expires",
  "Status",
  "Last Used",
  { text: "Actions", hidden: true },
];

export function KeysView(list: KeyList) {
  const { path, query, page, nowMs } = list;
  const { Active: active = [], Inactive: inactive = [] } = Object.groupBy(page.items, (key) => keyStatus(key, nowMs));
  const create = (
    <a class="button primary" href={`${path}/new`}>
      Create API Key
    </a>
  );
  return (
    <>
      <PageHead title="API Keys" actions={create}>
        Senders put a key into the webhook's URL. The full key is shown once, when it is created.
      </PageHead>
      <Panel flush id="keys">
        {page.items.length === 0 ? (
          <Empty title="No API key yet">
            <p>Every call to a webhook carries a key. Create one, and the webhook's URL is ready to be pasted.</p>
            {create}
          </Empty>
        ) : (
          <>
            {active.length > 0 && <KeyTable list={list} caption="API keys, the newest first" keys={active} />}
            {inactive.length > 0 && (
              <details class="inactive-keys" open={active.length === 0}>
                <summary>{counted(inactive.length, "inactive key")}</summary>
                <KeyTable list={list} caption="Inactive API keys, the newest first" keys={inactive} />
              </details>
            )}
          </>
        )}
        <Pager path={path} query={query} next={page.next} />
      </Panel>
    </>
  );
}

function KeyTable({ list, caption, keys }: { list: KeyList; caption: string; keys: readonly ApiKey[] }) {
  return (
    <Table caption={caption} head={COLUMNS}>
      {keys.map((key) => (
        <KeyRow list={list} apiKey={key} />
      ))}
    </Table>
  );
}

function KeyRow({ list, apiKey }: { list: KeyList; apiKey: ApiKey }) {
  const { path, lastUsed, nowMs } = list;
  const isActive = keyStatus(apiKey, nowMs) === "Active";
  const usedMs = lastUsed[apiKey.id];
  return (
    <tr id={apiKey.id}>
      <th scope="row" class="key-name">
        <a href={`${path}/${apiKey.id}`}>{apiKey.name}</a>
        {apiKey.hasSecret && (
          <>
            {" "}
            <Badge title="Calls must carry the shared secret in the header X-Api-Secret.">Secret</Badge>
          </>
        )}
        <RotationNote list={list} apiKey={apiKey} isActive={isActive} />
      </th>
      <td>
        <code class="nowrap">{apiKey.maskedKey}</code>
      </td>
      <td>{ENDPOINT_LABEL[apiKey.endpointType]}</td>
      <td>
        <LocalDate iso={apiKey.createdAt} />
      </td>
      <td>
        <Expiration apiKey={apiKey} nowMs={nowMs} />
      </td>
      <td>
        <KeyBadge apiKey={apiKey} nowMs={nowMs} />
      </td>
      <td>{usedMs === undefined ? <span class="quiet">Never</span> : <Time ms={usedMs} nowMs={nowMs} />}</td>
      <td>
        {isActive && (
          <div class="key-actions">
            <a class="button small" href={`${path}/${apiKey.id}/rotate`} aria-label={`Rotate ${apiKey.name}`}>
              Rotate
            </a>
            <a
              class="button small danger"
              href={`${path}/${apiKey.id}/deactivate`}
              aria-label={`Deactivate ${apiKey.name}`}
            >
              Deactivate
            </a>
          </div>
        )}
      </td>
    </tr>
  );
}

/** Design §5: which of the two keys of a rotation is still in use. */
function RotationNote({ list, apiKey, isActive }: { list: KeyList; apiKey: ApiKey; isActive: boolean }) {
  const { lastUsed, nowMs } = list;
  const successor = list.successors.get(apiKey.id);
  const predecessor = apiKey.successorOf === null ? undefined : list.predecessors.get(apiKey.successorOf);
  const usedMs = lastUsed[apiKey.id] ?? 0;
  return (
    <>
      {successor !== undefined && (
        <div class="quiet small">
          Replaced by <code class="nowrap">{successor.maskedKey}</code>
          {isActive &&
            (usedMs > Date.parse(successor.createdAt) ? (
              <strong class="warn-text"> · still in use</strong>
            ) : (
              " · not used since"
            ))}
        </div>
      )}
      {predecessor !== undefined && (
        <div class="quiet small">
          Replaces <code class="nowrap">{predecessor.maskedKey}</code>
          {isActive &&
            keyStatus(predecessor, nowMs) === "Active" &&
            lastUsed[apiKey.id] === undefined &&
            " · not in use yet"}
        </div>
      )}
    </>
  );
}
