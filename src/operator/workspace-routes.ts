/** Workspaces. A change is written to D1 first; a counter or store that could not be reached learns of it with the next signal. */
import * as z from "zod";
import { createWorkspace, listWorkspaces, updateWorkspace } from "../d1/workspaces.ts";
import { reject } from "../domain/result.ts";
import { configuredJurisdiction } from "../env.ts";
import { name, recordId, boundedText, time } from "../http/fields.ts";
import { endOfWorkspace, requestEnd } from "../use-cases/end-workspace.ts";
import { configureWorkspace } from "../use-cases/configure-workspace.ts";
import { reconcile } from "../use-cases/reconcile.ts";
import { listQueryOf, count, idOf, isoInstant, listOf, listQuery, contextOf, operationsOf } from "./operation.ts";
import { retentionDays } from "./plan-routes.ts";

const operation = operationsOf("Workspaces", "workspace");

const NOT_A_SLUG = "lower-case letters, digits and inner hyphens; at most 63";
export const slug = boundedText(63, { error: NOT_A_SLUG })
  .regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, NOT_A_SLUG)
  .meta({ description: "The workspace's part of the pages' addresses.", example: "acme" });
const plan = recordId.min(1).meta({ description: "Id of a plan.", example: "growth" });
const overages = z.boolean().describe("Pay-as-you-go beyond the signal limit.");

const newWorkspace = z.strictObject({
  slug,
  name,
  plan,
  overages: overages.default(false),
  anchor: time
    .optional()
    .describe("Start of the first billing period. Periods are calendar months from this time. Default: now."),
});
const workspaceChange = z.strictObject({ plan, overages, name }).partial();

const workspace = z
  .object({
    id: idOf("ws", "Of the workspace."),
    slug: z.string(),
    name: z.string(),
    plan: z.string(),
    overages: z.boolean(),
    anchor: isoInstant,
    created_at: isoInstant,
    state: z
      .enum(["active", "closed", "importing", "ended"])
      .describe("`closed`, `importing`: it takes no signals, and senders get 503."),
    retention_days: retentionDays.describe("Days for which the plan keeps a signal. Null: signals are kept for ever."),
  })
  .meta({ id: "Workspace" });

const reconciled = z.object({
  keys_deactivated: count.describe("Deactivated keys that the Quota Counter or D1 had as active."),
  config_version_raised: z.boolean().describe("Whether D1 had an older plan than the Quota Counter."),
  rule_versions_raised: z.boolean().describe("Whether mapping rules got later versions."),
  payloads_lost: count.describe("Signals whose payload is missing in R2."),
});

const end = z
  .object({
    workspace_id: idOf("ws", "Of the workspace. No other workspace will get it."),
    slug: z.string().describe("That it had. Another workspace may take it when the end is complete."),
    requested_at: isoInstant,
    finished_at: isoInstant.nullable(),
    complete: z.boolean().describe("False while data is being deleted. It goes on by itself."),
    signals: count.describe("Signals that it had accepted or held."),
    people: count,
    keys: count,
    rules: count,
    members: count,
    destinations: count,
    cold_objects: count.describe("Objects in R2."),
  })
  .meta({ id: "EndOfWorkspace" });

const PLAN_UNKNOWN = reject([{ path: "plan", message: "there is no such plan" }]);

export const workspaceRoutes = [
  operation("POST", "/workspaces", {
    summary: "Create a workspace",
    body: newWorkspace,
    bodyExample: { slug: "acme", name: "Acme", plan: "growth" },
    answers: { 201: "The new workspace." },
    schema: workspace,
    conflicts: ["slug_taken"],
    async handle(c, { body: { anchor = new Date(c.var.by.nowMs).toISOString(), ...fields } }) {
      const { db, by } = c.var;
      const jurisdiction = configuredJurisdiction(c.env);
      const created = await createWorkspace(db, { ...fields, anchor, jurisdiction }, by);
      if (!created.ok) return created.rejection === "plan_unknown" ? PLAN_UNKNOWN : reject(created.rejection);
      await configureWorkspace(c.env, db, created.value.id);
      return created;
    },
  }),
  operation("GET", "/workspaces", {
    summary: "List the workspaces",
    query: listQuery,
    answers: { 200: "The workspaces, newest first." },
    schema: listOf(workspace),
    handle: (c, { query }) => listWorkspaces(c.var.db, listQueryOf(query)),
  }),
  operation("GET", "/workspaces/:workspace_id", {
    summary: "Get a workspace",
    scope: "read",
    answers: { 200: "The workspace." },
    schema: workspace,
    handle: (c) => c.var.workspace,
  }),
  operation("PATCH", "/workspaces/:workspace_id", {
    summary: "Change plan, overages or name",
    description:
      "Takes effect with the next signal. If the Quota Counter cannot be reached, the change takes effect within a minute " +
      "of the workspace's next call. Held signals stay held.",
    body: workspaceChange,
    bodyExample: { plan: "scale", overages: true },
    answers: { 200: "The changed workspace." },
    schema: workspace,
    async handle(c, { body }) {
      const updated = await updateWorkspace(contextOf(c), body);
      if (!updated.ok) return updated.rejection === "plan_unknown" ? PLAN_UNKNOWN : reject(updated.rejection);
      await configureWorkspace(c.env, c.var.db, c.var.workspace.id);
      return updated;
    },
  }),
  operation("DELETE", "/workspaces/:workspace_id", {
    summary: "End a workspace",
    description:
      "Deletes the workspace for good. When it returns, every call with one of its keys gets 401. Signals on their way, " +
      "notifications and all stored data are deleted, in D1, in the objects and in R2. Nothing brings them back but the file of an " +
      "earlier export. A repeated call returns the receipt.",
    body: z.strictObject({ slug }),
    bodyExample: { slug: "acme" },
    answers: { 200: "The receipt. While `complete` is false, get it again." },
    schema: end,
    conflicts: ["slug_differs"],
    handle: (c, { body }) => requestEnd(contextOf(c), body.slug, c.var.workspace),
  }),
  operation("GET", "/workspaces/:workspace_id/end", {
    summary: "Get the receipt of a workspace's end",
    description: "For 31 days.",
    noun: "receipt",
    answers: { 200: "The receipt." },
    schema: end,
    handle: (c) => endOfWorkspace(contextOf(c)),
  }),
  operation("POST", "/workspaces/:workspace_id/reconcile", {
    summary: "Reconcile a workspace after a loss",
    description:
      "Call this after D1 was restored to an earlier moment, or when an object or the bucket was lost. Deactivated keys are " +
      "deactivated in the Quota Counter and in D1, D1's plan takes effect again, mapping rules get versions that the Signal " +
      "Store has not seen yet, and payloads that are missing in R2 are marked as lost. A healthy workspace does not change.",
    answers: { 200: "What was changed." },
    schema: reconciled,
    handle: (c) => reconcile(contextOf(c)),
  }),
];
