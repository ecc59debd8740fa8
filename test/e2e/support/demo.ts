/** A workspace with records of every kind: the signals of the demo's senders, and dead letters. */
import {
  type Call,
  customerDataPlatforms,
  imports,
  BEYOND_LIMIT,
  beyondTheLimit,
  crmWorkflows,
  marketing,
  mistakes,
} from "../../../src/dev/demo/senders.ts";
import { createDemoWorkspace } from "../../../src/dev/demo-workspace.ts";

import { OperatorClient, untilProcessed } from "../../../src/dev/operator-client.ts";
import type { RunningWorker } from "../../bench/start.ts";

export interface Demo {
  /** Its pages are at `/w/{slug}`, its members are owner@, admin@ and member@example.com. */
  slug: string;
  id: string;
  /** The key of campaigns and the website. */
  keyId: string;
  ruleId: string;
  /** Id of a signal that has scored. */
  scored: string;
  /** Ids of an unreachable destination and of a failed delivery; below `/settings/notifications/`. */
  destination: string;
  delivery: string;
}

export async function fillDemo(running: RunningWorker, token: string): Promise<Demo> {
  const operator = new OperatorClient(running.origin, token);
  const { workspace, keys } = await createDemoWorkspace(operator);
  const home = `workspaces/${workspace.id}`;
  const send = ({ path, ...call }: Call) => fetch(running.origin + path, { method: "POST", ...call });

  const senders = [marketing, crmWorkflows, customerDataPlatforms, imports, mistakes].map((sender) => sender(keys));
  const last = beyondTheLimit(keys);
  const deliveries = [...senders, last].flatMap((sender) => sender.deliveries);
  const kept = deliveries.reduce((sum, delivery) => sum + delivery.kept, 0);
  // Room for the dead letter, which comes before the limit is reached.
  const limit = { name: "Demo", signal_limit: kept + 1 - BEYOND_LIMIT, paid: true };
  await operator.call("PUT", "plans/demo", limit);
  // A request for the usage makes sure that the counter has the plan.
  await operator.call("GET", `${home}/usage`);
  for (const { calls } of senders.flatMap((sender) => sender.deliveries)) for (const call of calls) await send(call);
  await makeDeadLetter(running, operator, home);
  for (const { calls } of last.deliveries) for (const call of calls) await send(call);
  // Held, and the only signal of this email: it creates no person.
  const unknown = JSON.stringify({ email: "otto@example.com", event: "Filled Out Form", source: "event-app" });
  await send({ path: `/api/signal-staging/webhook/${keys.campaigns}`, body: unknown });
  await untilProcessed(operator, home);

  await makeTokens(operator, home);
  const [rules, allKeys, signals] = await Promise.all([
    operator.list<{ id: string; name: string }>(`${home}/rules`),
    operator.list<{ id: string; name: string }>(`${home}/keys`),
    operator.get<{ items: { id: string }[] }>(`${home}/signals?event=Filled%20Out%20Form&email=joanna@example.com`),
  ]);
  return {
    slug: workspace.slug,
    id: workspace.id,
    keyId: idOf(allKeys, "Campaigns and website"),
    ruleId: idOf(rules, "Asked for a demo"),
    scored: signals.items.at(-1)?.id ?? "",
    ...(await makeDestination(operator, home)),
  };
}

/** An API token that expires soon, and a revoked one. */
async function makeTokens(operator: OperatorClient, home: string): Promise<void> {
  const scopes = ["read", "rules", "keys", "export", "delete"];
  const soon = new Date(Date.now() + 3 * 24 * 3_600_000).toISOString();
  await operator.post(`${home}/tokens`, { name: "Rules from Git", scopes, expires_at: soon });
  const { id } = await operator.post<{ id: string }>(`${home}/tokens`, { name: "Old export", scopes: ["export"] });
  await operator.post(`${home}/tokens/${id}/revoke`);
}

/** A port without a listener. */
async function makeDestination(operator: OperatorClient, home: string) {
  const fields = { name: "CRM", type: "webhook", target: "http://127.0.0.1:9/hooks", notifications: ["key.silent"] };
  const { id } = await operator.post<{ id: string }>(`${home}/destinations`, fields);
  const delivery = await operator.post<{ id: string }>(`${home}/destinations/${id}/test`);
  return { destination: id, delivery: `${id}/deliveries/${delivery.id}` };
}

/** An account update that no longer matches its key's payload template when it is processed. */
async function makeDeadLetter(running: RunningWorker, operator: OperatorClient, home: string): Promise<void> {
  const template = [{ target: "external_id", path: "id", type: "string", required: true }];
  const fields = { name: "Old export job", endpoint_type: "product_org", payload_template: template };
  const { id, key } = await operator.post<{ id: string; key: string }>(`${home}/keys`, fields);
  const send = (body: object) =>
    fetch(`${running.origin}/api/product-orgs/webhook/${key}`, { method: "POST", body: JSON.stringify(body) });
  // Rejected; from now on the edge caches the key with its current template.
  await send({});
  const database = await running.miniflare.getD1Database("DB", "worker");
  const changed = JSON.stringify([{ ...template[0], path: "account.id" }]);
  await database.prepare("UPDATE payload_templates SET template = ? WHERE id = ?").bind(changed, id).run();
  await send({ id: "acct-12" });
}

function idOf(items: { id: string; name: string }[], name: string): string {
  const found = items.find((item) => item.name === name);
  if (found === undefined) throw new Error(`There is no "${name}".`);
  return found.id;
}
