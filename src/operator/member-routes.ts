/** Members of a workspace (spec §1: only owners and admins may manage keys). */
import * as z from "zod";
import { addMember, changeRole, listMembers, removeMember } from "../d1/members.ts";
import { ROLES } from "../domain/keys/role.ts";
import { emailAsStored, memberEmail } from "../domain/signal/identity.ts";
import { boundedText } from "../http/fields.ts";
import { EMAIL_MAX_LENGTH } from "../limits.ts";
import { listQueryOf, isoInstant, listOf, listQuery, contextOf, operationsOf } from "./operation.ts";

const operation = operationsOf("Members", "member");

const role = z.enum(ROLES);
const member = z.object({ email: z.string(), role, created_at: isoInstant }).meta({ id: "Member" });

const memberAddress = boundedText(EMAIL_MAX_LENGTH, { trim: true })
  .refine((text) => memberEmail(text) !== undefined, "not an email address, or one that is easily taken for another")
  .transform((text) => memberEmail(text) ?? text)
  .meta({ format: "email", example: "jane@example.com" });

export const memberRoutes = [
  operation("POST", "/workspaces/:workspace_id/members", {
    summary: "Add a member",
    body: z.strictObject({ email: memberAddress, role }),
    bodyExample: { email: "jane@example.com", role: "admin" },
    answers: { 201: "The new member." },
    schema: member,
    conflicts: ["email_taken", "too_many_members"],
    handle: (c, { body }) => addMember(contextOf(c), body),
  }),
  operation("GET", "/workspaces/:workspace_id/members", {
    summary: "List the members",
    scope: "read",
    query: listQuery,
    answers: { 200: "The members, by email." },
    schema: listOf(member),
    handle: (c, { query }) => listMembers(c.var.db, c.var.workspace.id, listQueryOf(query)),
  }),
  operation("PATCH", "/workspaces/:workspace_id/members/:email", {
    summary: "Change a member's role",
    body: z.strictObject({ role }),
    bodyExample: { role: "owner" },
    answers: { 200: "The changed member." },
    schema: member,
    conflicts: ["last_owner"],
    handle: (c, { body }) => changeRole(contextOf(c), { email: emailAsStored(c.req.param("email")), role: body.role }),
  }),
  operation("DELETE", "/workspaces/:workspace_id/members/:email", {
    summary: "Remove a member",
    answers: { 204: "Removed." },
    conflicts: ["last_owner"],
    handle: (c) => removeMember(contextOf(c), emailAsStored(c.req.param("email"))),
  }),
];
