/** Creates the workspace of the demo with plan, mapping rules and keys. */
import { DEMO_MEMBERS, DEMO_RULES } from "../demo-workspace.ts";
import type { CreatedKeyAnswer, RuleBody, OperatorClient, WorkspaceAnswer } from "../operator-client.ts";
import type { DemoKeys } from "./senders.ts";

const RULES: RuleBody[] = [
  ...DEMO_RULES,
  { name: "Used a feature", event: "Feature *", scoring_signal: "product_usage", points: 2 },
  { name: "Attended a webinar", event: "Attended - *", scoring_signal: "webinar_attended", points: 5 },
];

/** Fields of the account data that imports() sends. */
const PAYLOAD_TEMPLATE = [
  { target: "external_id", path: "company.id", type: "string", required: true },
  { target: "name", path: "company.name", type: "string" },
  { target: "plan", path: "subscription.plan", type: "string" },
  { target: "user_count", path: "subscription.seats", type: "number" },
  { target: "recurring_revenue", path: "subscription.mrr", type: "number" },
];

/** Creates a workspace with the keys of its senders. */
export async function provision(
  operator: OperatorClient,
): Promise<{ workspace: WorkspaceAnswer; keys: DemoKeys; rules: number }> {
  await operator.call("PUT", "plans/demo", { name: "Demo", signal_limit: 1_000, paid: true });
  const workspace = await operator.post<WorkspaceAnswer>("workspaces", { slug: "demo", name: "Demo", plan: "demo" });
  const home = `workspaces/${workspace.id}`;
  for (const member of DEMO_MEMBERS) await operator.post(`${home}/members`, member);
  for (const rule of RULES) await operator.post(`${home}/rules`, rule);

  return { workspace, rules: RULES.length, keys: await createKeys(operator, home) };
}

/** @param home the workspace's path below `/operator/`. */
export async function createKeys(operator: OperatorClient, home: string): Promise<DemoKeys> {
  const create = (fields: object): Promise<CreatedKeyAnswer> => operator.post<CreatedKeyAnswer>(`${home}/keys`, fields);
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
