/** Workspaces. A change is written to D1 first; a counter or store that could not be reached learns of it with the next signal. */
import * as z from "zod";
import { createWorkspace, listWorkspaces, updateWorkspace } from "../control/workspaces.ts";
import { name, time } from "../http/fields.ts";
import { configureWorkspace } from "../workspace/configure-workspace.ts";
import { answer, answerPage, idOf, isoInstant, listOf, askedPage, pageQuery } from "./answers.ts";
import { contextOf, operator } from "./environment.ts";
import { conflict, notFound, operationsOf, validationFailed } from "./operation.ts";
import { retentionDays } from "./plan-routes.ts";

const operation = operationsOf("Workspaces");

const slug = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, "lower-case letters, digits and inner hyphens; at most 63")
  .meta({ description: "The workspace's part of the pages' addresses.", example: "acme" });
const plan = z.string().min(1).meta({ description: "Id of a plan.", example: "growth" });
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

const workspaceAnswer = z
  .object({
    id: idOf("ws", "Of the workspace."),
    slug: z.string(),
    name: z.string(),
    plan: z.string(),
    overages: z.boolean(),
    anchor: isoInstant,
    created_at: isoInstant,
    retention_days: retentionDays.describe("Days for which the plan keeps a signal. Null: signals are kept for ever."),
  })
  .meta({ id: "Workspace" });

const PLAN_UNKNOWN = [{ path: "plan", message: "there is no such plan" }];

export const workspaceRoutes = operator
  .createApp()
  .post(
    "/workspaces",
    operation({
      summary: "Create a workspace",
      body: newWorkspace,
      bodyExample: { slug: "acme", name: "Acme", plan: "growth" },
      answers: { 201: { description: "The new workspace.", schema: workspaceAnswer } },
      conflicts: ["slug_taken"],
    }),
    async (c) => {
      const { db, by } = c.var;
      const { anchor = new Date(by.nowMs).toISOString(), ...fields } = c.req.valid("json");
      const created = await createWorkspace(db, { ...fields, anchor }, by);
      if (!created.ok) {
        return created.refusal === "slug_taken" ? conflict(c, "slug_taken") : validationFailed(c, PLAN_UNKNOWN);
      }
      await configureWorkspace(c.env, db, created.value.id);
      return answer(c, workspaceAnswer, created.value, 201);
    },
  )
  .get(
    "/workspaces",
    operation({
      summary: "List the workspaces",
      query: pageQuery,
      answers: { 200: { description: "The workspaces, newest first.", schema: listOf(workspaceAnswer) } },
    }),
    async (c) => answerPage(c, workspaceAnswer, await listWorkspaces(c.var.db, askedPage(c))),
  )
  .get(
    "/workspaces/:workspace_id",
    operation({
      summary: "Get a workspace",
      answers: { 200: { description: "The workspace.", schema: workspaceAnswer } },
    }),
    (c) => answer(c, workspaceAnswer, c.var.workspace),
  )
  .patch(
    "/workspaces/:workspace_id",
    operation({
      summary: "Change plan, overages or name",
      description:
        "Takes effect with the next signal. If the Quota Counter cannot be reached, the change takes effect within a minute " +
        "of the workspace's next call. Held signals stay held.",
      body: workspaceChange,
      bodyExample: { plan: "scale", overages: true },
      answers: { 200: { description: "The changed workspace.", schema: workspaceAnswer } },
    }),
    async (c) => {
      const { db, workspace } = c.var;
      const updated = await updateWorkspace(contextOf(c), c.req.valid("json"));
      if (!updated.ok) {
        return updated.refusal === "not_found" ? notFound(c, "workspace") : validationFailed(c, PLAN_UNKNOWN);
      }
      await configureWorkspace(c.env, db, workspace.id);
      return answer(c, workspaceAnswer, updated.value);
    },
  );
