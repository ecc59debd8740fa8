/**
 * Connect: how to set up each kind of sender (spec §4, docs/senders.md), and a test call with its trace. The page of a new key
 * fills the full key in. Other pages show a placeholder until the user types the key into the test call. Members see the
 * steps, and no keys (§5.6).
 */
import type { Child } from "hono/jsx";
import { findKey, listKeys, type ApiKey } from "../../d1/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import type { RejectionEntry } from "../../domain/keys/rejection.ts";
import { canManage } from "../../domain/keys/role.ts";
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
import { parseFormBody } from "../../domain/template/form-body.ts";
import { REJECTIONS } from "../../http/rejection-table.ts";
import type { Preset } from "../../presets/preset.ts";
import { presetAddress, presetNamed, PRESETS } from "../../presets/presets.ts";
import { WORKSPACE_MAX_ACTIVE_KEYS } from "../../limits.ts";
import type { KeyCalls } from "../../quota/protocol.ts";
import { CAUSE_COPY } from "../copy.ts";
import { keyText } from "./key-parts.tsx";
import { AboutPreset, presetOfTemplate } from "./template-form.tsx";
import { HiddenFields, LinkButton, SelectField, TextArea, TextField } from "../kit/forms.tsx";
import { counted } from "../kit/format.ts";
import { sectionPath } from "../kit/layout.tsx";
import { ListAddress } from "../kit/list.tsx";
import { CopyText, Empty, ValueList, Notice, Panel, Tabs, Time, WithCode } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { counterOf, type Ctx, pages, workspacePath, withQuery } from "../pages-env.ts";

export const connectPages = pages.createApp().get("/", async (c) => {
  const chosen = canManage(c.get("role")) ? await chosenKey(c) : null;
  if (chosen instanceof Response) return chosen;
  const { status = EXAMPLE_EVENT.status, program = EXAMPLE_EVENT.program } = c.req.query();
  const list = new ListAddress(sectionPath(c, "connect"), c.req.query());
  const ownPreset = presetOfTemplate(chosen?.apiKey.payloadTemplate ?? null);
  const asked = list.option<Sender>("sender", SENDERS, ownPreset === undefined ? "segment" : "webhooks");
  const preset = presetNamed(c.req.query("preset") ?? "") ?? ownPreset;
  const [home, { origin }] = [workspacePath(c), new URL(c.req.url)];
  const isAccounts = chosen?.apiKey.endpointType === "product_org";
  const sender = isAccounts ? "accounts" : chosen !== null && asked === "accounts" ? "segment" : asked;
  const senders: readonly Sender[] =
    chosen === null ? [...SIGNAL_SENDERS, "accounts"] : isAccounts ? [] : SIGNAL_SENDERS;
  const query: Record<string, string> = chosen === null ? {} : { key: chosen.apiKey.id };
  const setup = setupOf(origin, chosen?.apiKey);
  const isWebhooks = sender === "webhooks";
  const tabs = senders.map((name) => ({
    href: withQuery(list.path, { ...query, sender: name }),
    text: SENDERS[name],
    current: name === sender,
  }));
  return page(
    c,
    {
      ...CONNECT_PAGE,
      intro: "Settings for each sender, and a test call.",
      actions: <a href="/docs/senders">API documentation</a>,
    },
    chosen === null ? (
      <Notice
        title="You need an API key"
        text={`Only owners and admins see keys. Ask an owner or admin of ${c.get("workspace").name} for one.`}
      />
    ) : (
      <KeyChoice home={home} sender={sender} {...chosen} />
    ),
    tabs.length > 0 && <Tabs label="Senders" tabs={tabs} />,
    <div class="columns main-first">
      <Panel title={isWebhooks ? "Webhooks of senders by name" : SENDERS[sender]}>
        {isWebhooks && <PresetChoice home={home} query={query} preset={preset} />}
        {isWebhooks && preset !== undefined && chosen !== null && (
          <KeyForPreset home={home} preset={preset} isReady={ownPreset?.id === preset.id} apiKey={chosen.apiKey} />
        )}
        <p class="quiet">
          Replace <strong>{KEY_PLACEHOLDER}</strong> with the full key
          {chosen !== null && (
            <>
              , or enter it in the test call to fill it in. If it is lost,{" "}
              <a href={`${home}/settings/api-keys/${chosen.apiKey.id}/rotate`}>rotate the key</a>
            </>
          )}
          .
        </p>
        <OwnBodyNote setup={setup} />
        <SenderSteps
          sender={sender}
          setup={setup}
          preset={preset}
          eventParts={{ status, program, query: { ...query, sender } }}
        />
      </Panel>
      {chosen !== null && <TestCall home={home} setup={setup} />}
    </div>,
  );
});

const CONNECT_PAGE = { section: "connect", title: "Connect" } as const;

/** The senders whose webhooks a template maps. */
function PresetChoice({
  home,
  query,
  preset,
}: {
  home: string;
  query: Record<string, string>;
  preset?: Preset | undefined;
}) {
  const options = PRESETS.map(({ id, name }) => [id, name] as const);
  return (
    <form method="get" class="row" action={`${home}/connect`}>
      <HiddenFields fields={{ ...query, sender: "webhooks" }} />
      <SelectField
        name="preset"
        label="Sender"
        value={preset?.id ?? ""}
        options={preset === undefined ? [["", "Choose …"], ...options] : options}
        press="#show-sender"
      />
      <button id="show-sender" class="no-script">
        Use this sender
      </button>
    </form>
  );
}

/** What the key needs, so that it understands the sender. */
function KeyForPreset({
  home,
  preset,
  isReady,
  apiKey,
}: {
  home: string;
  preset: Preset;
  isReady: boolean;
  apiKey: ApiKey;
}) {
  const keys = `${home}/settings/api-keys`;
  if (isReady) return <Notice tone="good" title={`This key has the template of ${preset.name}`} />;
  return (
    <Notice tone="warn" title={`This key does not have the template of ${preset.name} yet`}>
      <p>The template says where the webhooks hold the event and the person.</p>
      <div class="row">
        <LinkButton href={`${keys}/new?sender=${preset.id}`} text={`Create a key for ${preset.name}`} look="primary" />
        {apiKey.endpointType === "signal_staging" && (
          <LinkButton href={`${keys}/${apiKey.id}/template?sender=${preset.id}`} text="Set it for this key" />
        )}
      </div>
    </Notice>
  );
}

interface ChosenKey {
  apiKey: ApiKey;
  keys: readonly ApiKey[];
  calls: KeyCalls;
}

async function chosenKey(c: Ctx): Promise<ChosenKey | Response> {
  const [db, { id }, nowMs] = [c.get("db"), c.get("workspace"), Date.now()];
  const keyId = c.req.query("key");
  const [{ items }, asked] = await Promise.all([
    listKeys(db, id, { cursor: null, limit: WORKSPACE_MAX_ACTIVE_KEYS }, nowMs),
    keyId === undefined ? null : findKey(db, id, keyId),
  ]);
  if (keyId !== undefined && asked === null) return notFoundPage(c, "key");
  if (asked !== null && keyStatus(asked, nowMs) === "Inactive") return c.redirect(sectionPath(c, "connect"), 303);
  // A key of account data has none of the senders, so it opens only where it is asked for or no other key exists.
  const wanted = c.req.query("sender") === "accounts" ? "product_org" : "signal_staging";
  const apiKey = asked ?? items.find(({ endpointType }) => endpointType === wanted) ?? items[0];
  if (apiKey === undefined) {
    const create = (
      <Empty title="Create an API key first" text="A sender posts to a URL that contains a key.">
        <LinkButton href={`${sectionPath(c, "keys")}/new`} text="Create API key" look="primary" />
      </Empty>
    );
    return page(c, CONNECT_PAGE, create);
  }
  return { apiKey, keys: items, calls: await counterOf(c).keyCalls(apiKey.id) };
}

function setupOf(origin: string, apiKey: ApiKey | undefined): Setup {
  const { endpointType = "signal_staging", payloadTemplate = null, hasSecret } = apiKey ?? {};
  const secret = hasSecret === undefined ? undefined : hasSecret ? SECRET_PLACEHOLDER : null;
  return { origin, key: KEY_PLACEHOLDER, endpointType, payloadTemplate, secret };
}

function KeyChoice({ home, sender, apiKey, keys, calls }: ChosenKey & { home: string; sender: Sender }) {
  return (
    <>
      <form method="get" class="row" action={`${home}/connect`}>
        <HiddenFields fields={{ sender }} />
        <SelectField
          name="key"
          label="API key"
          value={apiKey.id}
          options={keys.map((key) => [key.id, keyText(key, key.id)] as const)}
        />
        {keys.length > 1 && <button>Use this key</button>}
      </form>
      <FirstCall home={home} apiKey={apiKey} calls={calls} />
    </>
  );
}

type FirstCallProps = Pick<ChosenKey, "apiKey" | "calls"> & { home: string };

/** Refreshed by the script until the first accepted call. */
function FirstCall({ home, apiKey: { id, endpointType }, calls: { acceptedMs, rejections } }: FirstCallProps) {
  const [noun, section] = endpointType === "signal_staging" ? ["signal", "signals"] : ["account update", "accounts"];
  const since = rejections.filter(({ lastAtMs }) => lastAtMs > (acceptedMs ?? 0));
  const [latest] = since;
  const viewRejections = <a href={`${home}/rejections?key=${id}`}>View rejections</a>;
  return (
    <div id="first-signal" {...(acceptedMs === null ? { "data-refresh": "3000" } : {})}>
      {acceptedMs !== null ? (
        <Notice
          tone={latest === undefined ? "good" : "warn"}
          title={latest === undefined ? "Connected" : `The latest call was rejected: ${reasonsOf([latest])}`}
        >
          {latest !== undefined && (
            <p>
              {since.length > 1 && `Rejected since the last accepted call: ${reasonsOf(since)}. `}
              {viewRejections}
            </p>
          )}
          <p>
            Last accepted call <Time ms={acceptedMs} />. <a href={`${home}/${section}`}>View {section}</a>
          </p>
        </Notice>
      ) : latest !== undefined ? (
        <Notice tone="warn" title={`${counted(callsOf(since), "call")} rejected: ${reasonsOf(since)}`}>
          <p>
            The last was <Time ms={latest.lastAtMs} />. {viewRejections}
          </p>
        </Notice>
      ) : (
        <Notice>
          <span class="pulse">Waiting for the first {noun} with this key …</span>
          <span class="no-script quiet small">Reload this page to check again.</span>
        </Notice>
      )}
    </div>
  );
}

function callsOf(rejections: readonly RejectionEntry[]): number {
  return rejections.reduce((sum, { calls }) => sum + calls, 0);
}

function reasonsOf(rejections: readonly RejectionEntry[]): string {
  const reasons = rejections.map(({ code, cause }) =>
    cause === null ? REJECTIONS[code].label : CAUSE_COPY[cause].replace(/\.$/, ""),
  );
  return [...new Set(reasons)].join("; ");
}

export const KEY_PLACEHOLDER = "YOUR_API_KEY";
export const SECRET_PLACEHOLDER = "YOUR_SHARED_SECRET";

export const SENDERS = {
  segment: "Segment",
  rudderstack: "RudderStack",
  marketo: "Marketo",
  hubspot: "HubSpot",
  webhooks: "More senders",
  code: "Your own code",
  accounts: "Account data",
} as const;

type Sender = keyof typeof SENDERS;

export const SIGNAL_SENDERS = [
  "segment",
  "rudderstack",
  "marketo",
  "hubspot",
  "webhooks",
  "code",
] as const satisfies Sender[];

interface Setup extends WebhookKey {
  origin: string;
  /** The shared secret or its placeholder; null: the key has none; undefined: unknown, because no key is chosen. */
  secret: string | null | undefined;
}

/** Both parts of the event in the marketing template (spec §2.2). */
interface EventParts {
  status: string;
  program: string;
  /** Parameters that the form for both keeps. Undefined: no form. */
  query?: Record<string, string>;
}

const EXAMPLE_EVENT: EventParts = { status: "Registered", program: "Spring Webinar" };

type Part =
  | string
  | CopyPart
  | { settings: Record<string, string> }
  | EventParts
  | { list: readonly string[] }
  | { about: Preset };

interface CopyPart {
  copy: string;
  label: string;
  id?: string;
  folded?: string;
}
type Step = readonly [title: string, ...parts: Part[]];

interface Props {
  sender: Sender;
  setup: Setup;
  /** The chosen one of the senders by name. */
  preset?: Preset | undefined;
  eventParts?: EventParts;
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

/** Whether the key reads its signals by a template that is of no sender by name, so that no example body is known to fit. */
function hasOwnTemplate({ endpointType, payloadTemplate }: Setup): boolean {
  return (
    endpointType === "signal_staging" && payloadTemplate !== null && presetOfTemplate(payloadTemplate) === undefined
  );
}

function OwnBodyNote({ setup }: { setup: Setup }) {
  if (!hasOwnTemplate(setup)) return <></>;
  return (
    <p class="quiet">
      This key reads bodies by its payload template. Replace the example body with one that its sender posts.
    </p>
  );
}

interface CodeTabsProps {
  setup: Setup;
}

/** A new key's ways to send: curl first, then code, then each sender by name. The tabs are radio buttons, so they need no script. */
export function CodeTabs({ setup }: CodeTabsProps) {
  const isAccounts = setup.endpointType === "product_org";
  const preset = presetOfTemplate(setup.payloadTemplate);
  const [webhook, ...others] = preset === undefined ? webhooksOf(setup.origin, setup) : [presetWebhook(preset, setup)];
  const { secret = null } = setup;
  const folded = (name: string, part: Part): Part =>
    typeof part === "object" && "copy" in part ? withoutFold(part, name) : part;
  const code = codeOf(webhook, secret);
  const parts = (of: readonly Part[], id: string) =>
    of.map((part, index) => <StepPart part={part} id={`${id}-${index}`} />);
  const curl = [webhook, ...others].map((each) => (
    <div class="stack tight">
      <h3>{each.label}</h3>
      {parts([each.note, urlOf(each), folded("curl", curlOf(each, secret))], `tab-${each.id}`)}
    </div>
  ));
  const named = preset !== undefined && <SenderSteps sender="webhooks" setup={setup} preset={preset} />;
  const tabs: (readonly [name: string, content: Child])[] = [
    ...(preset === undefined ? [] : [[preset.name, named] as const]),
    ["curl", curl],
    [
      "Node",
      parts(
        code.slice(0, 1).map((part) => folded("Node", part)),
        "tab-node",
      ),
    ],
    [
      "Python",
      parts(
        code.slice(1, 2).map((part) => folded("Python", part)),
        "tab-python",
      ),
    ],
    ...(isAccounts || preset !== undefined || hasOwnTemplate(setup)
      ? []
      : SIGNAL_SENDERS.filter((name) => name !== "code" && name !== "webhooks")
    ).map((sender) => [SENDERS[sender], <SenderSteps sender={sender} setup={setup} />] as const),
  ];
  return (
    <div class="code-tabs">
      <OwnBodyNote setup={setup} />
      <div class="tabs" role="radiogroup" aria-label="Senders">
        {tabs.map(([name], index) => (
          <label>
            <input type="radio" name="code-tab" value={index} checked={index === 0} />
            {name}
          </label>
        ))}
      </div>
      {tabs.map(([, content], index) => (
        <div class="stack" data-tab={index}>
          {content}
        </div>
      ))}
    </div>
  );
}

function withoutFold({ copy, label, id }: CopyPart, name: string): CopyPart {
  return { copy, label: `${label} (${name})`, ...(id !== undefined && { id }) };
}

function StepPart({ part, id }: { part: Part; id: string }) {
  if (typeof part === "string") return <p class="quiet small">{part}</p>;
  if ("copy" in part) {
    const { copy, label, folded } = part;
    const text = <CopyText id={part.id ?? id} label={label} text={copy} block={/[\s{]/.test(copy)} />;
    if (folded === undefined) return text;
    return (
      <details>
        <summary class="small">{folded}</summary>
        {text}
      </details>
    );
  }
  if ("program" in part) return <EventForm {...part} />;
  if ("about" in part) return <AboutPreset preset={part.about} />;
  if ("list" in part) {
    return (
      <ul>
        {part.list.map((text) => (
          <li>
            <WithCode text={text} />
          </li>
        ))}
      </ul>
    );
  }
  return <ValueList of={Object.entries(part.settings)} />;
}

function EventForm({ status, program, query = {} }: EventParts) {
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

function stepsOf({ sender, setup, preset, eventParts = EXAMPLE_EVENT }: Props): Step[] {
  const { origin, key, secret } = setup;
  const signals = `${origin}/api/signal-staging/webhook`;
  const url = { copy: `${signals}/${key}`, label: "webhook URL" };
  const header = headerOf(secret);
  const post = { settings: { Method: "POST", "Content-Type": "application/json", Header: header } };
  const event = composedEvent(eventParts.status, eventParts.program);
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
          ...(eventParts.query === undefined ? [] : [eventParts]),
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
    case "webhooks":
      return preset === undefined ? [] : presetSteps(preset, setup);
    case "code": {
      const webhooks = webhooksOf(origin, { ...setup, endpointType: "signal_staging" });
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
      const [webhook] = webhooksOf(origin, { ...setup, endpointType: "product_org" });
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

/** The address of a sender by name, with a body of its own. */
function presetWebhook(preset: Preset, { origin, key }: Setup): Webhook {
  const { name, sample } = preset;
  const form = "form" in sample ? parseFormBody(sample.form) : null;
  const body = form === null ? "body" in sample && sample.body : form.ok ? form.value : {};
  return {
    id: "source",
    label: `A webhook of ${name}`,
    note: "With the sample of its documentation.",
    url: `${origin}${presetAddress(preset, key)}`,
    body,
    ...(sample.headers !== undefined && { headers: sample.headers }),
  };
}

function presetSteps(preset: Preset, setup: Setup): Step[] {
  const { secret } = setup;
  const { url } = presetWebhook(preset, setup);
  const name = typeof secret === "string" ? secret : SECRET_PLACEHOLDER;
  const withHeader: Step = [
    "Send the shared secret",
    { settings: { Header: `X-Api-Secret: ${name}` } },
    `If ${preset.name} cannot send a header of your own, use a key without a secret.`,
  ];
  return [
    [`Give ${preset.name} this address`, { copy: url, label: "address of the key", id: "url-preset" }],
    [`Set it up at ${preset.name}`, { list: preset.setUp }, `A check of the address is answered, and counts nothing.`],
    ...(secret === null ? [] : [withHeader]),
    [
      "What arrives",
      { about: preset },
      ...(preset.answer === 200 ? ["Success is answered with 200 at this address."] : []),
    ],
  ];
}

function headerOf(secret: Setup["secret"]): string {
  if (secret === null) return "None: the key has no secret";
  return secret === undefined
    ? `X-Api-Secret: ${SECRET_PLACEHOLDER}, if the key has a secret`
    : `X-Api-Secret: ${secret}`;
}

function urlOf({ id, label, url }: Webhook): Part {
  return { copy: url, label: `URL: ${label}`, id: `url-${id}` };
}

function curlOf(webhook: Webhook, secret: Setup["secret"]): Part {
  const { id, label } = webhook;
  return { copy: curlLine(webhook, secret ?? null), label: `curl command: ${label}`, id: `curl-${id}`, folded: "curl" };
}

function codeOf(webhook: Webhook, secret: Setup["secret"]): Part[] {
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
export function TestCall({ home, setup }: { home: string; setup: Setup }) {
  const { key, secret } = setup;
  const preset = presetOfTemplate(setup.payloadTemplate);
  const [webhook] = preset === undefined ? webhooksOf(setup.origin, setup) : [presetWebhook(preset, setup)];
  const noun = setup.endpointType === "signal_staging" ? "signal" : "update";
  return (
    <div class="needs-script" id="test-call">
      <Panel title={`Send a test ${noun}`}>
        <form
          class="form"
          data-test-call={webhook.url}
          data-headers={webhook.headers && JSON.stringify(webhook.headers)}
          data-secret={secret === SECRET_PLACEHOLDER ? undefined : (secret ?? undefined)}
          data-signals={`${home}/signals/`}
        >
          <p class="quiet small">A real call: it counts as a signal and has its effects.</p>
          <OwnBodyNote setup={setup} />
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
