/** A workspace with records of every kind: the target of hostile calls, with checks that it is intact afterwards. */
import { env } from "cloudflare:workers";
import { newMembers, type Members } from "../members.ts";
import { newPlan, newWorkspace, operator, type TestKey, type TestWorkspace } from "../workspace.ts";

export interface World {
  team: Members;
  /** A value for each path parameter. */
  subject: Record<string, string>;
  /** The same of another workspace. */
  foreign: Record<string, string>;
  keys: { signals: TestKey; withSecret: TestKey; accounts: TestKey };
  /** Keys and secrets of this workspace that calls carry in wrong places: in a path, a query, a header. */
  carried: readonly string[];
  /** Keys and secrets in bodies. Stored data that contains them is shown to people with access. */
  stored: readonly string[];
  /** Cursors that its lists have returned. */
  cursors: readonly string[];
}

const LISTS = ["/keys", "/rules", "/members", "/signals", "/people", "/accounts", "/events", "/destinations"];

export async function newWorld(): Promise<World> {
  const team = await newMembers({ signalLimit: 100_000 });
  const { workspace } = team;
  const keys = {
    signals: workspace.key,
    withSecret: await workspace.newKey({ secret: true }),
    accounts: await workspace.newKey({ endpoint_type: "product_org", payload_template: ACCOUNT_TEMPLATE }),
  };
  const storedKey = await workspace.newKey({ secret: true });
  for (const signal of SIGNALS) await workspace.send(signal);
  for (const account of ACCOUNTS) {
    await workspace.send(account, { path: "/api/product-orgs/webhook/{key}", key: keys.accounts.key });
  }
  await workspace.send({ event: "Visit", email: "gone@example.com" });
  await workspace.send({ event: "Never", properties: 1 });
  await workspace.settled();
  const subject = await newSubject(workspace, team.slug);
  const another = await newWorkspace();
  await another.send({ event: "Visit", email: "theirs@example.com" });
  await another.settled();
  const { slug } = await another.operator<{ slug: string }>("GET", "");
  const cursors: string[] = [];
  for (const list of LISTS) {
    const { next } = await workspace.operator<{ next: string | null }>("GET", `${list}?limit=1`);
    if (next !== null) cursors.push(next);
  }
  return {
    team,
    subject,
    foreign: await newSubject(another, slug),
    keys,
    carried: [keys.withSecret.key, keys.withSecret.secret ?? "", keys.accounts.key],
    stored: [storedKey.key, storedKey.secret ?? ""],
    cursors,
  };
}

async function newSubject(workspace: TestWorkspace, slug: string): Promise<Record<string, string>> {
  const rule = { name: "r", event: "Filled *", conditions: [], scoring_signal: "s", points: 1 };
  const { id: ruleId } = await workspace.operator<{ id: string }>("POST", "/rules", rule);
  const staff = { name: "staff", conditions: [{ path: "email", operator: "ends_with", value: "@own.example" }] };
  const { items: exclusions } = await workspace.operator<{ items: { id: string }[] }>("PUT", "/exclusions", {
    items: [staff],
  });
  const destination = {
    name: "d",
    type: "webhook",
    target: "https://receiver.example.com/in",
    notifications: ["period.closed"],
  };
  const { id: destinationId } = await workspace.operator<{ id: string }>("POST", "/destinations", destination);
  const delivery = await workspace.operator<{ id?: string }>("POST", `/destinations/${destinationId}/test`);
  const { items } = await workspace.operator<{ items: { id: string; email: string | null }[] }>("GET", "/signals");
  const deletion = await workspace.operator<{ id: string }>("DELETE", "/people/gone@example.com");
  const [{ id: keyId }, { id: tokenId }] = [await workspace.newKey(), await workspace.newToken(["read"])];
  await workspace.operator("POST", "/members", { email: "other@example.com", role: "admin" });
  return {
    slug,
    workspace_id: workspace.id,
    key_id: keyId,
    token_id: tokenId,
    rule_id: ruleId,
    exclusion_id: exclusions[0]?.id ?? "",
    email: "jane@example.com",
    person_email: "jane@example.com",
    id: destinationId,
    destination_id: destinationId,
    delivery_id: delivery.id ?? "whd_none",
    export_id: "exp_none",
    part: "1",
    deletion_id: deletion.id,
    external_id: "c-1",
    signal_id: items[0]?.id ?? "",
    version: "1",
    plan_id: await newPlan(1_000),
    one: "c-1",
    entry: "none",
  };
}

/** The score of a new signal of a new person, in a workspace that the calls may have changed. */
export async function scoreOfNewSignal(workspace: TestWorkspace): Promise<unknown> {
  const event = `Sound ${crypto.randomUUID()}`;
  const email = `sound-${crypto.randomUUID()}@example.com`;
  // The calls may have changed the plan and the rules: makes room for one more of each.
  await workspace.operator("PATCH", "", { overages: true });
  await workspace.operator("POST", "/open");
  const { items } = await workspace.operator<{ items: { id: string }[] }>("GET", "/rules?limit=200");
  for (const { id } of items) await workspace.operator("DELETE", `/rules/${id}`);
  await workspace.operator("PUT", "/exclusions", { items: [] });
  await workspace.operator("POST", "/rules", {
    name: "sound",
    event,
    conditions: [],
    scoring_signal: "sound",
    points: 7,
  });
  const { key } = await workspace.newKey();
  const answer = await workspace.send({ event, email }, { key });
  if (answer.status !== 202) return { status: answer.status, body: await answer.text() };
  const books = await workspace.settled();
  const people = await workspace.operator<{ items: { score: number }[] }>("GET", `/people?email=${email}`);
  return { score: people.items[0]?.score, balanced: books.balanced };
}

/** A workspace that the attack does not touch. */
export async function newBystander(): Promise<TestWorkspace> {
  const workspace = await newWorkspace();
  await operator("PUT", "/plans/starter", { name: "starter", signal_limit: 1_000, paid: true });
  return workspace;
}

export const OPERATOR = `Bearer ${env.OPERATOR_TOKEN}`;

/**
 * Removes all other workspaces from the control plane, so that calls about all workspaces do not wake the objects of
 * earlier runs. Each waking object loads a module through the test runner, one at a time.
 */
export async function forgetAllBut({ id }: TestWorkspace): Promise<void> {
  await env.DB.batch(FORGOTTEN.map((table) => env.DB.prepare(`DELETE FROM ${table} <> ?`).bind(id)));
}

const FORGOTTEN = [
  ...[
    "api_keys",
    "key_budgets",
    "payload_templates",
    "api_tokens",
    "members",
    "rule_versions",
    "exclusion_versions",
    "mapping_rules",
    "audit_log",
    "deletions",
    "workspace_versions",
    "health_reports",
    "open_alarms",
    "ended_workspaces",
    "workspace_imports",
    "imported_rows",
  ].map((table) => `${table} WHERE workspace_id`),
  "workspaces WHERE id",
];

export const SIGNALS: readonly unknown[] = [
  { event: "Filled Out Form", email: "jane@example.com", source: "web", properties: { form: "demo", n: 3 } },
  {
    type: "track",
    messageId: "022bb90c-bbac-11e4-8dfc-aa07a5b093db",
    anonymousId: "507f191e810c19729de860ea",
    userId: "97980cfea0067",
    event: "Order Completed",
    properties: { total: 12.5, items: [{ sku: "a-1", price: 3 }, { sku: "b-2" }], paid: true },
    context: {
      page: { url: "https://example.com/" },
      library: { name: "rudderstack" },
      traits: { email: "j@example.com" },
    },
    originalTimestamp: "2026-02-12T19:11:01.152Z",
    sentAt: "2026-02-12T19:11:01.249Z",
  },
  {
    type: "identify",
    messageId: "m-1",
    anonymousId: "a-1",
    userId: "u-1",
    traits: { email: "peter@example.com", name: "Peter", company: { name: "Initech" }, title: "Engineer" },
    timestamp: "2026-02-23T22:28:55.111Z",
  },
  { type: "page", anonymousId: "a-2", name: "Home", properties: { title: "Welcome", url: "https://example.com" } },
  { type: "screen", anonymousId: "a-2", name: "Home", properties: { title: "Welcome" } },
  { type: "group", userId: "u-1", groupId: "g-1", traits: { name: "Initech", email: "info@initech.com" } },
  { type: "alias", previousId: "a-1", userId: "u-1" },
  [{ event: "one", email: "a@example.com" }, { event: "two" }],
  { batch: [{ type: "track", event: "three", userId: "u-3" }], writeKey: "w", sentAt: "2026-02-23T22:28:55.111Z" },
];

export const LINES = '{"event":"one","email":"a@example.com"}\n{"event":"two"}\n\n{"event":"three"}';

export const ACCOUNTS: readonly unknown[] = [
  { company: { id: "c-1", name: "Initech", seats: 12, mrr: 99.5 }, flags: { beta: true }, plan: "scale" },
  [{ company: { id: "c-1" } }, { company: { id: "c-2", seats: "12" } }],
];

const ACCOUNT_TEMPLATE = [
  { target: "external_id", path: "company.id", type: "string" },
  { target: "name", path: "company.name", type: "string" },
  { target: "plan", path: "plan", type: "string" },
  { target: "user_count", path: "company.seats", type: "number" },
  { target: "recurring_revenue", path: "company.mrr", type: "number" },
  { target: "feature_flags", path: "flags", type: "json" },
  { target: "attributes.all", path: "company", type: "json" },
];

const RULE =
  "name=Asked+for+a+demo&event=Filled+Out+*&match=all&path=properties.form&operator=in&value=demo,+trial&path=email" +
  "&operator=ends_with&value=@example.com&scoring_signal=demo&points=20&frequency=once_per_day&enabled=on&days=30" +
  "&version=1&do=save";
const EXCLUSION = "name=Own+staff&match=any&path=email&operator=ends_with&value=@example.com&days=30&version=1&do=save";
const RULE_FILE = JSON.stringify({ rules: [{ name: "r", event: "e", match: "all", scoring_signal: "s", points: 1 }] });
const TOKEN = "00000000-0000-4000-8000-000000000000";
const LIFETIME = "lifetime=at&expires=2036-11-21T10:00";
const KEY =
  `form_token=${TOKEN}&name=Website&endpoint_type=product_org&secret=on&${LIFETIME}&rows.0.target=external_id` +
  "&rows.0.path=company.id&rows.0.type=string&rows.1.target=attributes&rows.1.attribute=seats&rows.1.path=company.seats" +
  '&rows.1.type=number&rows.1.required=on&sample={"company":{"id":"c","seats":3}}';
/** A template of one's own, with a sample. */
const TEMPLATE =
  "sender=other&map.0.target=event&map.0.from=path&map.0.value=trigger&map.1.target=email&map.1.from=path&map.1.value=contact.mail" +
  "&map.1.required=on&map.2.target=id&map.2.from=text&map.2.value={trigger}:{n}&misfits=keep&answer=200&latest=on&signal=sig_1" +
  '&body={"trigger":"a","contact":{"mail":"a@example.com"},"n":1}&headers=X-Topic: a';
const DESTINATION =
  `id=dst_${TOKEN}&name=CRM&type=webhook&target=https://receiver.example.com/in&notifications=person.score_crossed` +
  "&notifications=period.closed&header_name_0=X-Api-Key&header_value_0=token";
const MEMBER = "email=new@example.com&role=admin";

/** The posted fields of each route of the pages. A route that is missing here fails the test. */
export const FORMS: Record<string, string> = {
  "POST /sign-in/local": "email=jane@example.com&to=/w",
  "POST /sign-out": "",
  "POST /w/:slug/dismiss": "what=usage&state=80&back=/w/x",
  "POST /w/:slug/people/:email/delete": "email=jane@example.com",
  "POST /w/:slug/rules": RULE,
  "POST /w/:slug/rules/:rule_id": RULE,
  "POST /w/:slug/rules/:rule_id/apply": "",
  "POST /w/:slug/rules/:rule_id/delete": "remove=on",
  "POST /w/:slug/rules/:rule_id/disable": "",
  "POST /w/:slug/rules/:rule_id/enable": "",
  "POST /w/:slug/rules/:rule_id/versions/:version{[1-9][0-9]{0,9}}/restore": "version=1",
  "POST /w/:slug/rules/exclusions": EXCLUSION,
  "POST /w/:slug/rules/exclusions/:exclusion_id": EXCLUSION,
  "POST /w/:slug/rules/exclusions/:exclusion_id/remove": "",
  "POST /w/:slug/rules/exclusions/apply": "",
  "POST /w/:slug/rules/exclusions/preview": EXCLUSION,
  "POST /w/:slug/rules/exclusions/restore": "restored=1&version=1",
  "POST /w/:slug/rules/import": `text=${RULE_FILE}&do=import&rules_version=1`,
  "POST /w/:slug/rules/preview": RULE,
  "POST /w/:slug/settings/api-keys/:key_id/deactivate": "",
  "POST /w/:slug/settings/api-keys/:key_id": "name=Another+name&silent_after_days=3",
  "POST /w/:slug/settings/api-keys/:key_id/rotate": `form_token=${TOKEN}&overlap=24h&${LIFETIME}`,
  "POST /w/:slug/settings/api-keys/:key_id/template": TEMPLATE,
  "POST /w/:slug/settings/api-keys/:key_id/template/preview": TEMPLATE,
  "POST /w/:slug/settings/api-keys/new": KEY,
  "POST /w/:slug/settings/api-keys/new/preview": KEY,
  "POST /w/:slug/settings/api-tokens/:token_id/revoke": "",
  "POST /w/:slug/settings/api-tokens/new": `form_token=${TOKEN}&name=Export&scope=read&scope=export&${LIFETIME}`,
  "POST /w/:slug/settings/members": MEMBER,
  "POST /w/:slug/settings/members/remove": MEMBER,
  "POST /w/:slug/settings/members/role": MEMBER,
  "POST /w/:slug/settings/notifications/:id/again": "since=2026-11-20T08:00:00Z",
  "POST /w/:slug/settings/notifications/:id/change": DESTINATION,
  "POST /w/:slug/settings/notifications/:id/confirm": "code=12345678",
  "POST /w/:slug/settings/notifications/:id/delete": "",
  "POST /w/:slug/settings/notifications/:id/deliveries/:delivery_id/again": "",
  "POST /w/:slug/settings/notifications/:id/pause": "",
  "POST /w/:slug/settings/notifications/:id/resume": "",
  "POST /w/:slug/settings/notifications/:id/rotate": "overlap=24h",
  "POST /w/:slug/settings/notifications/:id/test": "",
  "POST /w/:slug/settings/notifications/new": DESTINATION,
  "POST /w/:slug/settings/notifications/thresholds": "thresholds=50,+100&account_thresholds=200",
  "POST /w/:slug/signals/dead-letters/replay": "id=sig_none",
  "POST /w/:slug/usage/overages": "overages=on",
  "POST /w/:slug/usage/plan": "plan=starter",
  "POST /w/:slug/usage/release": "most=1&overages=off",
};

/** Query parameters of the pages, used alone and combined. */
export const QUERIES = [
  ...new URLSearchParams(
    "cursor=&q=jane&email=jane@example.com&event=Filled+Out+Form&source=web&status=held&status=processed&only=anonymous" +
      "&sort=score&sort=last_seen_up&sort=count&score=-5&from=2026-11-01&to=2026-11-30&key=key_none&code=event_missing" +
      "&actor=operator&action=key.created&external_id=c-1&show=scores&copy=rule_none&from=sig_none&overlap=1h" +
      "&added=jane@example.com&done=saved&program=segment&text=x&id=c-1&what=people&state=x&iss=https://example.com",
  ),
];
