/** Members of a workspace (spec §1: only owners and admins may manage keys). */
import * as z from "zod";
import { addMember, changeRole, listMembers, removeMember } from "../control/members.ts";
import { ROLES } from "../domain/keys/role.ts";
import { memberEmail } from "../domain/signal/identity.ts";
import { answer, answerPage, isoInstant, listOf, askedPage, pageQuery } from "./answers.ts";
import { contextOf, operator } from "./environment.ts";
import { operationsOf, refused } from "./operation.ts";

const operation = operationsOf("Members");

const role = z.enum(ROLES);
const member = z.object({ email: z.string(), role, created_at: isoInstant }).meta({ id: "Member" });

/** Email of a person who signs in (see `memberEmail`). */
const memberAddress = z
  .string()
  .refine((text) => memberEmail(text) !== undefined, "not an email address, or one that is easily taken for another")
  .transform((text) => memberEmail(text) ?? text)
  .meta({ format: "email", example: "jane@example.com" });

export const memberRoutes = operator
  .createApp()
  .post(
    "/workspaces/:workspace_id/members",
    operation({
      summary: "Add a member",
      body: z.strictObject({ email: memberAddress, role }),
      bodyExample: { email: "jane@example.com", role: "admin" },
      answers: { 201: { description: "The new member.", schema: member } },
      conflicts: ["email_taken", "too_many_members"],
    }),
    async (c) => {
      const added = await addMember(contextOf(c), c.req.valid("json"));
      return added.ok ? answer(c, member, added.value, 201) : refused(c, "member", added.refusal);
    },
  )
  .get(
    "/workspaces/:workspace_id/members",
    operation({
      summary: "List the members",
      query: pageQuery,
      answers: { 200: { description: "The members, by email.", schema: listOf(member) } },
    }),
    async (c) => answerPage(c, member, await listMembers(c.var.db, c.var.workspace.id, askedPage(c))),
  )
  .patch(
    "/workspaces/:workspace_id/members/:email",
    operation({
      summary: "Change a member's role",
      body: z.strictObject({ role }),
      bodyExample: { role: "owner" },
      answers: { 200: { description: "The changed member.", schema: member } },
      conflicts: ["last_owner"],
    }),
    async (c) => {
      const change = { email: normalisedEmail(c.req.param("email")), ...c.req.valid("json") };
      const changed = await changeRole(contextOf(c), change);
      return changed.ok ? answer(c, member, changed.value) : refused(c, "member", changed.refusal);
    },
  )
  .delete(
    "/workspaces/:workspace_id/members/:email",
    operation({ summary: "Remove a member", answers: { 204: { description: "Removed." } }, conflicts: ["last_owner"] }),
    async (c) => {
      const removed = await removeMember(contextOf(c), normalisedEmail(c.req.param("email")));
      return removed.ok ? c.body(null, 204) : refused(c, "member", removed.refusal);
    },
  );

function normalisedEmail(text: string): string {
  return text.trim().toLowerCase();
}
