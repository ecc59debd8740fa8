/** The one page that shows a full key and its secret (spec §2.1, §3.1), and the page after a form that was sent twice. */
import type { ApiKey } from "../../control/api-keys.ts";
import type { CreatedKey } from "../../control/new-keys.ts";
import { SENDERS, SenderSteps, SIGNAL_SENDERS, TestCall } from "../connect/senders.tsx";
import { ENDPOINT_LABEL } from "../copy.ts";
import { isActive, keyText, LocalTime } from "./key-parts.tsx";
import { LinkButton } from "../kit/actions.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { CopyText, Notice, Panel } from "../kit/parts.tsx";
import { page } from "../page.tsx";
import { type Ctx, workspacePath } from "../pages-env.ts";

/** Answers the post itself, because a redirect would have to store the key. @param replaced the rotated key. */
export function createdPage(c: Ctx, { record, value: key, secret }: CreatedKey, replaced: ApiKey | null) {
  const { id, name, endpointType, payloadTemplate } = record;
  const setUp = { origin: new URL(c.req.url).origin, key, secret, endpointType, payloadTemplate };
  const home = workspacePath(c);
  const actions = (
    <>
      <LinkButton href={sectionPath(c, "keys")} text="View all keys" />
      <LinkButton href={`${home}/connect?key=${id}`} text="Connect a sender" look="primary" />
    </>
  );
  return page(
    c,
    {
      section: "keys",
      title: replaced === null ? "API key created" : "API key rotated",
      crumbs: [],
      intro: `${name} · ${ENDPOINT_LABEL[endpointType]}`,
      actions,
      showsKey: true,
    },
    <>
      <Notice
        tone="warn"
        title={`Copy the ${secret === null ? "key" : "key and the secret"} now`}
        text={`This page shows ${secret === null ? "it" : "them"} once, and only a hash is stored. A lost key has to be rotated.`}
      />
      {replaced !== null && <Replaced apiKey={replaced} />}
      <Panel>
        <h2>API key</h2>
        <CopyText id="new-key" label="API key" text={key} />
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
          {endpointType === "product_org" ? (
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
    </>,
  );
}

function Replaced({ apiKey }: { apiKey: ApiKey }) {
  const works = apiKey.endsAt !== null && isActive(apiKey) && (
    <>
      The old key works until <LocalTime iso={apiKey.endsAt} />. The list shows which of the two is in use.
    </>
  );
  const text = works || "The old key has ended. Calls with it are rejected.";
  return <Notice title={`Replaces ${apiKey.maskedKey}`} text={text} />;
}

/** The answer to a form that was sent before: after a reload, a way back or a double click. */
export function madeBeforePage(c: Ctx, apiKey: ApiKey) {
  const path = sectionPath(c, "keys");
  return page(
    c,
    {
      section: "keys",
      title: "Key already created",
      heading: "This key was already created",
      crumbs: [],
      intro: keyText(apiKey, apiKey.id),
      status: 409,
    },
    <>
      <Notice
        tone="warn"
        title="The full key was in the first answer"
        text="No second key was created. If you did not copy the key, rotate it without an overlap. The new key has the same settings."
      />
      <div class="row">
        <LinkButton href={`${path}/${apiKey.id}/rotate?overlap=none`} text="Rotate key" />
        <LinkButton href={path} text="View all keys" />
      </div>
    </>,
  );
}
