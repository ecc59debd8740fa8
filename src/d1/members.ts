/**
 * Members of a workspace and their roles (spec §1, §5.6). A workspace that has owners always keeps one, and it has at most
 * WORKSPACE_MAX_MEMBERS members.
 */
import type { Role } from "../domain/keys/role.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { listPage, type ListQuery, type ListPage } from "../platform/list-page.ts";
import { revokeTokensOf } from "./api-tokens.ts";
import { auditEntry } from "./audit.ts";
import { hasRow, insertIf, iso, type ControlContext, type ControlDatabase, members, sessions } from "./database.ts";
import { WORKSPACE_MAX_MEMBERS } from "../limits.ts";
import { and, asc, eq, exists, getTableColumns, gt, ne, not, or, sql, type SQL } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";

const { workspaceId: _, ...COLUMNS } = getTableColumns(members);

export type Member = Omit<typeof members.$inferSelect, "workspaceId">;

export async function addMember(
  { db, workspaceId, by }: ControlContext,
  member: { email: string; role: Role },
): Promise<Result<Member, "email_taken" | "too_many_members">> {
  const created: Member = { ...member, createdAt: iso(by.nowMs) };
  const { email, role } = created;
  // The batch that inserts also checks, so that concurrent calls cannot exceed the limit together.
  const rejection = sql<"email_taken" | "too_many_members" | null>`case
    when ${hasRow(members, isMember(workspaceId, email))} then 'email_taken'
    when ${db.$count(members, eq(members.workspaceId, workspaceId))} >= ${WORKSPACE_MAX_MEMBERS} then 'too_many_members'
    end`;
  const isAllowed = sql`${rejection} is null`;
  const [[decided]] = await db.batch([
    db.select({ rejection }).from(sql`(select 1)`),
    auditEntry(db, by, { workspaceId, action: "member.added", target: email, detail: { role } }, isAllowed),
    insertIf(db, members, { workspaceId, ...created }, isAllowed),
  ]);
  return decided?.rejection ? reject(decided.rejection) : ok(created);
}

export async function listMembers(
  db: ControlDatabase,
  workspaceId: string,
  listQuery: ListQuery,
): Promise<ListPage<Member>> {
  const rows = await db
    .select(COLUMNS)
    .from(members)
    .where(and(eq(members.workspaceId, workspaceId), gt(members.email, listQuery.cursor ?? "")))
    .orderBy(asc(members.email))
    .limit(listQuery.limit + 1);
  return listPage(rows, listQuery, (member) => member.email);
}

export async function findMember(db: ControlDatabase, workspaceId: string, email: string): Promise<Member | null> {
  return (await db.select(COLUMNS).from(members).where(isMember(workspaceId, email)).get()) ?? null;
}

export function countOwners(db: ControlDatabase, workspaceId: string): Promise<number> {
  return db.$count(members, and(eq(members.workspaceId, workspaceId), eq(members.role, "owner")));
}

/**
 * Members who are no longer owner or admin also lose the API tokens that they created. A role that the member has already changes nothing,
 * and the audit log has no entry.
 *
 * @param from the role that the caller has seen; `not_found` if the member has another role by now. Undefined skips the
 * check.
 */
export async function changeRole(
  context: ControlContext,
  { email, role, from }: { email: string; role: Role; from?: Role },
): Promise<Result<Member, "not_found" | "last_owner">> {
  const { db, workspaceId, by } = context;
  const mayChange = role === "owner" ? isMember(workspaceId, email) : mayLoseOwner(db, workspaceId, email);
  const allowed = and(mayChange, isStill(from), ne(members.role, role));
  const entry = { workspaceId, action: "member.role_changed", target: email, detail: { role } } as const;
  const [, changed] = await db.batch([
    auditEntry(db, by, entry, hasRow(members, allowed)),
    db.update(members).set({ role }).where(allowed).returning(COLUMNS),
    ...revokeTokensOf(context, email),
  ]);
  if (changed[0] !== undefined) return ok(changed[0]);
  const found = await findMember(db, workspaceId, email);
  const isUnchanged = found?.role === role && (from === undefined || from === role);
  return isUnchanged ? ok(found) : reject(changeRejection(found, from));
}

/** Also revokes the API tokens that the member created. @param from as for `changeRole`. */
export async function removeMember(
  context: ControlContext,
  email: string,
  from?: Role,
): Promise<Result<Member, "not_found" | "last_owner">> {
  const { db, workspaceId, by } = context;
  const allowed = and(mayLoseOwner(db, workspaceId, email), isStill(from));
  const entry = { workspaceId, action: "member.removed", target: email } as const;
  const [, removed] = await db.batch([
    auditEntry(db, by, entry, hasRow(members, allowed)),
    db.delete(members).where(allowed).returning(COLUMNS),
    // The removal ends access to this workspace. A person without any membership left is also signed out.
    db.delete(sessions).where(and(eq(sessions.email, email), not(hasRow(members, eq(members.email, email))))),
    ...revokeTokensOf(context, email),
  ]);
  if (removed[0] !== undefined) return ok(removed[0]);
  return reject(changeRejection(await findMember(db, workspaceId, email), from));
}

function isMember(workspaceId: string, email: string): SQL | undefined {
  return and(eq(members.workspaceId, workspaceId), eq(members.email, email));
}

/** Part of the changing statement: if two owners leave at the same time, one remains. */
function mayLoseOwner(db: ControlDatabase, workspaceId: string, email: string): SQL | undefined {
  const coMembers = alias(members, "other");
  const otherOwner = db
    .select({ email: coMembers.email })
    .from(coMembers)
    .where(and(eq(coMembers.workspaceId, workspaceId), eq(coMembers.role, "owner"), ne(coMembers.email, email)));
  return and(isMember(workspaceId, email), or(ne(members.role, "owner"), exists(otherOwner)));
}

function isStill(from: Role | undefined): SQL | undefined {
  return from === undefined ? undefined : eq(members.role, from);
}

/** @param found the member, whom the change has not changed. */
function changeRejection(found: Member | null, from: Role | undefined): "not_found" | "last_owner" {
  return found === null || (from !== undefined && found.role !== from) ? "not_found" : "last_owner";
}
