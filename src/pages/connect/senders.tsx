/**
 * The settings of each kind of sender (spec §4, docs/senders.md), and a test call with its trace. The page of a new key
 * fills the full key in. Everywhere else a placeholder stands for it, until somebody types the key into the test call.
 */
import type { Child, PropsWithChildren } from "hono/jsx";
import {
  curlLine,
  fetchCall,
  pythonCall,
  webhooksOf,
  type Webhook,
  type WebhookKey,
} from "../../domain/webhook-calls.ts";
import { TextArea, TextField } from "../kit/forms.tsx";
import { CopyText, Fact, FactList, Notice, Panel } from "../kit/parts.tsx";

export const KEY_PLACEHOLDER = "YOUR_API_KEY";
export const SECRET_PLACEHOLDER = "YOUR_SHARED_SECRET";

export const SIGNAL_SENDERS = {
  segment: "Segment",
  rudderstack: "RudderStack",
  marketo: "Marketo",
  hubspot: "HubSpot",
  code: "Your own code",
} as const;

export const SENDERS = { ...SIGNAL_SENDERS, accounts: "Account data" } as const;

export type Sender = keyof typeof SENDERS;

export interface SetUp extends WebhookKey {
  origin: string;
  /** The shared secret or its placeholder; null: the key has none; undefined: unknown, because no key is chosen. */
  secret: string | null | undefined;
}

/** The event of the marketing template: a member status joined to a program name (spec §2.2), and a form for both. */
export interface Composer {
  status: string;
  program: string;
  /** Parameters that the form keeps. Undefined: without a form. */
  query?: Record<string, string>;
}

export const USUAL_EVENT: Composer = { status: "Registered", program: "Spring Webinar" };

export function SenderSteps({ sender, setUp, composer }: { sender: Sender; setUp: SetUp; composer: Composer }) {
  const webhook = `${setUp.origin}/api/signal-staging/webhook`;
  const sdk = { url: setUp.origin, path: `/api/signal-staging/webhook/${setUp.key}/batch` };
  const [first] = webhooksOf(setUp.origin, { ...setUp, endpointType: "product_org" });
  switch (sender) {
    case "segment":
      return (
        <DataPlatform id={sender} name="Segment" url={`${webhook}/${setUp.key}`} secret={setUp.secret}>
          {`new Analytics({ writeKey: "unused", host: "${sdk.url}", path: "${sdk.path}" })`}
        </DataPlatform>
      );
    case "rudderstack":
      return (
        <DataPlatform id={sender} name="RudderStack" url={`${webhook}/${setUp.key}`} secret={setUp.secret}>
          {`new RudderAnalytics("unused", { dataPlaneUrl: "${sdk.url}", path: "${sdk.path}" })`}
        </DataPlatform>
      );
    case "marketo":
      return <Marketing url={`${webhook}/${setUp.key}`} secret={setUp.secret} composer={composer} />;
    case "hubspot":
      return <CrmSuite url={`${webhook}/crm/${setUp.key}`} secret={setUp.secret} />;
    case "code":
      return (
        <OwnCode webhooks={webhooksOf(setUp.origin, { ...setUp, endpointType: "signal_staging" })} setUp={setUp} />
      );
    case "accounts":
      return <Accounts webhook={first} setUp={setUp} />;
  }
}

interface SenderProps {
  url: string;
  secret: SetUp["secret"];
}

/** @param props.children the line of code that sets up the server-side SDK. */
function DataPlatform({
  id,
  name,
  url,
  secret,
  children,
}: SenderProps & { id: string; name: string; children: string }) {
  return (
    <ol class="stack">
      <Step title={`Add a webhook destination in ${name}`}>
        <PostSettings id={`${id}-url`} url={url} secret={secret} />
        <p class="quiet small">Batching can be on or off.</p>
      </Step>
      <Step title="Or send from a server-side SDK">
        {typeof secret === "string" && (
          <Notice tone="warn">The SDKs cannot send a secret. Use a key without one.</Notice>
        )}
        <CopyText block id={`${id}-sdk`} label={`SDK set-up for ${name}`} text={children} />
        <p class="quiet small">The write key can be any text.</p>
      </Step>
      <Step title="Send identify calls with an email">
        <p class="quiet">
          They link a visitor's anonymous signals to the person. <code>identify</code>, <code>track</code> and{" "}
          <code>page</code> calls need no mapping.
        </p>
      </Step>
    </ol>
  );
}

function Marketing({ url, secret, composer }: SenderProps & { composer: Composer }) {
  const { status, program, query } = composer;
  return (
    <ol class="stack">
      <Step title="Create a webhook">
        <FactList>
          <Fact name="URL">
            <CopyText id="marketo-url" label="webhook URL" text={url} />
          </Fact>
          <Fact name="Request Type">POST</Fact>
          <Fact name="Request Token Encoding">JSON</Fact>
          <Fact name="Response Type">None</Fact>
          <SecretFact name="Custom header" secret={secret} />
        </FactList>
      </Step>
      <Step title="Paste the payload template">
        {query !== undefined && (
          <form method="get" class="stack tight">
            {Object.entries(query).map(([name, value]) => (
              <input type="hidden" name={name} value={value} />
            ))}
            <div class="pair">
              <TextField name="status" label="Member status" value={status} autocomplete="off" />
              <TextField name="program" label="Program name" value={program} autocomplete="off" />
            </div>
            <div class="row">
              <button>Update event</button>
            </div>
          </form>
        )}
        <CopyText block id="marketo-template" label="payload template" text={marketingTemplate(status, program)} />
        <p class="quiet small">Keep the tokens as they are, spaces included. The platform adds the quotes.</p>
      </Step>
      <Step title="Call the webhook in a campaign's flow">
        <p class="quiet">The same settings work for other marketing automation platforms.</p>
      </Step>
    </ol>
  );
}

/**
 * With Request Token Encoding JSON the platform puts quotes around a token's text. So tokens stand without quotes and
 * cannot be part of a text: the event is typed.
 */
function marketingTemplate(status: string, program: string): string {
  const event = [status.trim(), program.trim()].filter((part) => part !== "").join(" - ");
  return `{
  "email": {{lead.Email Address}},
  "event": ${JSON.stringify(event)},
  "source": "marketing-automation",
  "properties": {
    "program_name": {{program.Name}},
    "lead_id": {{lead.Id}},
    "first_name": {{lead.First Name}},
    "last_name": {{lead.Last Name}},
    "company": {{company.Company Name}},
    "title": {{lead.Job Title}}
  }
}`;
}

const CRM_BODY = {
  event: "Became Customer",
  email: "jane@example.com",
  properties: { first_name: "Jane", company: "Initech", lifecycle_stage: "customer" },
};

function CrmSuite({ url, secret }: SenderProps) {
  return (
    <ol class="stack">
      <Step title="Add a webhook action to a workflow">
        <PostSettings id="hubspot-url" url={url} secret={secret} />
      </Step>
      <Step title="Set the JSON body">
        <CopyText block id="hubspot-body" label="example body" text={JSON.stringify(CRM_BODY, null, 2)} />
        <p class="quiet small">
          <code>event</code> is a fixed text. Replace the other values with properties of the contact.
        </p>
      </Step>
      <Step title="Turn the workflow on">
        <p class="quiet">The same settings work for other CRM suites.</p>
      </Step>
    </ol>
  );
}

function OwnCode({ webhooks, setUp }: { webhooks: readonly [Webhook, ...Webhook[]]; setUp: SetUp }) {
  return (
    <ol class="stack">
      <Step title="Choose a URL">
        <FactList>
          {webhooks.map(({ id, label, note, url }) => (
            <Fact name={label}>
              <CopyText id={`url-${id}`} label={`URL: ${label}`} text={url} />
              <span class="hint">{note}</span>
            </Fact>
          ))}
        </FactList>
      </Step>
      <Step title="Post JSON">
        <Calls webhook={webhooks[0]} setUp={setUp} />
      </Step>
    </ol>
  );
}

function Accounts({ webhook, setUp }: { webhook: Webhook; setUp: SetUp }) {
  return (
    <ol class="stack">
      <Step title="Post to the URL of the key">
        <PostSettings id={`url-${webhook.id}`} url={webhook.url} secret={setUp.secret} />
      </Step>
      <Step title="Send the fields of the payload template">
        <CopyText block id="accounts-body" label="example body" text={JSON.stringify(webhook.body, null, 2)} />
        <p class="quiet small">
          Fields that are missing or <code>null</code> keep their value. Send several accounts as an array.
        </p>
      </Step>
      <Step title="Try it">
        <Calls webhook={webhook} setUp={setUp} />
      </Step>
    </ol>
  );
}

function Calls({ webhook, setUp: { secret = null } }: { webhook: Webhook; setUp: SetUp }) {
  return (
    <>
      <CopyText block id={`curl-${webhook.id}`} label="curl command" text={curlLine(webhook, secret)} />
      <details>
        <summary>JavaScript</summary>
        <CopyText block id={`fetch-${webhook.id}`} label="JavaScript call" text={fetchCall(webhook, secret)} />
      </details>
      <details>
        <summary>Python</summary>
        <CopyText block id={`python-${webhook.id}`} label="Python call" text={pythonCall(webhook, secret)} />
      </details>
      <p class="quiet small">
        202 means durably accepted. Any other answer says in <code>detail</code> how to fix the call.
      </p>
    </>
  );
}

function Step({ title, children }: PropsWithChildren<{ title: Child }>) {
  return (
    <li>
      <div class="stack tight">
        <h3>{title}</h3>
        {children}
      </div>
    </li>
  );
}

function PostSettings({ id, url, secret }: SenderProps & { id: string }) {
  return (
    <FactList>
      <Fact name="URL">
        <CopyText id={id} label="webhook URL" text={url} />
      </Fact>
      <Fact name="Method">POST</Fact>
      <Fact name="Content-Type">
        <code>application/json</code>
      </Fact>
      <SecretFact name="Header" secret={secret} />
    </FactList>
  );
}

function SecretFact({ name, secret }: { name: string; secret: SetUp["secret"] }) {
  if (secret === null) return <Fact name={name}>None: the key has no secret</Fact>;
  return (
    <Fact name={name}>
      <code>X-Api-Secret: {secret ?? SECRET_PLACEHOLDER}</code>
      {secret === undefined && " if the key has a secret"}
    </Fact>
  );
}

/**
 * A real call from the browser to the webhook. The full key goes from the page to the webhook and nowhere else.
 *
 * @param props.home the workspace's path, `/w/{slug}`.
 */
export function TestCall({ home, setUp }: { home: string; setUp: SetUp }) {
  const [webhook] = webhooksOf(setUp.origin, setUp);
  const { key, secret } = setUp;
  const noun = setUp.endpointType === "signal_staging" ? "signal" : "update";
  return (
    <div class="needs-script" id="test-call">
      <Panel title={`Send a test ${noun}`}>
        <form
          class="form"
          data-test-call={webhook.url}
          data-secret={secret === SECRET_PLACEHOLDER ? undefined : (secret ?? undefined)}
          data-signals={`${home}/signals/`}
        >
          <p class="quiet small">A real call: it counts as a signal and has its effects.</p>
          {key === KEY_PLACEHOLDER && (
            <TextField
              name="test-key"
              label="Full API key"
              hint="Stays in this browser. Also fills in the settings on this page."
              data-fill={KEY_PLACEHOLDER}
              autocomplete="off"
              spellcheck={false}
              placeholder="sk_…"
              required
            />
          )}
          {secret === SECRET_PLACEHOLDER && (
            <TextField
              name="test-secret"
              label="Shared secret"
              data-fill={SECRET_PLACEHOLDER}
              autocomplete="off"
              spellcheck={false}
              required
            />
          )}
          <TextArea
            name="test-body"
            label="Body"
            value={JSON.stringify(webhook.body, null, 2)}
            rows={8}
            class="mono"
            spellcheck={false}
          />
          <div class="row">
            <button>{`Send test ${noun}`}</button>
          </div>
          <div class="stack" role="status" data-answer />
        </form>
        <div id="trace" />
      </Panel>
    </div>
  );
}
