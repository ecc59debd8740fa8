/**
 * The demo's senders: people, and payloads as marketing platforms, customer data platforms and back ends send them.
 */
import { gzipSync } from "node:zlib";
import { DAY_MS } from "../../domain/duration.ts";
import { bold, dim, mark, red } from "../terminal.ts";

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
interface DemoDelivery {
  title: string;
  calls: Call[];
  /** True: concurrent calls. Most real senders call one after another. */
  parallel?: boolean;
  status: number;
  /** Expected problem code, or the code of the first rejected signal in a partial answer. */
  code?: string;
  kept: number;
  duplicates?: number;
  held?: number;
  rejected?: number;
  points?: [Lead, number][];
}

interface Sender {
  name: string;
  deliveries: DemoDelivery[];
}

/** Unless said otherwise, each call brings one signal, which is kept. */
function delivery(title: string, calls: Call[], expected: Partial<DemoDelivery> = {}): DemoDelivery {
  return { title, calls, status: 202, kept: calls.length, ...expected };
}

function jsonCall(path: string, body: unknown, headers: Record<string, string> = {}): Call {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { path, headers: { "content-type": "application/json", ...headers }, body: text };
}

const SIGNALS = "/api/signal-staging/webhook";

interface Lead {
  id: number;
  email: string;
  firstName: string;
  lastName: string;
  company: string | null;
  title: string | null;
}

export const LEADS: readonly [Lead, ...Lead[]] = [
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

function newLead(id: number, firstName: string, lastName: string, company: string | null, title: string | null): Lead {
  return { id, email: `${firstName.toLowerCase()}@example.com`, firstName, lastName, company, title };
}

interface Visitor {
  anonymousId: string;
  userId: string;
  lead: Lead | null;
}

/** Visitors of the website: two known to marketing, three new people, three who stay anonymous. */
const VISITORS: readonly Visitor[] = [
  ...LEADS.slice(0, 2),
  newLead(0, "Grace", "Lindqvist", "Northwind Analytics", "Analyst"),
  newLead(0, "Omar", "Haddad", "Cedar Freight", "Dispatcher"),
  newLead(0, "Yuki", "Mori", "Studio Mori", "Architect"),
  null,
  null,
  null,
].map((known, at) => ({ anonymousId: `507f191e810c19729de860e${at}`, userId: `97980cfea006${at}`, lead: known }));

const IDENTIFIED = VISITORS.filter((visitor): visitor is Visitor & { lead: Lead } => visitor.lead !== null);

/** A campaign's webhook template with its tokens replaced: texts arrive quoted, empty ones as `null` or `""`. */
function webhookBody(record: Lead, event: string, properties: Record<string, unknown> = {}): string {
  const token = (value: unknown): string => JSON.stringify(value);
  const moreProperties = Object.entries(properties).map(([name, value]) => `, ${token(name)}: ${token(value)}`);
  return `{ "email": ${token(record.email)}, "event": ${token(event)}, "source": "marketing-automation",
  "properties": { "lead_id": ${record.id}, "first_name": ${token(record.firstName)}, "last_name": ${token(record.lastName)},
    "company": ${token(record.company)}, "title": ${token(record.title)}${moreProperties.join("")} } }`;
}

let messages = 0;

/** A call like that of a customer data platform's webhook destination. */
function cdpCall(type: string, fields: Record<string, unknown>): Record<string, unknown> {
  const messageId = `ajs-022bb90c-bbac-11e4-8dfc-${String(++messages).padStart(12, "0")}`;
  const now = new Date().toISOString();
  return { type, messageId, ...fields, timestamp: now, sentAt: now, receivedAt: now, version: "1.1" };
}

export function marketing({ campaigns }: DemoKeys): Sender {
  const webhook = (body: string): Call => jsonCall(`${SIGNALS}/${campaigns}`, body);
  const isInterested = (lead: Lead): boolean => lead.id % 3 === 0;
  const forms = LEADS.map((lead) => {
    const formName = isInterested(lead) ? "Demo request" : "Newsletter";
    return webhook(webhookBody(lead, "Filled Out Form", { form_name: formName }));
  });
  const opened = LEADS.flatMap((lead) =>
    [1, 2, 3, 4].map((nth) => webhook(webhookBody(lead, "Opened Email", { email_name: `Spring ${nth}` }))),
  );
  const attendees = LEADS.slice(0, 10);
  const attended = attendees.map(({ email }) => {
    const signal = { email, event: "Attended - Spring Webinar", properties: { minutes: 45 } };
    return jsonCall(`${SIGNALS}/webinar-tool/${campaigns}`, signal);
  });
  const [last] = LEADS.slice(-1) as [Lead];
  return {
    name: "Marketing automation, one call per record",
    deliveries: [
      delivery('form fills, some with empty tokens (null, "")', forms, {
        points: LEADS.filter(isInterested).map((lead) => [lead, 20]),
      }),
      delivery("opened emails", opened),
      delivery("an unsubscription", [webhook(webhookBody(last, "Unsubscribed"))], { points: [[last, -10]] }),
      delivery("webinar attendance, source in the path", attended, { points: attendees.map((lead) => [lead, 5]) }),
      delivery("the form campaign once more, by mistake", forms, { duplicates: forms.length }),
    ],
  };
}

export function crmWorkflows({ crm }: DemoKeys): Sender {
  const calls = LEADS.map(({ email }, deal) => {
    const signal = { email, event: "Deal Stage Changed", source: "crm", properties: { deal } };
    return jsonCall(`${SIGNALS}/${crm.key}`, signal, { "x-api-secret": crm.secret });
  });
  return { name: "CRM workflows, with a shared secret", deliveries: [delivery("deal stages, X-Api-Secret", calls)] };
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
  const calls = [jsonCall(`${SIGNALS}/${campaigns}/batch`, signals)];
  const expected = { kept: signals.length, held: BEYOND_LIMIT };
  const scans = delivery("20 badge scans, 8 of them within the limit", calls, expected);
  return { name: "Beyond the signal limit", deliveries: [scans] };
}

const PRICING_URL = "https://example.com/pricing";

export function customerDataPlatforms({ campaigns }: DemoKeys): Sender {
  const path = `${SIGNALS}/${campaigns}`;
  return { name: "Customer data platforms", deliveries: [...websiteVisits(path), ...sdkBatches(`${path}/batch`)] };
}

/** Single calls of visitors. Five of the visitors identify themselves later. */
function websiteVisits(path: string): DemoDelivery[] {
  const page = ({ anonymousId }: Visitor, name: string, url: string) =>
    cdpCall("page", { anonymousId, name, properties: { title: name, url } });
  const context = { page: { url: "https://app.example.com/" } };
  const usage = ({ anonymousId }: Visitor, feature: string) =>
    cdpCall("track", { anonymousId, event: "Feature Used", properties: { feature }, context });
  const visits = VISITORS.flatMap((visitor) => [
    page(visitor, "Home", "https://example.com/"),
    page(visitor, "Prices", PRICING_URL),
    usage(visitor, "tour"),
  ]);
  const identifies = IDENTIFIED.map(({ anonymousId, userId, lead }) => {
    const { email, firstName, lastName, company, title } = lead;
    const traits = {
      email,
      name: `${firstName} ${lastName}`,
      company: { id: accountOf(company), name: company },
      title,
    };
    return cdpCall("identify", { anonymousId, userId, traits });
  });
  const features = VISITORS.flatMap((visitor) =>
    ["export", "import", "share", "comment", "search"].map((feature) => usage(visitor, feature)),
  );
  const calls = (sent: object[]) => sent.map((call) => jsonCall(path, call));
  return [
    delivery("page and track calls of 8 anonymous visitors", calls(visits), {
      parallel: true,
      points: IDENTIFIED.map(({ lead }) => [lead, 5 + 2]),
    }),
    delivery("5 of the visitors identify themselves", calls(identifies), { parallel: true }),
    delivery("a destination with batching on: a bare array", calls([features]), {
      kept: features.length,
      points: IDENTIFIED.map(({ lead }) => [lead, 5 * 2]),
    }),
  ];
}

/** The external id of a company in the demo, such as `cedar-freight`; null: the lead has none. */
export function accountOf(company: string | null): string | null {
  return company?.toLowerCase().replaceAll(/\W+/g, "-") ?? null;
}

/** Traits of accounts, and signals of the past with the times at which they occurred. */
export function history({ campaigns }: DemoKeys): Sender {
  const path = `${SIGNALS}/${campaigns}`;
  const groups = IDENTIFIED.map(({ userId, lead: { company } }) =>
    jsonCall(
      path,
      cdpCall("group", {
        userId,
        groupId: accountOf(company),
        traits: { name: company, plan: "trial", region: "emea" },
      }),
    ),
  );
  const [{ userId, lead }] = IDENTIFIED as [(typeof IDENTIFIED)[number]];
  const usedDaysAgo = (days: number): object => ({
    ...cdpCall("track", { userId, event: "Feature Used", properties: { days } }),
    timestamp: new Date(Date.now() - days * DAY_MS).toISOString(),
  });
  const past = (...days: number[]): Call[] => [jsonCall(`${path}/batch`, days.map(usedDaysAgo))];
  return {
    name: "Accounts and history",
    deliveries: [
      delivery("group calls: 5 people belong to accounts", groups),
      delivery("signals of the last weeks, whose points still count", past(3, 10, 20), {
        kept: 3,
        points: [[lead, 3 * 2]],
      }),
      delivery("signals of months ago, whose points have lapsed", past(40, 70, 100), { kept: 3, points: [[lead, 0]] }),
    ],
  };
}

function sdkBatches(path: string): DemoDelivery[] {
  const userOf = (at: number) => IDENTIFIED[at % IDENTIFIED.length]?.userId;
  const reports = Array.from({ length: 50 }, (_, at) =>
    cdpCall("track", { anonymousId: null, userId: userOf(at), event: "Report Viewed", properties: { report: at } }),
  );
  const segment = (batch: unknown[]): Call => {
    const body = { batch, writeKey: "write-key", sentAt: new Date().toISOString() };
    return jsonCall(path, body, { authorization: "Basic d3JpdGUta2V5Og==" });
  };
  // An SDK that compresses its JSON and labels it as a form.
  const pages = Array.from({ length: 60 }, (_, at) => {
    const url = at % 6 === 0 ? `${PRICING_URL}?plan=${at}` : `https://example.com/blog/${at}`;
    const context = { library: { name: "@rudderstack/rudder-sdk-node" }, page: { url } };
    const fields = { userId: userOf(at), name: "Page", properties: {}, context };
    const { timestamp: originalTimestamp, ...call } = cdpCall("page", fields);
    return { ...call, originalTimestamp };
  });
  const rudderBatches = [pages.slice(0, 30), pages.slice(30)].map((batch) => ({
    path,
    headers: { "content-type": "application/x-www-form-urlencoded", "content-encoding": "gzip" },
    body: gzipSync(JSON.stringify({ batch, timestamp: new Date().toISOString(), sentAt: new Date().toISOString() })),
  }));
  const mixed = reports.slice(0, 16).map((call) => ({ ...call, messageId: `mixed-${String(call["messageId"])}` }));
  const noIds = { type: "track", messageId: "m-1" };
  const bad = [noIds, "Report Viewed", { email: "jane", event: "Signed Up" }, { event: "" }];
  const reportBatch = segment(reports);
  const { length } = reports;
  return [
    delivery('Segment SDK, {"batch":[…]}', [reportBatch], { kept: length }),
    delivery("the same batch again, after a time-out", [reportBatch], { kept: length, duplicates: length }),
    delivery("RudderStack SDK, gzip labelled as a form", rudderBatches, {
      kept: pages.length,
      points: IDENTIFIED.map(({ lead }) => [lead, 2 * 5]),
    }),
    delivery("a batch with four bad items among 20", [segment([...mixed.slice(0, 3), ...bad, ...mixed.slice(3)])], {
      code: "event_missing",
      kept: mixed.length,
      rejected: bad.length,
    }),
  ];
}

export function imports({ campaigns, accounts }: DemoKeys): Sender {
  const lines = Array.from({ length: 100 }, (_, at) => {
    const email = LEADS[at % LEADS.length]?.email;
    return JSON.stringify({ email, event: "Bought In Store", source: "import", properties: { order: 70_000 + at } });
  });
  lines[41] = lines[41]?.slice(0, 30) ?? "";
  const ndjson = { "content-type": "application/x-ndjson" };
  const bulk = jsonCall(`/api/signal-staging/bulk/${campaigns}`, lines.join("\n"), ndjson);
  const account = (at: number): object => ({
    company: { id: `acct-${at}`, name: `Account ${at}` },
    subscription: { plan: "team", seats: 5 + at, mrr: 49.5 * at },
  });
  const toAccounts = (body: object): Call => jsonCall(`/api/product-orgs/webhook/${accounts}`, body);
  return {
    name: "Imports and account data",
    deliveries: [
      delivery("bulk import: 100 lines of JSON, one cut off", [bulk], {
        code: "signal_not_json",
        kept: 99,
        rejected: 1,
      }),
      delivery(
        "account updates, Product Org Updates key",
        [1, 2, 3, 4, 5, 6, 7, 8].map((at) => toAccounts(account(at))),
      ),
      delivery("account updates as an array", [toAccounts([account(2), account(3), account(9)])], { kept: 3 }),
    ],
  };
}

/** Calls that are rejected completely; each answer says how to fix the call. */
export function mistakes({ campaigns, crm, accounts, retired }: DemoKeys): Sender {
  const path = `${SIGNALS}/${campaigns}`;
  const crmPath = `${SIGNALS}/${crm.key}`;
  const good = { email: "peter@example.com", event: "Filled Out Form" };
  const rejected = (title: string, status: number, code: string, call: Partial<Call>): DemoDelivery =>
    delivery(title, [{ ...jsonCall(path, good), ...call }], { status, code, kept: 0 });
  const notEncoded =
    '{ "email": "nina@example.com", "event": "Filled Out Form",\n  "properties": { "company": Acme & Sons } }';
  const quotedTwice = '{ "email": ""nina@example.com"", "event": "Filled Out Form" }';
  const rawNewline = '{ "event": "Filled Out Form", "properties": { "comment": "first\nsecond" } }';
  const form = { headers: { "content-type": "application/x-www-form-urlencoded" } };
  const wrongKey = `${campaigns.slice(0, -1)}${campaigns.endsWith("a") ? "b" : "a"}`;
  return {
    name: "Mistakes",
    deliveries: [
      rejected("a token that is not encoded", 400, "body_not_json", { body: notEncoded }),
      rejected("a token that is quoted twice", 400, "body_not_json", { body: quotedTwice }),
      rejected("a raw line break in a text", 400, "body_not_json", { body: rawNewline }),
      rejected("a form-encoded body", 415, "media_type_unsupported", { ...form, body: "email=a%40b.example&event=X" }),
      rejected("no body", 400, "body_empty", { body: "" }),
      rejected("a signal without an event", 422, "event_missing", { body: '{"email":"peter@example.com"}' }),
      rejected("a mistyped key", 401, "unauthorized", { path: `${SIGNALS}/${wrongKey}` }),
      rejected("a wrong secret", 401, "unauthorized", jsonCall(crmPath, good, { "x-api-secret": "guess" })),
      rejected("no secret", 401, "unauthorized", { path: crmPath }),
      rejected("a deactivated key", 401, "unauthorized", { path: `${SIGNALS}/${retired}` }),
      rejected("a signal to the account endpoint", 403, "endpoint_mismatch", {
        path: `/api/product-orgs/webhook/${campaigns}`,
      }),
      rejected("account data to the signal endpoint", 403, "endpoint_mismatch", { path: `${SIGNALS}/${accounts}` }),
      rejected("PUT in place of POST", 405, "method_not_allowed", { method: "PUT" }),
    ],
  };
}

// Sends the demo's signals and compares each answer with the expected one.

export interface DemoSent {
  calls: number;
  accepted: number;
  held: number;
  duplicates: number;
  scores: Map<string, number>;
  asExpected: boolean;
}

interface Answer {
  status: number;
  accepted: number;
  held: number;
  rejected: number;
  code?: string | undefined;
  detail?: string | undefined;
}

export async function send(origin: string, senders: Sender[]): Promise<DemoSent> {
  const sent: DemoSent = { calls: 0, accepted: 0, held: 0, duplicates: 0, scores: new Map(), asExpected: true };
  let shownDetail: string | undefined;
  for (const { name, deliveries } of senders) {
    console.log(`\n${bold(name)}`);
    for (const line of deliveries) {
      const answers = await sendCalls(origin, line);
      const printed = printLine(line, answers);
      if (printed.detail !== undefined) {
        console.log(dim(printed.detail === shownDetail ? "    (as above)" : `    ${printed.detail}`));
      }
      shownDetail = printed.detail;
      sent.calls += answers.length;
      sent.accepted += printed.accepted;
      sent.held += printed.held;
      sent.duplicates += line.duplicates ?? 0;
      for (const [{ email }, points] of line.points ?? []) {
        sent.scores.set(email, (sent.scores.get(email) ?? 0) + points);
      }
      sent.asExpected &&= printed.asExpected;
    }
  }
  return sent;
}

async function sendCalls(origin: string, { calls, parallel }: DemoDelivery): Promise<Answer[]> {
  if (parallel === true) return Promise.all(calls.map((call) => sendOne(origin, call)));
  const answers: Answer[] = [];
  for (const call of calls) answers.push(await sendOne(origin, call));
  return answers;
}

async function sendOne(origin: string, { path, body, method = "POST", headers = {} }: Call): Promise<Answer> {
  const response = await fetch(origin + path, { method, headers, body });
  const { status } = response;
  const answer = (await response.json()) as Partial<Omit<Answer, "status">> & {
    status: string | number;
    results?: { index: number; status: string; code?: string; detail?: string }[];
  };
  const none = { status, accepted: 0, held: 0, rejected: 0 };
  if (status !== 202) return { ...none, code: answer.code, detail: answer.detail };
  if (answer.results === undefined) return { ...none, [answer.status === "held" ? "held" : "accepted"]: 1 };
  const { accepted = 0, held = 0, rejected = 0 } = answer;
  const item = answer.results.find((result) => result.status === "rejected");
  return { status, accepted, held, rejected, code: item?.code, detail: item && `signal ${item.index}: ${item.detail}` };
}

/** Prints a line of the demo. @returns the sums of its answers, and the detail of the first unexpected answer. */
function printLine(line: DemoDelivery, answers: readonly Answer[]) {
  const { title, calls, status, code, kept } = line;
  const wrong = answers.find((answer) => answer.status !== status || answer.code !== code);
  const answer = wrong ?? answers[0];
  const total = (field: "accepted" | "held" | "rejected") => answers.reduce((sum, each) => sum + each[field], 0);
  const [accepted, held, rejected] = [total("accepted"), total("held"), total("rejected")];
  const asExpected =
    wrong === undefined && accepted + held === kept && held === (line.held ?? 0) && rejected === (line.rejected ?? 0);
  const counts = [
    accepted > 0 ? `${accepted} accepted` : "",
    held > 0 ? `${held} held` : "",
    rejected > 0 ? `${rejected} rejected: ${answer?.code}` : accepted + held === 0 ? (answer?.code ?? "") : "",
  ].filter((text) => text !== "");
  const called = `${calls.length} ${calls.length === 1 ? "call " : "calls"}`.padStart(9);
  console.log(`  ${mark(asExpected)} ${title.padEnd(47)} ${called}  ${answer?.status} ${counts.join(", ")}`);
  if (!asExpected) console.log(red(`    expected: ${status} ${code ?? ""}`));
  return { accepted, held, asExpected, detail: answer?.detail };
}
