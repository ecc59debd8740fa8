/** Connect: how to set up a sender, step by step (spec §4). Full keys are not known here: a placeholder stands for them. */
import type { ApiKey } from "../../control/keys.ts";
import type { EndpointType } from "../../domain/signal.ts";
import type { PageOf } from "../../store/protocol.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import { composedEvent, marketingTemplate } from "../marketing-template.ts";
import { curlLine, fetchCall, webhooksOf, type Webhook } from "../webhook.ts";
import { TextField } from "./fields.tsx";
import { Copy, Empty, Fact, Facts, Head, Notice, Pager, Panel, Time } from "./parts.tsx";

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
  /** Fields that the form of the event sends along. */
  query: Record<string, string>;
}

export interface ManagersConnect {
  /** `/w/{slug}`. */
  home: string;
  origin: string;
  query: Record<string, string>;
  active: PageOf<ApiKey>;
  /** Null: there is no active key. */
  selected: ApiKey | null;
  usedMs: number | undefined;
  composed: Composed;
  nowMs: number;
}

export function ManagersConnectView({ home, query, active, selected, usedMs, nowMs, ...rest }: ManagersConnect) {
  if (selected === null) {
    return (
      <>
        <Head title="Connect">How to set up a sender.</Head>
        <Panel>
          <Empty title="Create an API key first">
            <p>A sender posts to a URL with a key in it. With an active key, every step is shown here.</p>
            <a class="button primary" href={`${home}/settings/api-keys/new`}>
              Create API Key
            </a>
          </Empty>
        </Panel>
      </>
    );
  }
  const { id, name, maskedKey, hasSecret, endpointType, payloadTemplate } = selected;
  return (
    <>
      <Head title="Connect">How to set up a sender, with each active key.</Head>
      <Panel title="Key">
        <ul class="key-choice" aria-label="Active keys">
          {active.items.map((key) => (
            <li>
              <a href={`${home}/connect?key=${key.id}`} aria-current={key.id === id ? "true" : undefined}>
                <strong>{key.name}</strong> <code>{key.maskedKey}</code>{" "}
                <span class="quiet small">{ENDPOINT_LABEL[key.endpointType]}</span>
              </a>
            </li>
          ))}
        </ul>
        <Pager path={`${home}/connect`} query={query} next={active.next} />
        <FirstSignal home={home} usedMs={usedMs} nowMs={nowMs} endpointType={endpointType} />
        <p class="quiet small">
          Write the full key of {name} (<code>{maskedKey}</code>) in place of <code>{KEY_PLACEHOLDER}</code>
          {hasSecret && (
            <>
              {" "}
              and its secret in place of <code>{SECRET_PLACEHOLDER}</code>
            </>
          )}
          . It was shown once, right after it was created. If it is lost,{" "}
          <a href={`${home}/settings/api-keys/new`}>create a new key</a> and deactivate this one.
        </p>
      </Panel>
      <SetUpView {...rest} {...{ endpointType, payloadTemplate, hasSecret }} query={{ key: id }} />
    </>
  );
}

/** Taken anew by the script until something has come. */
function FirstSignal({
  home,
  usedMs,
  nowMs,
  endpointType,
}: Pick<ManagersConnect, "home" | "usedMs" | "nowMs"> & { endpointType: EndpointType }) {
  const isSignals = endpointType === "signal_staging";
  if (usedMs === undefined) {
    return (
      <div id="first-signal" data-refresh="3000" class="notice info" role="status">
        <span class="pulse">Waiting for the first {isSignals ? "signal" : "account update"} with this key …</span>
        <span class="no-script quiet small">Reload this page to look again.</span>
      </div>
    );
  }
  return (
    <div id="first-signal" class="notice good" role="status">
      <strong>
        Connected: the last call with this key came <Time ms={usedMs} nowMs={nowMs} />.
      </strong>
      <span>
        Find it in{" "}
        {isSignals ? <a href={`${home}/signals`}>the Signal Queue</a> : <a href={`${home}/accounts`}>Accounts</a>}, or,
        if it was refused, under <a href={`${home}/rejections`}>Rejections</a>.
      </span>
    </div>
  );
}

/** For members who may not manage keys: the same steps, and nothing of any key. */
export function MembersConnectView({
  origin,
  workspaceName,
  composed,
}: {
  origin: string;
  workspaceName: string;
  composed: Composed;
}) {
  return (
    <>
      <Head title="Connect">How to set up a sender.</Head>
      <Notice title="You need an API key.">
        <p>
          Only owners and admins can see or manage keys. Ask an owner or admin of {workspaceName} for one; they are
          listed under Members. Write it in place of <code>{KEY_PLACEHOLDER}</code>.
        </p>
      </Notice>
      <SetUpView
        {...{ origin, composed, endpointType: "signal_staging", payloadTemplate: null, hasSecret: null, query: {} }}
      />
      <Panel title="Account data" id="accounts">
        <p class="quiet">
          Plans, user counts, revenue and the like go to an address of their own, with a key of the type{" "}
          {ENDPOINT_LABEL.product_org}. The key's payload template says which part of the body fills what.
        </p>
        <Copy
          id="accounts-url"
          label="account data URL"
          text={webhooksOf(origin, { key: KEY_PLACEHOLDER, endpointType: "product_org", payloadTemplate: null })[0].url}
        />
      </Panel>
    </>
  );
}

function SetUpView(setUp: SetUp) {
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
      <Panel title="Your own code" id="code">
        <h3>curl</h3>
        <Copy block id="curl" label="curl line" text={curlLine(webhook, secret)} />
        <h3>JavaScript</h3>
        <Copy block id="fetch" label="JavaScript call" text={fetchCall(webhook, secret)} />
        <p class="quiet small">
          202 means that it is durably accepted. Any other answer says in its <code>detail</code> what to do.
        </p>
      </Panel>
    </>
  );
}

function Marketing({ webhook, setUp }: { webhook: Webhook; setUp: SetUp }) {
  const { composed, query } = setUp;
  return (
    <Panel title="Marketing automation platform" id="marketing">
      <p class="quiet">Create a webhook with these settings, and call it in the flow of a campaign.</p>
      <Facts>
        <Fact name="Request Type">POST</Fact>
        <Fact name="Request Token Encoding">JSON</Fact>
        <Fact name="Response Type">None</Fact>
        <SecretFact name="Custom header" hasSecret={setUp.hasSecret} />
      </Facts>
      <h3>URL</h3>
      <Copy id="marketing-url" label="webhook URL" text={webhook.url} />
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
      <Copy
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
      <Facts>
        <Fact name="Method">POST</Fact>
        <Fact name="Content-Type">
          <code>application/json</code>
        </Fact>
        <SecretFact name="Header" hasSecret={hasSecret} />
      </Facts>
      <h3>URL</h3>
      <Copy id="cdp-url" label="destination URL" text={webhook.url} />
      <p class="quiet small">
        The calls <code>identify</code>, <code>track</code> and <code>page</code> are recognised by themselves. Send{" "}
        <code>identify</code> calls with an email trait too: they tell whose the anonymous signals are.
      </p>
      {batch !== undefined && (
        <>
          <h3>Server-side SDKs</h3>
          <Copy id="cdp-batch" label="batch URL" text={batch} />
          <p class="quiet small">They post batches: give them this address as host and path.</p>
        </>
      )}
    </Panel>
  );
}

function AccountData({ webhook, hasSecret }: { webhook: Webhook; hasSecret: boolean | null }) {
  return (
    <Panel title="Account data" id="accounts">
      <Facts>
        <Fact name="Method">POST</Fact>
        <Fact name="Content-Type">
          <code>application/json</code>
        </Fact>
        <SecretFact name="Header" hasSecret={hasSecret} />
      </Facts>
      <h3>URL</h3>
      <Copy id="accounts-url" label="webhook URL" text={webhook.url} />
      <h3>Example body</h3>
      <Copy block id="accounts-body" label="example body" text={JSON.stringify(webhook.body, null, 2)} />
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
