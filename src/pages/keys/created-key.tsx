/** The one page that shows a full key and its secret (spec §2.1, §3.1), and the page after a form that was sent twice. */
import type { ApiKey } from "../../control/api-keys.ts";
import type { CreatedKey } from "../../control/new-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { SENDERS, SenderSteps, SIGNAL_SENDERS, TestCall, type SetUp } from "../connect/senders.tsx";
import { ENDPOINT_LABEL } from "../copy.ts";
import { keyText } from "../key-names.tsx";
import { CopyText, Notice, PageHead, Panel } from "../kit/parts.tsx";
import { page } from "../page.tsx";
import { workspacePath } from "../pages-env.ts";
import { keyCrumbs, type KeyContext, KEYS_PAGE, keysPath, LocalTime } from "./key-parts.tsx";

/** Answers the post itself, because a redirect would have to store the key. @param replaced the rotated key. */
export function createdPage(c: KeyContext, created: CreatedKey, replaced: ApiKey | null) {
  const title = replaced === null ? "API key created" : "API key rotated";
  const { endpointType, payloadTemplate } = created.record;
  const { value: key, secret } = created;
  const setUp = { origin: new URL(c.req.url).origin, key, secret, endpointType, payloadTemplate };
  const props = { title, home: workspacePath(c), path: keysPath(c), created, setUp, replaced, nowMs: Date.now() };
  return page(c, { ...KEYS_PAGE, title, showsKey: true }, <CreatedView {...props} />);
}

interface CreatedProps {
  title: string;
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  /** Path of the list. */
  path: string;
  created: CreatedKey;
  setUp: SetUp;
  replaced: ApiKey | null;
  nowMs: number;
}

function CreatedView({ title, home, path, created: { record, value, secret }, setUp, replaced, nowMs }: CreatedProps) {
  return (
    <>
      <PageHead
        title={title}
        crumbs={keyCrumbs(path)}
        actions={
          <>
            <a class="button" href={path}>
              View all keys
            </a>
            <a class="button primary" href={`${home}/connect?key=${record.id}`}>
              Connect a sender
            </a>
          </>
        }
      >
        {record.name} · {ENDPOINT_LABEL[record.endpointType]}
      </PageHead>
      <Notice tone="warn" title={`Copy the ${secret === null ? "key" : "key and the secret"} now`}>
        <p>
          This page shows {secret === null ? "it" : "them"} once, and only a hash is stored. A lost key has to be
          rotated.
        </p>
      </Notice>
      {replaced !== null && (
        <Notice title={`Replaces ${replaced.maskedKey}`}>
          {replaced.endsAt !== null && keyStatus(replaced, nowMs) === "Active" ? (
            <p>
              The old key works until <LocalTime iso={replaced.endsAt} />. The list shows which of the two is in use.
            </p>
          ) : (
            <p>The old key has ended. Calls with it are rejected.</p>
          )}
        </Notice>
      )}
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
      <div class="columns main-first">
        <Panel title="Connect a sender">
          {setUp.endpointType === "product_org" ? (
            <SenderSteps sender="accounts" setUp={setUp} />
          ) : (
            SIGNAL_SENDERS.map((sender) => (
              <details open={sender === "code"}>
                <summary>{SENDERS[sender]}</summary>
                <SenderSteps sender={sender} setUp={setUp} />
              </details>
            ))
          )}
        </Panel>
        <TestCall home={home} setUp={setUp} />
      </div>
    </>
  );
}

/** The answer to a form that was sent before: after a reload, a way back or a double click. */
export function madeBeforePage(c: KeyContext, apiKey: ApiKey) {
  const path = keysPath(c);
  return page(
    c,
    { ...KEYS_PAGE, title: "Key already created", status: 409 },
    <>
      <PageHead title="This key was already created" crumbs={keyCrumbs(path)}>
        {keyText(apiKey, apiKey.id)}
      </PageHead>
      <Notice tone="warn" title="The full key was in the first answer">
        <p>
          No second key was created. If you did not copy the key, rotate it without an overlap. The new key has the same
          settings.
        </p>
      </Notice>
      <div class="row">
        <a class="button" href={`${path}/${apiKey.id}/rotate?overlap=none`}>
          Rotate key
        </a>
        <a class="button" href={path}>
          View all keys
        </a>
      </div>
    </>,
  );
}
