/** A workspace with records of every kind: the target of hostile calls, with checks that it is intact afterwards. */
import { env } from "cloudflare:workers";
import { newMembers } from "../members.ts";
import type { Members } from "../members.ts";
import { newPlan, newWorkspace, operator } from "../workspace.ts";
import type { TestKey, TestWorkspace } from "../workspace.ts";
import { ACCOUNT_TEMPLATE, ACCOUNTS, SIGNALS } from "./bodies.ts";

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
  const destination = {
    name: "d",
    type: "webhook",
    target: "https://receiver.example.com/in",
    events: ["period.closed"],
  };
  const { id: destinationId } = await workspace.operator<{ id: string }>("POST", "/destinations", destination);
  const delivery = await workspace.operator<{ id?: string }>("POST", `/destinations/${destinationId}/test`);
  const { items } = await workspace.operator<{ items: { id: string; email: string | null }[] }>("GET", "/signals");
  const deletion = await workspace.operator<{ id: string }>("DELETE", "/people/gone@example.com");
  const { id: keyId } = await workspace.newKey();
  await workspace.operator("POST", "/members", { email: "other@example.com", role: "admin" });
  return {
    slug,
    workspace_id: workspace.id,
    key_id: keyId,
    rule_id: ruleId,
    email: "jane@example.com",
    person_email: "jane@example.com",
    id: destinationId,
    destination_id: destinationId,
    delivery_id: delivery.id ?? "whd_none",
    deletion_id: deletion.id,
    signal_id: items[0]?.id ?? "",
    version: "1",
    plan_id: await newPlan(1_000),
    one: "c-1",
  };
}

/** The score of a new signal of a new person, in a workspace that the calls may have changed. */
export async function scoreOfNewSignal(workspace: TestWorkspace): Promise<unknown> {
  const event = `Sound ${crypto.randomUUID()}`;
  const email = `sound-${crypto.randomUUID()}@example.com`;
  // The calls may have changed the plan and the rules: makes room for one more of each.
  await workspace.operator("PATCH", "", { overages: true });
  const { items } = await workspace.operator<{ items: { id: string }[] }>("GET", "/rules?limit=200");
  for (const { id } of items) await workspace.operator("DELETE", `/rules/${id}`);
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
  ...["api_keys", "members", "rule_versions", "mapping_rules", "audit_log", "deletions", "restores"].map(
    (table) => `${table} WHERE workspace_id`,
  ),
  "workspaces WHERE id",
];
