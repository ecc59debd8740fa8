/**
 * Sessions of the workspace pages. The table holds only the SHA-256 of a token. Each request reads its session from the
 * primary, so that a sign-out, a removal or a change of role takes effect at once.
 */
import type { Role } from "../domain/keys/role.ts";
import { and, asc, eq, gt, inArray, lte, ne, sql } from "drizzle-orm";
import { SESSION_MS, SIGN_IN_ATTEMPT_MS } from "../limits.ts";
import {
  hasRow,
  insertIf,
  iso,
  type ControlDatabase,
  members,
  plans,
  sessions,
  signInAttempts,
  workspaces,
} from "./database.ts";
import { WORKSPACE_COLUMNS, type Workspace } from "./workspaces.ts";

/** Maximum number of expired sessions or attempts that one sign-in deletes. */
export const EXPIRED_SESSIONS_CLEARED = 100;
/** Maximum number of workspaces in the switcher; the others can be reached by URL. */
const SWITCHER_WORKSPACES = 200;

/** The proof of identity in a request: the SHA-256 of a session token, or an email that an external sign-in has verified. */
export type SignInProof = { tokenHash: string; driver: string } | { email: string };

interface SignedIn {
  email: string;
  /** The first SWITCHER_WORKSPACES workspaces of this member, by name. */
  workspaces: { slug: string; name: string; role: Role }[];
  /** The requested workspace; null if it does not exist or the person is not a member. */
  here: { workspace: Workspace; role: Role } | null;
}

/** Finds the signed-in person and the requested workspace in one round trip. Returns null without a valid session. */
export async function findSignedIn(
  db: ControlDatabase,
  proof: SignInProof,
  slug: string | null,
  nowMs: number,
): Promise<SignedIn | null> {
  const visitorEmail =
    "email" in proof
      ? sql<string | null>`${proof.email}`
      : sql<string | null>`(${db
          .select({ email: sessions.email })
          .from(sessions)
          .where(
            and(
              eq(sessions.tokenHash, proof.tokenHash),
              eq(sessions.driver, proof.driver),
              gt(sessions.expiresAt, iso(nowMs)),
            ),
          )})`;
  const [[visitor], memberships, [here]] = await db.batch([
    db.select({ email: sql<string | null>`${visitorEmail}` }).from(sql`(select 1)`),
    db
      .select({ slug: workspaces.slug, name: workspaces.name, role: members.role })
      .from(members)
      .innerJoin(workspaces, eq(workspaces.id, members.workspaceId))
      .where(and(eq(members.email, visitorEmail), ne(workspaces.state, "ended")))
      .orderBy(asc(workspaces.name))
      .limit(SWITCHER_WORKSPACES),
    db
      .select({ workspace: WORKSPACE_COLUMNS, role: members.role })
      .from(workspaces)
      .innerJoin(members, eq(members.workspaceId, workspaces.id))
      .innerJoin(plans, eq(plans.id, workspaces.planId))
      .where(and(eq(workspaces.slug, slug ?? ""), eq(members.email, visitorEmail))),
  ]);
  const email = visitor?.email ?? null;
  return email === null ? null : { email, workspaces: memberships, here: here ?? null };
}

/**
 * Opens a session and deletes some expired ones. Returns false, and stores nothing, if no workspace has a member with this
 * email.
 */
export async function openSession(
  db: ControlDatabase,
  session: { tokenHash: string; email: string; driver: string },
  nowMs: number,
): Promise<boolean> {
  const row = { ...session, createdAt: iso(nowMs), expiresAt: iso(nowMs + SESSION_MS) };
  const isMember = hasRow(members, eq(members.email, session.email));
  const [opened] = await db.batch([
    insertIf(db, sessions, row, isMember).returning({ email: sessions.email }),
    deleteExpired(db, sessions, nowMs),
  ]);
  return opened.length > 0;
}

function deleteExpired(db: ControlDatabase, table: typeof sessions | typeof signInAttempts, nowMs: number) {
  const isExpired = lte(table.expiresAt, iso(nowMs));
  const expired = db
    .select({ tokenHash: table.tokenHash })
    .from(table)
    .where(isExpired)
    .limit(EXPIRED_SESSIONS_CLEARED);
  return db.delete(table).where(inArray(table.tokenHash, expired));
}

/** False: there is no such session. */
export async function closeSession(db: ControlDatabase, tokenHash: string): Promise<boolean> {
  const closed = await db
    .delete(sessions)
    .where(eq(sessions.tokenHash, tokenHash))
    .returning({ tokenHash: sessions.tokenHash });
  return closed.length > 0;
}

export interface SignInAttempt {
  state: string;
  nonce: string;
  codeVerifier: string;
  target: string;
}

export async function storeAttempt(
  db: ControlDatabase,
  tokenHash: string,
  attempt: SignInAttempt,
  nowMs: number,
): Promise<void> {
  await db.batch([
    db.insert(signInAttempts).values({ tokenHash, ...attempt, expiresAt: iso(nowMs + SIGN_IN_ATTEMPT_MS) }),
    deleteExpired(db, signInAttempts, nowMs),
  ]);
}

/** Reads and deletes a sign-in attempt, so that each can be used once. Returns null if it has expired. */
export async function takeAttempt(
  db: ControlDatabase,
  tokenHash: string,
  nowMs: number,
): Promise<SignInAttempt | null> {
  const [taken] = await db.delete(signInAttempts).where(eq(signInAttempts.tokenHash, tokenHash)).returning();
  return taken === undefined || taken.expiresAt <= iso(nowMs) ? null : taken;
}

/** All members by email, for local sign-in. */
export async function listEmails(db: ControlDatabase, limit: number): Promise<{ email: string; roles: string }[]> {
  return db
    .select({
      email: members.email,
      roles: sql<string>`group_concat(${members.role} || ' of ' || ${workspaces.name}, ', ')`,
    })
    .from(members)
    .innerJoin(workspaces, eq(workspaces.id, members.workspaceId))
    .groupBy(members.email)
    .orderBy(asc(members.email))
    .limit(limit);
}
