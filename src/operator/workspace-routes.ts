/**
 * Workspaces: D1 first, then their two objects. A counter or store that was not reached learns of it with the workspace's next
 * signal.
 */
import * as z from "zod";
import { createWorkspace, listWorkspaces, updateWorkspace, type Workspace } from "../control/workspaces.ts";
import { byOperator, operator } from "./environment.ts";
import { conflict, notFound, operation, validationFailed } from "./operation.ts";
import { idOf, instant, listOf, mapPage, name, pageAsked, pageQuery, retentionDays, time } from "./schema-parts.ts";
import { configureWorkspace } from "../workspace/configure-workspace.ts";

const slug = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, "lower-case letters, digits and inner hyphens; at most 63")
  .meta({ description: "Its place in the pages' addresses.", example: "acme" });
const plan = z.string().min(1).meta({ description: "Id of a plan.", example: "growth" });
const overages = z.boolean().meta({ description: "Pay-as-you-go beyond the signal limit." });

const newWorkspace = z.strictObject({
  slug,
  name,
  plan,
  overages: overages.default(false),
  anchor: time
    .optional()
    .meta({ description: "Billing periods are calendar months from here, at its time of day. Now, when left out." }),
});
const workspaceChange = z.strictObject({ plan, overages, name }).partial();

const workspaceAnswer = z
  .object({
    id: idOf("ws", "Of the workspace."),
    slug: z.string(),
    name: z.string(),
    plan: z.string(),
    overages: z.boolean(),
    anchor: instant,
    created_at: instant,
    retention_days: retentionDays.meta({ description: "The plan's: days that a signal is kept; null: for ever." }),
  })
  .meta({ id: "Workspace" });

const PLAN_UNKNOWN = [{ path: "plan", message: "there is no such plan" }];

export const workspaceRoutes = operator
  .createApp()
  .post(
    "/workspaces",
    operation({
      tag: "Workspaces",
      summary: "Create a workspace",
      body: newWorkspace,
      bodyExample: { slug: "acme", name: "Acme", plan: "growth" },
      answers: { 201: { description: "The new workspace.", schema: workspaceAnswer } },
      conflicts: ["slug_taken"],
    }),
    async (c) => {
      const by = byOperator();
      const { anchor = new Date(by.nowMs).toISOString(), ...fields } = c.req.valid("json");
      const created = await createWorkspace(c.get("db"), { ...fields, anchor }, by);
      if (!created.ok && created.refusal === "slug_taken")
        return conflict(c, "slug_taken", "Another workspace has this slug.");
      if (!created.ok) return validationFailed(c, PLAN_UNKNOWN);
      await configureWorkspace(c.env, c.get("db"), created.value.id);
      return c.json(workspaceJson(created.value), 201);
    },
  )
  .get(
    "/workspaces",
    operation({
      tag: "Workspaces",
      summary: "List the workspaces",
      query: pageQuery,
      answers: { 200: { description: "The workspaces, newest first.", schema: listOf(workspaceAnswer) } },
    }),
    async (c) => c.json(mapPage(await listWorkspaces(c.get("db"), pageAsked(c.req.valid("query"))), workspaceJson)),
  )
  .get(
    "/workspaces/:workspace_id",
    operation({
      tag: "Workspaces",
      summary: "Get a workspace",
      answers: { 200: { description: "The workspace.", schema: workspaceAnswer } },
    }),
    (c) => c.json(workspaceJson(c.get("workspace"))),
  )
  .patch(
    "/workspaces/:workspace_id",
    operation({
      tag: "Workspaces",
      summary: "Change plan, overages or name",
      description:
        "Takes effect with the next signal; where the Quota Counter cannot be reached, within a minute of the workspace's " +
        "next call after that. Signals already held stay held.",
      body: workspaceChange,
      bodyExample: { plan: "scale", overages: true },
      answers: { 200: { description: "The workspace as it is now.", schema: workspaceAnswer } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const updated = await updateWorkspace(c.get("db"), id, c.req.valid("json"), byOperator());
      if (!updated.ok)
        return updated.refusal === "not_found" ? notFound(c, "workspace") : validationFailed(c, PLAN_UNKNOWN);
      await configureWorkspace(c.env, c.get("db"), id);
      return c.json(workspaceJson(updated.value));
    },
  );

function workspaceJson(all: Workspace): z.infer<typeof workspaceAnswer> {
  const { createdAt, retentionDays: days, configVersion: _version, ...workspace } = all;
  return { ...workspace, created_at: createdAt, retention_days: days };
}
