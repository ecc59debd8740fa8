/** Connect: the steps of each kind of sender (spec §4). Full keys are not known here: a placeholder stands for them. */
import type { PropsWithChildren } from "hono/jsx";
import type { ApiKey } from "../../control/api-keys.ts";
import type { EndpointType } from "../../domain/signal/signal.ts";
import { composedEvent, marketingTemplate } from "./marketing-template.ts";
import { curlLine, fetchCall, webhooksOf, type Webhook } from "../../domain/webhook-calls.ts";
import { TextField } from "../views/fields.tsx";
import { CopyText } from "../views/copy-text.tsx";
import { Fact, FactList, Panel } from "../views/parts.tsx";

export const KEY_PLACEHOLDER = "YOUR_API_KEY";
export const SECRET_PLACEHOLDER = "YOUR_SHARED_SECRET";

/** What the event of the marketing template is made of. */
export interface Composed {
  status: string;
  program: string;
}

interface SetUp {
  origin: string;
  endpointType: EndpointType;
  payloadTemplate: ApiKey["payloadTemplate"];
  /** Whether calls carry a secret; null: not known here, because it is a matter of the key. */
  hasSecret: boolean | null;
  composed: Composed;
  /** Query fields that the form of the event sends along. */
  query: Record<string, string>;
}

/** @param setUp.children stands beside the code where there is room. */
export function SetUpView({ children, ...setUp }: PropsWithChildren<SetUp>) {
  const { origin, endpointType, payloadTemplate, hasSecret } = setUp;
  const webhooks = webhooksOf(origin, { key: KEY_PLACEHOLDER, endpointType, payloadTemplate });
  const [webhook] = webhooks;
  const secret = hasSecret === true ? SECRET_PLACEHOLDER : null;
  return (
    <>
      {endpointType === "signal_staging" ? (
        <div class="columns">
          <Marketing webhook={webhook} setUp={setUp} />
          <DataPlatform
            webhook={webhook}
            hasSecret={hasSecret}
            batch={webhooks.find(({ id }) => id === "batch")?.url}
          />
        </div>
      ) : (
        <AccountData webhook={webhook} hasSecret={hasSecret} />
      )}
      <div class="columns wide">
        <Panel title="Your own code" id="code">
          <h3>curl</h3>
          <CopyText block id="curl" label="curl line" text={curlLine(webhook, secret)} />
          <h3>JavaScript</h3>
          <CopyText block id="fetch" label="JavaScript call" text={fetchCall(webhook, secret)} />
          <p class="quiet small">
            202 means that it is durably accepted. Any other answer says in its <code>detail</code> what to do.
          </p>
        </Panel>
        {children}
      </div>
    </>
  );
}

function Marketing({ webhook, setUp }: { webhook: Webhook; setUp: SetUp }) {
  const { composed, query } = setUp;
  return (
    <Panel title="Marketing automation platform" id="marketing">
      <p class="quiet">Create a webhook with these settings, and call it in the flow of a campaign.</p>
      <FactList>
        <Fact name="Request Type">POST</Fact>
        <Fact name="Request Token Encoding">JSON</Fact>
        <Fact name="Response Type">None</Fact>
        <SecretFact name="Custom header" hasSecret={setUp.hasSecret} />
      </FactList>
      <h3>URL</h3>
      <CopyText id="marketing-url" label="webhook URL" text={webhook.url} />
      <h3>Event</h3>
      <form method="get" class="filters">
        {Object.entries(query).map(([name, value]) => (
          <input type="hidden" name={name} value={value} />
        ))}
        <TextField name="status" label="Member status" value={composed.status} autocomplete="off" />
        <TextField name="program" label="Program name" value={composed.program} autocomplete="off" />
        <button>Compose</button>
      </form>
      <h3>Payload template</h3>
      <CopyText
        block
        id="marketing-template"
        label="payload template"
        text={marketingTemplate(composedEvent(composed.status, composed.program))}
      />
      <p class="quiet small">
        Write the tokens exactly so, spaces included, and without quotes: with token encoding JSON the platform puts
        them there. Mapping rules match on the event, and on <code>properties.program_name</code> and the other
        properties.
      </p>
    </Panel>
  );
}

function DataPlatform({
  webhook,
  hasSecret,
  batch,
}: {
  webhook: Webhook;
  hasSecret: boolean | null;
  batch: string | undefined;
}) {
  return (
    <Panel title="Customer data platform" id="cdp">
      <p class="quiet">Add a webhook destination with these settings.</p>
      <PostFacts hasSecret={hasSecret} />
      <h3>URL</h3>
      <CopyText id="cdp-url" label="destination URL" text={webhook.url} />
      <p class="quiet small">
        The calls <code>identify</code>, <code>track</code> and <code>page</code> are recognised by themselves. Send{" "}
        <code>identify</code> calls with an email trait too: they tell whose the anonymous signals are.
      </p>
      {batch !== undefined && (
        <>
          <h3>Server-side SDKs</h3>
          <CopyText id="cdp-batch" label="batch URL" text={batch} />
          <p class="quiet small">They post batches: give them this address as host and path.</p>
        </>
      )}
    </Panel>
  );
}

function PostFacts({ hasSecret }: { hasSecret: boolean | null }) {
  return (
    <FactList>
      <Fact name="Method">POST</Fact>
      <Fact name="Content-Type">
        <code>application/json</code>
      </Fact>
      <SecretFact name="Header" hasSecret={hasSecret} />
    </FactList>
  );
}

function AccountData({ webhook, hasSecret }: { webhook: Webhook; hasSecret: boolean | null }) {
  return (
    <Panel title="Account data" id="accounts">
      <PostFacts hasSecret={hasSecret} />
      <h3>URL</h3>
      <CopyText id="accounts-url" label="webhook URL" text={webhook.url} />
      <h3>Example body</h3>
      <CopyText block id="accounts-body" label="example body" text={JSON.stringify(webhook.body, null, 2)} />
      <p class="quiet small">
        It is made from the key's payload template. What a payload leaves out, or sends as <code>null</code>, stays as
        it is; several accounts may come as an array.
      </p>
    </Panel>
  );
}

function SecretFact({ name, hasSecret }: { name: string; hasSecret: boolean | null }) {
  if (hasSecret === false) return <Fact name={name}>None needed: the key has no secret</Fact>;
  return (
    <Fact name={name}>
      <code>X-Api-Secret: {SECRET_PLACEHOLDER}</code>
      {hasSecret === null && " when the key has a secret"}
    </Fact>
  );
}
