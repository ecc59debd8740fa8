/**
 * The workspace of `npm run dev`: members, mapping rules and a key. The service shows the full key only once, so a
 * file beside the local state keeps it. The file is written last: if it is missing, an interrupted run is completed.
 */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type {
  KeyAnswer,
  CreatedKeyAnswer,
  MemberAnswer,
  RuleBody,
  OperatorClient,
  WorkspaceAnswer,
} from "./operator-client.ts";

export interface DemoWorkspace {
  workspace_id: string;
  key_id: string;
  key: string;
}

export const DEMO_SLUG = "demo";

export const DEMO_MEMBERS: MemberAnswer[] = [
  { email: "owner@example.com", role: "owner" },
  { email: "admin@example.com", role: "admin" },
  { email: "member@example.com", role: "member" },
];

export const DEMO_RULES: RuleBody[] = [
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
  },
  { name: "Unsubscribed", event: "Unsubscribed", scoring_signal: "unsubscribed", points: -10 },
];

export function demoWorkspaceFile(stateDir: string): string {
  return path.join(stateDir, "demo-workspace.json");
}

/** Creates missing parts once. Later changes and removals by the developer are kept. */
export async function seedDemoWorkspace(operator: OperatorClient, stateDir: string): Promise<DemoWorkspace> {
  const kept = await readKept(stateDir);
  const workspaces = await operator.list<WorkspaceAnswer>("workspaces");
  const found = workspaces.find((workspace) => workspace.slug === DEMO_SLUG);
  if (found !== undefined && found.id === kept?.workspace_id && (await isActive(operator, kept))) return kept;

  const workspace =
    found ??
    (await operator.post<WorkspaceAnswer>("workspaces", { slug: DEMO_SLUG, name: "Demo workspace", plan: "growth" }));
  const home = `workspaces/${workspace.id}`;
  if (kept?.workspace_id !== workspace.id) {
    const members = new Set((await operator.list<MemberAnswer>(`${home}/members`)).map(({ email }) => email));
    for (const member of DEMO_MEMBERS) if (!members.has(member.email)) await operator.post(`${home}/members`, member);
    const rules = new Set((await operator.list<RuleBody>(`${home}/rules`)).map(({ name }) => name));
    for (const rule of DEMO_RULES) if (!rules.has(rule.name)) await operator.post(`${home}/rules`, rule);
  }
  const key = await operator.post<CreatedKeyAnswer>(`${home}/keys`, { name: "Demo key" });
  const made = { workspace_id: workspace.id, key_id: key.id, key: key.key };
  await writeFile(demoWorkspaceFile(stateDir), `${JSON.stringify(made, null, 2)}\n`, { mode: 0o600 });
  return made;
}

async function isActive(operator: OperatorClient, { workspace_id, key_id }: DemoWorkspace): Promise<boolean> {
  const keys = await operator.list<KeyAnswer>(`workspaces/${workspace_id}/keys`);
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
