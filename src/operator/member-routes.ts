/** Members of a workspace (spec §1: only owners and admins may manage keys). */
import * as z from "zod";
import { addMember, changeRole, listMembers, removeMember, type Member } from "../control/members.ts";
import { ROLES } from "../domain/keys/role.ts";
import { byOperator, operator } from "./environment.ts";
import { conflict, notFound, operation } from "./operation.ts";
import { instant, listOf, mapPage, memberAddress, pageAsked, pageQuery } from "./schema-parts.ts";
import { TOO_MANY_MEMBERS } from "../workspace/refusal-copy.ts";

const role = z.enum(ROLES);
const memberAnswer = z.object({ email: z.string(), role, created_at: instant }).meta({ id: "Member" });

const NOT_ADDED = {
  email_taken: "This address is a member already. Its role can be changed with PATCH.",
  too_many_members: TOO_MANY_MEMBERS,
};
const LAST_OWNER = "This is the last owner. Make another member an owner first.";

export const memberRoutes = operator
  .createApp()
  .post(
    "/workspaces/:workspace_id/members",
    operation({
      tag: "Members",
      summary: "Add a member",
      body: z.strictObject({ email: memberAddress, role }),
      bodyExample: { email: "jane@example.com", role: "admin" },
      answers: { 201: { description: "The new member.", schema: memberAnswer } },
      conflicts: ["email_taken", "too_many_members"],
    }),
    async (c) => {
      const added = await addMember(c.get("db"), c.get("workspace").id, c.req.valid("json"), byOperator());
      return added.ok ? c.json(memberJson(added.value), 201) : conflict(c, added.refusal, NOT_ADDED[added.refusal]);
    },
  )
  .get(
    "/workspaces/:workspace_id/members",
    operation({
      tag: "Members",
      summary: "List the members",
      query: pageQuery,
      answers: { 200: { description: "The members, by email.", schema: listOf(memberAnswer) } },
    }),
    async (c) => {
      const page = await listMembers(c.get("db"), c.get("workspace").id, pageAsked(c.req.valid("query")));
      return c.json(mapPage(page, memberJson));
    },
  )
  .patch(
    "/workspaces/:workspace_id/members/:email",
    operation({
      tag: "Members",
      summary: "Change a member's role",
      body: z.strictObject({ role }),
      bodyExample: { role: "owner" },
      answers: { 200: { description: "The member as it is now.", schema: memberAnswer } },
      conflicts: ["last_owner"],
    }),
    async (c) => {
      const member = { email: c.req.param("email").trim().toLowerCase(), role: c.req.valid("json").role };
      const changed = await changeRole(c.get("db"), c.get("workspace").id, member, byOperator());
      if (changed.ok) return c.json(memberJson(changed.value));
      return changed.refusal === "not_found" ? notFound(c, "member") : conflict(c, "last_owner", LAST_OWNER);
    },
  )
  .delete(
    "/workspaces/:workspace_id/members/:email",
    operation({
      tag: "Members",
      summary: "Remove a member",
      answers: { 204: { description: "Removed." } },
      conflicts: ["last_owner"],
    }),
    async (c) => {
      const address = c.req.param("email").trim().toLowerCase();
      const removed = await removeMember(c.get("db"), c.get("workspace").id, address, byOperator());
      if (removed.ok) return c.body(null, 204);
      return removed.refusal === "not_found" ? notFound(c, "member") : conflict(c, "last_owner", LAST_OWNER);
    },
  );

function memberJson({ createdAt, ...member }: Member): z.infer<typeof memberAnswer> {
  return { ...member, created_at: createdAt };
}
