/**
 * The demo's senders: people, and payloads as marketing platforms, customer data platforms and back ends send them.
 */
import { gzipSync } from "node:zlib";

/** The full keys of the demo's senders. */
export interface DemoKeys {
  campaigns: string;
  crm: { key: string; secret: string };
  accounts: string;
  retired: string;
}

export interface Call {
  path: string;
  body: string | Uint8Array<ArrayBuffer>;
  method?: string;
  headers?: Record<string, string>;
}

/** One line of the demo: calls of one kind with the expected result. */
export interface DemoDelivery {
  what: string;
  calls: Call[];
  /** True: concurrent calls. Most real senders call one after another. */
  parallel?: boolean;
  status: number;
  /** Expected problem code, or the code of the first refused signal in a partial answer. */
  code?: string;
  /** Signals answered as accepted or held. */
  kept: number;
  /** Kept signals that are duplicates. */
  duplicates?: number;
  held?: number;
  /** Refused signals in an answer that keeps others. */
  refused?: number;
  points?: [Lead, number][];
}

export interface Sender {
  name: string;
  deliveries: DemoDelivery[];
}

export const JSON_TYPE = { "content-type": "application/json" };

export interface Lead {
  id: number;
  email: string;
  firstName: string;
  lastName: string;
  company: string | null;
  title: string | null;
}

/** Records of the marketing platform; some are incomplete. */
export const LEADS: readonly Lead[] = [
  newLead(5001, "Peter", "Gibbons", "Initech", "Engineer"),
  newLead(5002, "Samir", "Nadeem", "Initech", "Engineer"),
  newLead(5003, "Joanna", "Reyes", "Corner Table", "Manager"),
  newLead(5004, "Milton", "Wade", "Initech", ""),
  newLead(5005, "Nina", "Okafor", "Acme & Sons", "Head of Marketing"),
  newLead(5006, "Lars", "Bergström", "Fjord Logistik", "CTO"),
  newLead(5007, "Aiko", "Tanaka", "Hoshi Robotics", "Buyer"),
  newLead(5008, "Rosa", "Delgado", "Luz Solar", "Founder"),
  newLead(5009, "Tom", "O'Neill", null, null),
  newLead(5010, "Priya", "Raman", "Banyan Health", "Product Lead"),
  newLead(5011, "Emil", "Nowak", null, ""),
  newLead(5012, "Clara", "Martin", "Atelier Nord", null),
];

/** A visitor of the website, unknown until they identify themselves. */
export interface Visitor {
  anonymousId: string;
  userId: string;
  lead: Lead | null;
}

/** Visitors of the website: two known to marketing, three new people, three who stay anonymous. */
export const VISITORS: readonly Visitor[] = [
  ...LEADS.slice(0, 2),
  newLead(0, "Grace", "Lindqvist", "Northwind Analytics", "Analyst"),
  newLead(0, "Omar", "Haddad", "Cedar Freight", "Dispatcher"),
  newLead(0, "Yuki", "Mori", "Studio Mori", "Architect"),
  null,
  null,
  null,
].map((known, at) => ({ anonymousId: `507f191e810c19729de860e${at}`, userId: `97980cfea006${at}`, lead: known }));

export const IDENTIFIED = VISITORS.filter((visitor): visitor is Visitor & { lead: Lead } => visitor.lead !== null);

function newLead(id: number, firstName: string, lastName: string, company: string | null, title: string | null): Lead {
  return { id, email: `${firstName.toLowerCase()}@example.com`, firstName, lastName, company, title };
}

/** A campaign's webhook template with its tokens replaced: texts arrive quoted, empty ones as `null` or `""`. */
export function webhookBody(record: Lead, event: string, properties: Record<string, unknown> = {}): string {
  const token = (value: unknown): string => JSON.stringify(value);
  const further = Object.entries(properties).map(([name, value]) => `, ${token(name)}: ${token(value)}`);
  return `{ "email": ${token(record.email)}, "event": ${token(event)}, "source": "marketing-automation",
  "properties": { "lead_id": ${record.id}, "first_name": ${token(record.firstName)}, "last_name": ${token(record.lastName)},
    "company": ${token(record.company)}, "title": ${token(record.title)}${further.join("")} } }`;
}

export interface CdpCall {
  type: string;
  messageId: string;
  [field: string]: unknown;
}

let messages = 0;

/** A call like that of a customer data platform's webhook destination. */
export function cdpCall(type: string, fields: Record<string, unknown>): CdpCall {
  const messageId = `ajs-022bb90c-bbac-11e4-8dfc-${String(++messages).padStart(12, "0")}`;
  const now = new Date().toISOString();
  return { type, messageId, ...fields, timestamp: now, sentAt: now, receivedAt: now, version: "1.1" };
}

export function pageCall({ anonymousId }: Visitor, name: string, url: string): CdpCall {
  return cdpCall("page", { anonymousId, name, properties: { title: name, url } });
}

export function trackCall({ anonymousId }: Visitor, event: string, properties: Record<string, unknown>): CdpCall {
  return cdpCall("track", { anonymousId, event, properties, context: { page: { url: "https://app.example.com/" } } });
}

export function identifyCall({ anonymousId, userId, lead: known }: Visitor): CdpCall {
  const traits = known && {
    email: known.email,
    name: `${known.firstName} ${known.lastName}`,
    company: { name: known.company },
    title: known.title,
  };
  return cdpCall("identify", { anonymousId, userId, traits });
}

const EMAILS = ["Spring 1", "Spring 2", "Spring 3", "Spring 4"];

export function marketing({ campaigns }: DemoKeys): Sender {
  const webhook = (body: string): Call => ({
    path: `/api/signal-staging/webhook/${campaigns}`,
    headers: JSON_TYPE,
    body,
  });
  const isInterested = (lead: Lead): boolean => lead.id % 3 === 0;
  const forms = LEADS.map((lead) => {
    const formName = isInterested(lead) ? "Demo request" : "Newsletter";
    return webhook(webhookBody(lead, "Filled Out Form", { form_name: formName }));
  });
  const opened = LEADS.flatMap((lead) =>
    EMAILS.map((email) => webhook(webhookBody(lead, "Opened Email", { email_name: email }))),
  );
  const attendees = LEADS.slice(0, 10);
  const attended = attendees.map((lead) => ({
    ...webhook(JSON.stringify({ email: lead.email, event: "Attended - Spring Webinar", properties: { minutes: 45 } })),
    path: `/api/signal-staging/webhook/webinar-tool/${campaigns}`,
  }));
  const [left] = LEADS.slice(-1) as [Lead];
  return {
    name: "Marketing automation, one call per record",
    deliveries: [
      {
        what: 'form fills, some with empty tokens (null, "")',
        calls: forms,
        status: 202,
        kept: forms.length,
        points: LEADS.filter(isInterested).map((lead) => [lead, 20]),
      },
      { what: "opened emails", calls: opened, status: 202, kept: opened.length },
      {
        what: "an unsubscription",
        calls: [webhook(webhookBody(left, "Unsubscribed"))],
        status: 202,
        kept: 1,
        points: [[left, -10]],
      },
      {
        what: "webinar attendance, source in the path",
        calls: attended,
        status: 202,
        kept: attended.length,
        points: attendees.map((lead) => [lead, 5]),
      },
      {
        what: "the form campaign once more, by mistake",
        calls: forms,
        status: 202,
        kept: forms.length,
        duplicates: forms.length,
      },
    ],
  };
}

export function crmWorkflows({ crm }: DemoKeys): Sender {
  const calls = LEADS.map((lead, at) => ({
    path: `/api/signal-staging/webhook/${crm.key}`,
    headers: { ...JSON_TYPE, "x-api-secret": crm.secret },
    body: JSON.stringify({ email: lead.email, event: "Deal Stage Changed", source: "crm", properties: { deal: at } }),
  }));
  return {
    name: "CRM workflows, with a shared secret",
    deliveries: [{ what: "deal stages, X-Api-Secret", calls, status: 202, kept: calls.length }],
  };
}

/** The last 12 of 20 exceed the plan's signal limit, so they are held without points. */
export const BEYOND_LIMIT = 12;

export function beyondTheLimit({ campaigns }: DemoKeys): Sender {
  const signals = Array.from({ length: 20 }, (_, at) => ({
    email: "nina@example.com",
    event: "Filled Out Form",
    source: "event-app",
    properties: { form_name: at < 20 - BEYOND_LIMIT ? "Badge scan" : "Demo request", scan: at },
  }));
  const path = `/api/signal-staging/webhook/${campaigns}/batch`;
  return {
    name: "Beyond the signal limit",
    deliveries: [
      {
        what: "20 badge scans, 8 of them within the limit",
        calls: [{ path, headers: JSON_TYPE, body: JSON.stringify(signals) }],
        status: 202,
        kept: signals.length,
        held: BEYOND_LIMIT,
      },
    ],
  };
}

const PRICES = "https://example.com/pricing";

export function customerDataPlatforms({ campaigns }: DemoKeys): Sender {
  const path = `/api/signal-staging/webhook/${campaigns}`;
  const single = (call: object): Call => ({ path, headers: JSON_TYPE, body: JSON.stringify(call) });
  const visits = VISITORS.flatMap((visitor) => [
    single(pageCall(visitor, "Home", "https://example.com/")),
    single(pageCall(visitor, "Prices", PRICES)),
    single(trackCall(visitor, "Feature Used", { feature: "tour" })),
  ]);
  const features = VISITORS.flatMap((visitor) =>
    ["export", "import", "share", "comment", "search"].map((feature) =>
      trackCall(visitor, "Feature Used", { feature }),
    ),
  );

  // A server-side SDK that knows its users only by id.
  const reports = Array.from({ length: 50 }, (_, at) => {
    const { userId } = IDENTIFIED[at % IDENTIFIED.length] ?? {};
    return cdpCall("track", { anonymousId: null, userId, event: "Report Viewed", properties: { report: at } });
  });
  const segmentBatch: Call = {
    path: `${path}/batch`,
    headers: { ...JSON_TYPE, authorization: "Basic d3JpdGUta2V5Og==" },
    body: JSON.stringify({ batch: reports, writeKey: "write-key", sentAt: new Date().toISOString() }),
  };
  // A server-side SDK that compresses its JSON and labels it as a form.
  const pages = Array.from({ length: 60 }, (_, at) => {
    const { userId } = IDENTIFIED[at % IDENTIFIED.length] ?? {};
    const url = at % 6 === 0 ? `${PRICES}?plan=${at}` : `https://example.com/blog/${at}`;
    const context = { library: { name: "@rudderstack/rudder-sdk-node" }, page: { url } };
    const { timestamp: originalTimestamp, ...call } = cdpCall("page", {
      userId,
      name: "Page",
      properties: {},
      context,
    });
    return { ...call, originalTimestamp };
  });
  const rudderBatches = [pages.slice(0, 30), pages.slice(30)].map((batch) => ({
    path: `${path}/batch`,
    headers: { "content-type": "application/x-www-form-urlencoded", "content-encoding": "gzip" },
    body: gzipSync(JSON.stringify({ batch, timestamp: new Date().toISOString(), sentAt: new Date().toISOString() })),
  }));
  const mixed = reports.slice(0, 16).map((call) => ({ ...call, messageId: `mixed-${call.messageId}` }));
  const bad = [
    { type: "track", messageId: "m-1" },
    "Report Viewed",
    { email: "jane", event: "Signed Up" },
    { event: "" },
  ];
  return {
    name: "Customer data platforms",
    deliveries: [
      {
        what: "page and track calls of 8 anonymous visitors",
        calls: visits,
        parallel: true,
        status: 202,
        kept: visits.length,
        points: IDENTIFIED.map(({ lead }) => [lead, 5 + 2]),
      },
      {
        what: "5 of the visitors identify themselves",
        calls: IDENTIFIED.map((visitor) => single(identifyCall(visitor))),
        parallel: true,
        status: 202,
        kept: IDENTIFIED.length,
      },
      {
        what: "a destination with batching on: a bare array",
        calls: [single(features)],
        status: 202,
        kept: features.length,
        points: IDENTIFIED.map(({ lead }) => [lead, 5 * 2]),
      },
      { what: 'Segment SDK, {"batch":[…]}', calls: [segmentBatch], status: 202, kept: reports.length },
      {
        what: "the same batch again, after a time-out",
        calls: [segmentBatch],
        status: 202,
        kept: reports.length,
        duplicates: reports.length,
      },
      {
        what: "RudderStack SDK, gzip labelled as a form",
        calls: rudderBatches,
        status: 202,
        kept: pages.length,
        points: IDENTIFIED.map(({ lead }) => [lead, 2 * 5]),
      },
      {
        what: "a batch with four bad items among 20",
        calls: [
          { ...segmentBatch, body: JSON.stringify({ batch: [...mixed.slice(0, 3), ...bad, ...mixed.slice(3)] }) },
        ],
        status: 202,
        code: "event_missing",
        kept: mixed.length,
        refused: bad.length,
      },
    ],
  };
}

export function imports({ campaigns, accounts }: DemoKeys): Sender {
  const lines = Array.from({ length: 100 }, (_, at) => {
    const email = LEADS[at % LEADS.length]?.email;
    return JSON.stringify({ email, event: "Bought In Store", source: "import", properties: { order: 70_000 + at } });
  });
  lines[41] = lines[41]?.slice(0, 30) ?? "";
  const account = (at: number): object => ({
    company: { id: `acct-${at}`, name: `Account ${at}` },
    subscription: { plan: "team", seats: 5 + at, mrr: 49.5 * at },
  });
  const toAccounts = (body: object): Call => ({
    path: `/api/product-orgs/webhook/${accounts}`,
    headers: JSON_TYPE,
    body: JSON.stringify(body),
  });
  const singles = [1, 2, 3, 4, 5, 6, 7, 8].map((at) => toAccounts(account(at)));
  return {
    name: "Imports and account data",
    deliveries: [
      {
        what: "bulk import: 100 lines of JSON, one cut off",
        calls: [
          {
            path: `/api/signal-staging/bulk/${campaigns}`,
            headers: { "content-type": "application/x-ndjson" },
            body: lines.join("\n"),
          },
        ],
        status: 202,
        code: "signal_not_json",
        kept: 99,
        refused: 1,
      },
      { what: "account updates, Product Org Updates key", calls: singles, status: 202, kept: singles.length },
      {
        what: "account updates as an array",
        calls: [toAccounts([account(2), account(3), account(9)])],
        status: 202,
        kept: 3,
      },
    ],
  };
}

/** Calls that are refused completely; each answer says how to fix the call. */
export function mistakes({ campaigns, crm, accounts, retired }: DemoKeys): Sender {
  const path = `/api/signal-staging/webhook/${campaigns}`;
  const crmPath = `/api/signal-staging/webhook/${crm.key}`;
  const good = JSON.stringify({ email: "peter@example.com", event: "Filled Out Form" });
  const refused = (what: string, status: number, code: string, call: Partial<Call>): DemoDelivery => ({
    what,
    status,
    code,
    kept: 0,
    calls: [{ path, headers: JSON_TYPE, body: good, ...call }],
  });
  const notEncoded =
    '{ "email": "nina@example.com", "event": "Filled Out Form",\n  "properties": { "company": Acme & Sons } }';
  const quotedTwice = '{ "email": ""nina@example.com"", "event": "Filled Out Form" }';
  const rawNewline = '{ "event": "Filled Out Form", "properties": { "comment": "first\nsecond" } }';
  const form = { headers: { "content-type": "application/x-www-form-urlencoded" } };
  const wrongKey = `${campaigns.slice(0, -1)}${campaigns.endsWith("a") ? "b" : "a"}`;
  return {
    name: "Mistakes",
    deliveries: [
      refused("a token that is not encoded", 400, "body_not_json", { body: notEncoded }),
      refused("a token that is quoted twice", 400, "body_not_json", { body: quotedTwice }),
      refused("a raw line break in a text", 400, "body_not_json", { body: rawNewline }),
      refused("a form-encoded body", 415, "media_type_unsupported", { ...form, body: "email=a%40b.example&event=X" }),
      refused("no body", 400, "body_empty", { body: "" }),
      refused("a signal without an event", 422, "event_missing", { body: '{"email":"peter@example.com"}' }),
      refused("a mistyped key", 401, "unauthorized", { path: `/api/signal-staging/webhook/${wrongKey}` }),
      refused("a wrong secret", 401, "unauthorized", {
        path: crmPath,
        headers: { ...JSON_TYPE, "x-api-secret": "guess" },
      }),
      refused("no secret", 401, "unauthorized", { path: crmPath }),
      refused("a deactivated key", 401, "unauthorized", { path: `/api/signal-staging/webhook/${retired}` }),
      refused("a signal to the account endpoint", 403, "endpoint_mismatch", {
        path: `/api/product-orgs/webhook/${campaigns}`,
      }),
      refused("account data to the signal endpoint", 403, "endpoint_mismatch", {
        path: `/api/signal-staging/webhook/${accounts}`,
      }),
      refused("PUT in place of POST", 405, "method_not_allowed", { method: "PUT" }),
    ],
  };
}
