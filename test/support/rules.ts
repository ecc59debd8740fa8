/** Mapping rules of a test's workspace, by the operator API. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { TestWorkspace } from "./workspace.ts";

export const RULE = { name: "Asked for a demo", event: "Form", scoring_signal: "demo", points: 20 };

/** A condition of this size with its path, in lists of at most 200. */
export function conditionsOf(size: number, text = "value") {
  const lists: { path: string; operator: "in"; value: string[] }[] = [];
  for (let left = size, number = 0; left > 0; number++) {
    const count = Math.min(200, left - 1);
    const value = Array.from({ length: count }, (_, n) => `${text} ${number} ${n}`.padEnd(45, "v"));
    lists.push({ path: "event", operator: "in", value });
    left -= 1 + count;
  }
  return lists;
}

/** Number and total size of the workspace's rules in D1. */
export async function storedRules({ id }: TestWorkspace): Promise<{ count: number; size: number }> {
  const sums = env.DB.prepare("SELECT count(*) AS count, sum(size) AS size FROM mapping_rules WHERE workspace_id = ?");
  return (await sums.bind(id).first<{ count: number; size: number }>()) ?? { count: 0, size: 0 };
}

/** Applies a rule to the past. Returns the finished job. */
export async function applyRule(workspace: TestWorkspace, ruleId: string): Promise<Record<string, unknown>> {
  await workspace.operator("POST", `/rules/${ruleId}/apply`);
  return ruleApplied(workspace, ruleId);
}

/** Applies the exclusions to the past. Returns the finished job. */
export async function applyExclusions(workspace: TestWorkspace): Promise<Record<string, unknown>> {
  await workspace.operator("POST", "/exclusions/apply");
  return applied(workspace, "/exclusions/apply");
}

/** Drives the store's alarm until a rule has been applied to the past. Returns the finished job. */
export function ruleApplied(workspace: TestWorkspace, ruleId: string): Promise<Record<string, unknown>> {
  return applied(workspace, `/rules/${ruleId}/apply`);
}

async function applied(workspace: TestWorkspace, path: string): Promise<Record<string, unknown>> {
  for (let steps = 0; steps < 100; steps++) {
    const job = await workspace.operator("GET", path);
    if (job["status"] === "done") return job;
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
  }
  throw new Error("never done");
}
