/** Settings › API Keys: the one page that shows a full key and its secret (spec §2.1, §3.1), and the one after it. */
import type { ApiKey } from "../../control/api-keys.ts";
import type { CreatedKey } from "../../control/new-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import { curlLine, webhooksOf } from "../../domain/webhook-calls.ts";
import { KeyCrumbs, KeySummary, LocalTime } from "./key-parts.tsx";
import { CopyText } from "../views/copy-text.tsx";
import { PageHead, Notice, Panel } from "../views/parts.tsx";
import { TestCall } from "../views/test-call-view.tsx";

interface CreatedProps {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  /** Path of the API keys, `/w/{slug}/settings/api-keys`. */
  path: string;
  origin: string;
  created: CreatedKey;
  /** The key that a rotation replaced, as it is now; null where the key is no successor. */
  replaced: ApiKey | null;
  nowMs: number;
}

export function KeyCreatedView({ home, path, origin, created, replaced, nowMs }: CreatedProps) {
  const { record, value, secret } = created;
  const webhooks = webhooksOf(origin, { ...record, key: value });
  return (
    <>
      <PageHead
        title={replaced === null ? "API key created" : "API key rotated"}
        crumbs={<KeyCrumbs path={path} />}
        actions={
          <>
            <a class="button primary" href={`${home}/connect?key=${record.id}`}>
              Connect a sender
            </a>
            <a class="button" href={path}>
              To the list
            </a>
          </>
        }
      >
        {record.name} · {ENDPOINT_LABEL[record.endpointType]}
      </PageHead>
      <Notice tone="warn" title="Copy it now: it will not be shown again.">
        <p>
          {secret === null
            ? "The full key stands on this page only. It is stored as a hash; reloading or coming back does not show it."
            : "The full key and the secret stand on this page only. They are stored as hashes; reloading or coming back does not show them."}{" "}
          If the key is lost, create a new one and deactivate this one.
        </p>
      </Notice>
      {replaced !== null && <Replaced replaced={replaced} nowMs={nowMs} />}
      <Panel>
        <h2>API key</h2>
        <CopyText id="new-key" label="API key" text={value} />
        {secret !== null && (
          <>
            <h2>Shared secret</h2>
            <CopyText id="new-secret" label="shared secret" text={secret} />
            <p class="quiet small">
              Every call must carry it in the header <code>X-Api-Secret</code>.
            </p>
          </>
        )}
      </Panel>
      <div class="columns wide">
        <Panel title={webhooks.length === 1 ? "Webhook URL" : "Webhook URLs"}>
          {webhooks.map((webhook, at) => (
            <section class="stack webhook" aria-label={webhook.label}>
              <div>
                <h3>{webhook.label}</h3>
                <p class="quiet small">{webhook.note}</p>
              </div>
              <CopyText id={`url-${webhook.id}`} label={`URL of ${webhook.label}`} text={webhook.url} />
              <details open={at === 0}>
                <summary>Call it with curl</summary>
                <CopyText
                  block
                  id={`curl-${webhook.id}`}
                  label={`curl line of ${webhook.label}`}
                  text={curlLine(webhook, secret)}
                />
              </details>
            </section>
          ))}
        </Panel>
        <TestCall
          home={home}
          webhook={webhooks[0]}
          placeholder={null}
          secret={secret === null ? null : { value: secret }}
        />
      </div>
    </>
  );
}

function Replaced({ replaced, nowMs }: { replaced: ApiKey; nowMs: number }) {
  return (
    <Notice title={<>It replaces {replaced.maskedKey}.</>}>
      {keyStatus(replaced, nowMs) === "Inactive" ? (
        <p>The old key has ended: no call with it is accepted any more.</p>
      ) : (
        <p>
          The old key goes on{" "}
          {replaced.endsAt === null ? (
            "for now"
          ) : (
            <>
              until <LocalTime iso={replaced.endsAt} />
            </>
          )}
          . Until then, put the new one everywhere the old one is. The list shows which of the two is still in use.
        </p>
      )}
    </Notice>
  );
}

interface MadeBeforeProps {
  path: string;
  apiKey: ApiKey;
  usedMs: number | undefined;
  nowMs: number;
}

/** The same form was sent twice: a reload, a way back, or a double click of which this is the second answer. */
export function KeyMadeBeforeView({ path, apiKey, usedMs, nowMs }: MadeBeforeProps) {
  return (
    <>
      <PageHead title="This key was created already" crumbs={<KeyCrumbs path={path} />}>
        The same form was sent before, so no second key was made.
      </PageHead>
      <Notice tone="warn" title="A full key is shown once, and that was in the first answer.">
        <p>
          If you have copied it, all is well. If you never saw it, for instance after a double click, nobody can have it
          any more: deactivate this key and create a new one. Rotating it with the overlap “Now” does both, and the new
          key has the same settings.
        </p>
      </Notice>
      <Panel>
        <KeySummary apiKey={apiKey} usedMs={usedMs} nowMs={nowMs} />
        <div class="row">
          <a class="button" href={path}>
            To the list
          </a>
          {keyStatus(apiKey, nowMs) === "Active" ? (
            <>
              <a class="button" href={`${path}/${apiKey.id}/rotate?overlap=none`}>
                Rotate this key
              </a>
              <a class="button danger" href={`${path}/${apiKey.id}/deactivate`}>
                Deactivate this key
              </a>
            </>
          ) : (
            <a class="button" href={`${path}/new`}>
              Create a new key
            </a>
          )}
        </div>
      </Panel>
    </>
  );
}
