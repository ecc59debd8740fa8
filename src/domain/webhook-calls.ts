/** Webhook addresses of an API key (spec §4), with example calls for curl, JavaScript's fetch and Python. */
import { exampleFor } from "./accounts/template-sample.ts";
import { accountTemplateOf, type KeyTemplate } from "./template/key-template.ts";
import type { EndpointType } from "./signal/signal.ts";

export interface Webhook {
  id: string;
  label: string;
  note: string;
  url: string;
  body: unknown;
  /** Headers of its sender, in which the event may stand. */
  headers?: Readonly<Record<string, string>>;
}

export interface WebhookKey {
  /** The full key, or its placeholder. */
  key: string;
  endpointType: EndpointType;
  payloadTemplate: KeyTemplate | null;
}

const SIGNAL = {
  email: "jane@example.com",
  event: "Filled Out Form",
  source: "website",
  properties: { form_name: "Demo request", page_url: "https://example.com/demo" },
};
const { source: _source, ...SIGNAL_WITHOUT_SOURCE } = SIGNAL;
const SECOND_SIGNAL = {
  email: "jane@example.com",
  event: "Viewed Pricing",
  properties: { page_url: "https://example.com/pricing" },
};

export function webhooksOf(
  origin: string,
  { key, endpointType, payloadTemplate }: WebhookKey,
): [Webhook, ...Webhook[]] {
  if (endpointType === "product_org") {
    return [
      {
        id: "product-orgs",
        label: "Product Org Updates",
        note: "One account as an object, or several as an array.",
        url: `${origin}/api/product-orgs/webhook/${key}`,
        body: exampleFor(accountTemplateOf({ endpointType, payloadTemplate }) ?? []),
      },
    ];
  }
  const webhook = `${origin}/api/signal-staging/webhook`;
  return [
    {
      id: "universal",
      label: "Universal webhook",
      note: "One signal, from a marketing automation platform, a customer data platform or your own code.",
      url: `${webhook}/${key}`,
      body: SIGNAL,
    },
    {
      id: "source",
      label: "Source-specific webhook",
      note: "Like the universal webhook, but the path names the source. Replace “website” with your own source.",
      url: `${webhook}/website/${key}`,
      body: SIGNAL_WITHOUT_SOURCE,
    },
    {
      id: "batch",
      label: "Batch",
      note: "Many signals in one call; each is accepted or rejected individually.",
      url: `${webhook}/${key}/batch`,
      body: [SIGNAL, SECOND_SIGNAL],
    },
    {
      id: "bulk",
      label: "Bulk",
      note: "For imports: an array, or one JSON object per line.",
      url: `${origin}/api/signal-staging/bulk/${key}`,
      body: [SIGNAL, SECOND_SIGNAL],
    },
  ];
}

function headersOf(headers: Webhook["headers"], secret: string | null): Record<string, string> {
  return { "Content-Type": "application/json", ...headers, ...(secret === null ? {} : { "X-Api-Secret": secret }) };
}

/** A call with curl. @param secret shared secret or its placeholder; null: no secret required. */
export function curlLine({ url, body, headers }: Webhook, secret: string | null): string {
  return [
    `curl -X POST ${quoted(url)}`,
    ...Object.entries(headersOf(headers, secret)).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    `-d ${quoted(JSON.stringify(body))}`,
  ].join(" \\\n  ");
}

export function fetchCall({ url, body, headers }: Webhook, secret: string | null): string {
  const indented = (value: unknown): string => JSON.stringify(value, null, 2).replaceAll("\n", "\n  ");
  return `const response = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: ${indented(headersOf(headers, secret))},
  body: JSON.stringify(${indented(body)}),
});
if (!response.ok) throw new Error(await response.text());`;
}

/** A call with Python's standard library only. */
export function pythonCall({ url, body, headers }: Webhook, secret: string | null): string {
  // A JSON string is a valid Python string after escaping like JSON.
  const text = (value: unknown): string => JSON.stringify(JSON.stringify(value));
  return `import json, urllib.request

request = urllib.request.Request(
    ${JSON.stringify(url)},
    method="POST",
    headers=json.loads(${text(headersOf(headers, secret))}),
    data=${text(body)}.encode(),
)
with urllib.request.urlopen(request) as response:
    print(response.status, json.load(response))`;
}

/** The line of code that sets up a server-side SDK, whose write key may be any text (docs/senders.md). */
export function sdkLine(sdk: "Segment" | "RudderStack", origin: string, key: string): string {
  const path = `/api/signal-staging/webhook/${key}/batch`;
  return sdk === "Segment"
    ? `new Analytics({ writeKey: "unused", host: "${origin}", path: "${path}" })`
    : `new RudderAnalytics("unused", { dataPlaneUrl: "${origin}", path: "${path}" })`;
}

/** The event of a marketing automation platform: a member status joined to a program name (spec §2.2). */
export function composedEvent(status: string, program: string): string {
  return [status.trim(), program.trim()].filter((part) => part !== "").join(" - ");
}

/**
 * Webhook body of a marketing automation platform (spec §2.2, §4). With Request Token Encoding JSON the platform puts
 * quotes around a token's text. So tokens stand without quotes and cannot be part of a text: the event is typed. Token names
 * are exact, spaces included.
 */
export function marketingTemplate(event: string): string {
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

export const CRM_BODY = {
  event: "Became Customer",
  email: "jane@example.com",
  properties: { first_name: "Jane", company: "Initech", lifecycle_stage: "customer" },
};

/** Quotes a text as one word of a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
