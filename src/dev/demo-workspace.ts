/** The workspaces of `npm run dev` and `npm run demo`: members, mapping rules and keys. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { PointsLastDays } from "../domain/rules/mapping-rule.ts";
import type { DemoKeys } from "./demo/senders.ts";
import type { CreatedKeyAnswer, OperatorClient, WorkspaceAnswer } from "./operator-client.ts";

interface Member {
  email: string;
  role: "owner" | "admin" | "member";
}

interface Rule {
  name: string;
  event: string;
  conditions?: { path: string; operator: string; value?: unknown }[];
  scoring_signal: string;
  points: number;
  points_last_days?: PointsLastDays;
}

export interface DemoWorkspace {
  workspace_id: string;
  key_id: string;
  key: string;
}

export const DEMO_SLUG = "demo";

export const DEMO_MEMBERS: Member[] = [
  { email: "owner@example.com", role: "owner" },
  { email: "admin@example.com", role: "admin" },
  { email: "member@example.com", role: "member" },
];

export const SEED_RULES: Rule[] = [
  {
    name: "Asked for a demo",
    event: "Filled Out Form",
    conditions: [{ path: "properties.form_name", operator: "contains", value: "demo" }],
    scoring_signal: "demo_requested",
    points: 20,
  },
  {
    name: "Looked at the prices",
    event: "Page Viewed",
    conditions: [{ path: "properties.url", operator: "contains", value: "/pricing" }],
    scoring_signal: "pricing_viewed",
    points: 5,
    points_last_days: 30,
  },
  { name: "Unsubscribed", event: "Unsubscribed", scoring_signal: "unsubscribed", points: -10 },
];

export function demoWorkspaceFile(stateDir: string): string {
  return path.join(stateDir, "demo-workspace.json");
}

/**
 * The workspace of `npm run dev`. Creates missing parts once; later changes and removals by the developer are kept. The
 * service shows the full key only once, so a file beside the local state keeps it. The file is written last: if it is
 * missing, an interrupted run is completed.
 */
export async function seedDemoWorkspace(operator: OperatorClient, stateDir: string): Promise<DemoWorkspace> {
  const kept = await readKept(stateDir);
  const workspaces = await operator.list<WorkspaceAnswer>("workspaces");
  const found = workspaces.find((workspace) => workspace.slug === DEMO_SLUG);
  if (found !== undefined && found.id === kept?.workspace_id && (await isActive(operator, kept))) return kept;

  const workspace =
    found ??
    (await operator.post<WorkspaceAnswer>("workspaces", { slug: DEMO_SLUG, name: "Demo workspace", plan: "growth" }));
  const home = `workspaces/${workspace.id}`;
  if (kept?.workspace_id !== workspace.id) await addMembersAndRules(operator, home, SEED_RULES);
  const key = await operator.post<CreatedKeyAnswer>(`${home}/keys`, { name: "Demo key" });
  const made = { workspace_id: workspace.id, key_id: key.id, key: key.key };
  await writeFile(demoWorkspaceFile(stateDir), `${JSON.stringify(made, null, 2)}\n`, { mode: 0o600 });
  return made;
}

/** Adds the members and rules that the workspace does not have. @param home the workspace's path below `/operator/`. */
async function addMembersAndRules(operator: OperatorClient, home: string, wanted: Rule[]): Promise<void> {
  const members = new Set((await operator.list<Member>(`${home}/members`)).map(({ email }) => email));
  for (const member of DEMO_MEMBERS) if (!members.has(member.email)) await operator.post(`${home}/members`, member);
  const rules = new Set((await operator.list<Rule>(`${home}/rules`)).map(({ name }) => name));
  for (const rule of wanted) if (!rules.has(rule.name)) await operator.post(`${home}/rules`, rule);
}

async function isActive(operator: OperatorClient, { workspace_id, key_id }: DemoWorkspace): Promise<boolean> {
  const keys = await operator.list<{ id: string; status: string }>(`workspaces/${workspace_id}/keys`);
  return keys.some((key) => key.id === key_id && key.status === "Active");
}

/** The workspace in the file; undefined if the file is missing or incomplete. */
async function readKept(stateDir: string): Promise<DemoWorkspace | undefined> {
  try {
    const kept = JSON.parse(await readFile(demoWorkspaceFile(stateDir), "utf8")) as Partial<DemoWorkspace>;
    const { workspace_id, key_id, key } = kept;
    return workspace_id && key_id && key ? { workspace_id, key_id, key } : undefined;
  } catch {
    return undefined;
  }
}

const DEMO_RULES: Rule[] = [
  ...SEED_RULES,
  { name: "Used a feature", event: "Feature *", scoring_signal: "product_usage", points: 2, points_last_days: 30 },
  {
    name: "Attended a webinar",
    event: "Attended - *",
    scoring_signal: "webinar_attended",
    points: 5,
    points_last_days: 180,
  },
];

const PAYLOAD_TEMPLATE = [
  { target: "external_id", path: "company.id", type: "string", required: true },
  { target: "name", path: "company.name", type: "string" },
  { target: "plan", path: "subscription.plan", type: "string" },
  { target: "user_count", path: "subscription.seats", type: "number" },
  { target: "recurring_revenue", path: "subscription.mrr", type: "number" },
];

export async function createDemoWorkspace(
  operator: OperatorClient,
): Promise<{ workspace: WorkspaceAnswer; keys: DemoKeys; rules: number }> {
  await operator.call("PUT", "plans/demo", { name: "Demo", signal_limit: 1_000, paid: true });
  const workspace = await operator.post<WorkspaceAnswer>("workspaces", { slug: "demo", name: "Demo", plan: "demo" });
  const home = `workspaces/${workspace.id}`;
  await addMembersAndRules(operator, home, DEMO_RULES);
  return { workspace, rules: DEMO_RULES.length, keys: await createKeys(operator, home) };
}

export async function createKeys(operator: OperatorClient, home: string): Promise<DemoKeys> {
  const create = (fields: object) => operator.post<CreatedKeyAnswer>(`${home}/keys`, fields);
  const campaigns = await create({ name: "Campaigns and website" });
  const crm = await create({ name: "CRM workflows", secret: true });
  const accounts = await create({
    name: "Product database",
    endpoint_type: "product_org",
    payload_template: PAYLOAD_TEMPLATE,
  });
  const retired = await create({ name: "Last year's campaign" });
  await operator.post(`${home}/keys/${retired.id}/deactivate`);

  const secret = crm.secret ?? "";
  return { campaigns: campaigns.key, crm: { key: crm.key, secret }, accounts: accounts.key, retired: retired.key };
}
