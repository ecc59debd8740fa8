/**
 * The settings of each kind of sender (spec §4, docs/senders.md), and a test call with its trace. The page of a new key
 * fills the full key in. Elsewhere a placeholder stands for it, until somebody types the key into the test call.
 */
import type { Child } from "hono/jsx";
import {
  composedEvent,
  CRM_BODY,
  curlLine,
  fetchCall,
  marketingTemplate,
  pythonCall,
  sdkLine,
  webhooksOf,
  type Webhook,
  type WebhookKey,
} from "../../domain/webhook-calls.ts";
import { TextArea, TextField } from "../kit/forms.tsx";
import { CopyText, Fact, FactList, Notice, Panel } from "../kit/parts.tsx";

export const KEY_PLACEHOLDER = "YOUR_API_KEY";
export const SECRET_PLACEHOLDER = "YOUR_SHARED_SECRET";

export const SENDERS = {
  segment: "Segment",
  rudderstack: "RudderStack",
  marketo: "Marketo",
  hubspot: "HubSpot",
  code: "Your own code",
  accounts: "Account data",
} as const;

export type Sender = keyof typeof SENDERS;

export const SIGNAL_SENDERS = ["segment", "rudderstack", "marketo", "hubspot", "code"] as const satisfies Sender[];

export interface SetUp extends WebhookKey {
  origin: string;
  /** The shared secret or its placeholder; null: the key has none; undefined: unknown, because no key is chosen. */
  secret: string | null | undefined;
}

/** Both parts of the event in the marketing template (spec §2.2). */
export interface Composer {
  status: string;
  program: string;
  /** Parameters that the form for both keeps; undefined: without a form. */
  query?: Record<string, string>;
}

export const USUAL_EVENT: Composer = { status: "Registered", program: "Spring Webinar" };

interface Props {
  sender: Sender;
  setUp: SetUp;
  composer?: Composer;
}

export function SenderSteps(props: Props) {
  return (
    <ol class="stack">
      {stepsOf(props).map(([title, content]) => (
        <li>
          <div class="stack tight">
            <h3>{title}</h3>
            {content}
          </div>
        </li>
      ))}
    </ol>
  );
}

type Step = readonly [title: string, content: Child];

function stepsOf({ sender, setUp, composer = USUAL_EVENT }: Props): Step[] {
  const { origin, key, secret } = setUp;
  const url = `${origin}/api/signal-staging/webhook/${key}`;
  switch (sender) {
    case "segment":
    case "rudderstack":
      return dataPlatform({ sender, setUp }, url);
    case "marketo":
      return marketing(url, secret, composer);
    case "hubspot":
      return [
        [
          "Add a webhook action to a workflow",
          <PostSettings id="hubspot-url" url={`${origin}/api/signal-staging/webhook/crm/${key}`} secret={secret} />,
        ],
        [
          "Set the JSON body",
          <>
            <Code id="hubspot-body" label="example body" text={JSON.stringify(CRM_BODY, null, 2)} />
            <Hint>
              <code>event</code> is a fixed text. Replace the other values with properties of the contact.
            </Hint>
          </>,
        ],
        ["Turn the workflow on", <Hint>Other CRM suites work the same way.</Hint>],
      ];
    case "code":
      return ownCode(setUp);
    case "accounts":
      return accounts(setUp);
  }
}

function dataPlatform({ sender, setUp }: Props, url: string): Step[] {
  const name = sender === "segment" ? "Segment" : "RudderStack";
  return [
    [
      `Add a webhook destination in ${name}`,
      <>
        <PostSettings id={`${sender}-url`} url={url} secret={setUp.secret} />
        <Hint>Batching can be on or off.</Hint>
      </>,
    ],
    [
      "Or send from a server-side SDK",
      <>
        {typeof setUp.secret === "string" && (
          <Notice tone="warn">The SDKs cannot send a secret. Use a key without one.</Notice>
        )}
        <Code id={`${sender}-sdk`} label={`${name} SDK`} text={sdkLine(name, setUp.origin, setUp.key)} />
        <Hint>The write key can be any text.</Hint>
      </>,
    ],
    [
      "Send identify calls with an email",
      <Hint>
        They link a visitor's anonymous signals to the person. <code>track</code> and <code>page</code> calls need no
        mapping.
      </Hint>,
    ],
  ];
}

function marketing(url: string, secret: SetUp["secret"], { status, program, query }: Composer): Step[] {
  return [
    [
      "Create a webhook",
      <>
        <CopyText id="marketo-url" label="webhook URL" text={url} />
        <FactList>
          <Fact name="Request Type">POST</Fact>
          <Fact name="Request Token Encoding">JSON</Fact>
          <Fact name="Response Type">None</Fact>
          <SecretFact name="Custom header" secret={secret} />
        </FactList>
      </>,
    ],
    [
      "Paste the payload template",
      <>
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
        <Code id="marketo-template" label="template" text={marketingTemplate(composedEvent(status, program))} />
        <Hint>Keep the tokens as they are, spaces included. The platform adds the quotes.</Hint>
      </>,
    ],
    ["Call the webhook in a campaign's flow", <Hint>Other marketing automation platforms work the same way.</Hint>],
  ];
}

function ownCode(setUp: SetUp): Step[] {
  const webhooks = webhooksOf(setUp.origin, { ...setUp, endpointType: "signal_staging" });
  return [
    [
      "Choose a URL",
      webhooks.map(({ id, label, note, url }) => (
        <>
          <span>
            {label} <span class="hint">{note}</span>
          </span>
          <CopyText id={`url-${id}`} label={`URL: ${label}`} text={url} />
        </>
      )),
    ],
    ["Post JSON", <Calls webhook={webhooks[0]} secret={setUp.secret} />],
  ];
}

function accounts(setUp: SetUp): Step[] {
  const [webhook] = webhooksOf(setUp.origin, { ...setUp, endpointType: "product_org" });
  return [
    ["Post to the URL of the key", <PostSettings id={`url-${webhook.id}`} url={webhook.url} secret={setUp.secret} />],
    [
      "Send the fields of the payload template",
      <>
        <Code id="accounts-body" label="example body" text={JSON.stringify(webhook.body, null, 2)} />
        <Hint>
          Fields that are missing or <code>null</code> keep their value. Send several accounts as an array.
        </Hint>
      </>,
    ],
    ["Call it", <Calls webhook={webhook} secret={setUp.secret} />],
  ];
}

function Calls({ webhook, secret = null }: { webhook: Webhook; secret: SetUp["secret"] }) {
  return (
    <>
      <Code id={`curl-${webhook.id}`} label="curl command" text={curlLine(webhook, secret)} />
      {(
        [
          ["JavaScript", fetchCall],
          ["Python", pythonCall],
        ] as const
      ).map(([language, callIn]) => (
        <details>
          <summary>{language}</summary>
          <Code id={`${language}-${webhook.id}`} label={`${language} code`} text={callIn(webhook, secret)} />
        </details>
      ))}
      <Hint>
        202 means durably accepted. Any other answer says in <code>detail</code> how to fix the call.
      </Hint>
    </>
  );
}

function Code(props: { id: string; label: string; text: string }) {
  return <CopyText block {...props} />;
}

function Hint({ children }: { children: Child }) {
  return <p class="quiet small">{children}</p>;
}

function PostSettings({ id, url, secret }: { id: string; url: string; secret: SetUp["secret"] }) {
  return (
    <>
      <CopyText id={id} label="webhook URL" text={url} />
      <FactList>
        <Fact name="Method">POST</Fact>
        <Fact name="Content-Type">
          <code>application/json</code>
        </Fact>
        <SecretFact name="Header" secret={secret} />
      </FactList>
    </>
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
  const text = { autocomplete: "off", spellcheck: false, required: true };
  return (
    <div class="needs-script" id="test-call">
      <Panel title={`Send a test ${noun}`}>
        <form
          class="form"
          data-test-call={webhook.url}
          data-secret={secret === SECRET_PLACEHOLDER ? undefined : (secret ?? undefined)}
          data-signals={`${home}/signals/`}
        >
          <Hint>A real call: it counts as a signal and has its effects.</Hint>
          {key === KEY_PLACEHOLDER && (
            <TextField
              name="test-key"
              label="Full API key"
              hint="Stays in this browser."
              data-fill={KEY_PLACEHOLDER}
              placeholder="sk_…"
              {...text}
            />
          )}
          {secret === SECRET_PLACEHOLDER && (
            <TextField name="test-secret" label="Shared secret" data-fill={SECRET_PLACEHOLDER} {...text} />
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
