/**
 * The settings of each kind of sender (spec §4, docs/senders.md), and a test call with its trace. The page of a new key
 * fills the full key in. Other pages show a placeholder until the user types the key into the test call.
 */
import type { PropsWithChildren } from "hono/jsx";
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
import { HiddenFields } from "../kit/actions.tsx";
import { TextArea, TextField } from "../kit/forms.tsx";
import { CopyText, Facts, Panel } from "../kit/parts.tsx";

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
  /** Parameters that the form for both keeps. Undefined: no form. */
  query?: Record<string, string>;
}

export const USUAL_EVENT: Composer = { status: "Registered", program: "Spring Webinar" };

/** A sentence, a text to copy, settings by name, or the form for the event. */
type Part = string | CopyPart | { settings: Record<string, string> } | Composer;

interface CopyPart {
  copy: string;
  label: string;
  id?: string;
  /** Summary of the text, which is folded. */
  folded?: string;
}
type Step = readonly [title: string, ...parts: Part[]];

interface Props {
  sender: Sender;
  setUp: SetUp;
  composer?: Composer;
}

export function SenderSteps(props: Props) {
  return (
    <ol class="stack">
      {stepsOf(props).map(([title, ...parts], step) => (
        <li>
          <div class="stack tight">
            <h3>{title}</h3>
            {parts.map((part, index) => (
              <StepPart part={part} id={`${props.sender}-${step + 1}-${index + 1}`} />
            ))}
          </div>
        </li>
      ))}
    </ol>
  );
}

function StepPart({ part, id }: { part: Part; id: string }) {
  if (typeof part === "string") return <p class="quiet small">{part}</p>;
  if ("copy" in part) {
    const { copy, label, folded } = part;
    const text = <CopyText id={part.id ?? id} label={label} text={copy} block={/[\s{]/.test(copy)} />;
    return folded === undefined ? text : <Folded summary={folded}>{text}</Folded>;
  }
  if ("program" in part) return <EventForm {...part} />;
  return <Facts of={Object.entries(part.settings)} />;
}

function Folded({ summary, children }: PropsWithChildren<{ summary: string }>) {
  return (
    <details>
      <summary class="small">{summary}</summary>
      {children}
    </details>
  );
}

function EventForm({ status, program, query = {} }: Composer) {
  return (
    <form method="get" class="stack tight">
      <HiddenFields fields={query} />
      <div class="pair">
        <TextField name="status" label="Member status" value={status} />
        <TextField name="program" label="Program name" value={program} />
      </div>
      <div class="row">
        <button>Update event</button>
      </div>
    </form>
  );
}

function stepsOf({ sender, setUp, composer = USUAL_EVENT }: Props): Step[] {
  const { origin, key, secret } = setUp;
  const signals = `${origin}/api/signal-staging/webhook`;
  const url = { copy: `${signals}/${key}`, label: "webhook URL" };
  const header = headerOf(secret);
  const post = { settings: { Method: "POST", "Content-Type": "application/json", Header: header } };
  const event = composedEvent(composer.status, composer.program);
  switch (sender) {
    case "segment":
    case "rudderstack":
      return [
        ["Add a webhook destination", url, post, "Batching can be on or off."],
        [
          "Or send from your server",
          ...(typeof secret === "string" ? ["SDKs cannot send the secret. Use a key without one."] : []),
          { copy: sdkLine(SENDERS[sender], origin, key), label: `${SENDERS[sender]} SDK code` },
          "The write key can be any text.",
        ],
        [
          "Send identify calls with an email",
          "They link a visitor's anonymous signals to the person. Track and page calls need no mapping.",
        ],
      ];
    case "marketo":
      return [
        [
          "Create a webhook",
          url,
          {
            settings: {
              "Request Type": "POST",
              "Request Token Encoding": "JSON",
              "Response Type": "None",
              "Custom header": header,
            },
          },
        ],
        [
          "Paste the payload template",
          ...(composer.query === undefined ? [] : [composer]),
          { copy: marketingTemplate(event), label: "payload template" },
          "Keep the tokens as they are, spaces included. The platform adds the quotes.",
        ],
        ["Call the webhook in a campaign's flow", "Other marketing automation platforms work the same way."],
      ];
    case "hubspot":
      return [
        ["Add a webhook action to a workflow", { ...url, copy: `${signals}/crm/${key}` }, post],
        [
          "Set the JSON body",
          { copy: JSON.stringify(CRM_BODY, null, 2), label: "example body" },
          "The event is a fixed text. Replace the other values with properties of the contact.",
        ],
        ["Turn the workflow on", "Other CRM suites work the same way."],
      ];
    case "code": {
      const webhooks = webhooksOf(origin, { ...setUp, endpointType: "signal_staging" });
      return [
        [
          "Post to one of these URLs",
          ...webhooks.flatMap((webhook) => [
            `${webhook.label}: ${webhook.note}`,
            urlOf(webhook),
            curlOf(webhook, secret),
          ]),
        ],
        ["Or start from code", ...codeOf(webhooks[0], secret)],
      ];
    }
    case "accounts": {
      const [webhook] = webhooksOf(origin, { ...setUp, endpointType: "product_org" });
      return [
        ["Post to the URL of the key", urlOf(webhook), post],
        [
          "Send the fields of the payload template",
          { copy: JSON.stringify(webhook.body, null, 2), label: "example body", id: "accounts-body" },
          "Fields that are missing or null keep their value. Send several accounts as an array.",
        ],
        ["Call it", curlOf(webhook, secret), ...codeOf(webhook, secret)],
      ];
    }
  }
}

function headerOf(secret: SetUp["secret"]): string {
  if (secret === null) return "None: the key has no secret";
  return secret === undefined
    ? `X-Api-Secret: ${SECRET_PLACEHOLDER}, if the key has a secret`
    : `X-Api-Secret: ${secret}`;
}

function urlOf({ id, label, url }: Webhook): Part {
  return { copy: url, label: `URL: ${label}`, id: `url-${id}` };
}

function curlOf(webhook: Webhook, secret: SetUp["secret"]): Part {
  const { id, label } = webhook;
  return { copy: curlLine(webhook, secret ?? null), label: `curl command: ${label}`, id: `curl-${id}`, folded: "curl" };
}

function codeOf(webhook: Webhook, secret: SetUp["secret"]): Part[] {
  return [
    { copy: fetchCall(webhook, secret ?? null), label: "JavaScript code", folded: "JavaScript" },
    { copy: pythonCall(webhook, secret ?? null), label: "Python code", folded: "Python" },
    "202 means durably accepted. Any other answer says in “detail” how to fix the call.",
  ];
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
              hint="Stays in this browser."
              data-fill={KEY_PLACEHOLDER}
              placeholder="sk_…"
              code
              required
            />
          )}
          {secret === SECRET_PLACEHOLDER && (
            <TextField name="test-secret" label="Shared secret" data-fill={SECRET_PLACEHOLDER} code required />
          )}
          <TextArea name="test-body" label="Body" value={JSON.stringify(webhook.body, null, 2)} rows={8} />
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
