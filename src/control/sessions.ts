/**
 * Sessions of the workspace pages, and what a request needs to know of the one who makes it. Only a token's SHA-256 is
 * kept. Everything is read anew with each request, from the primary: sign-out, a removal and a change of role hold at once.
 */
import type { Role } from "../domain/keys/role.ts";
import { and, asc, eq, gt, inArray, lte, sql } from "drizzle-orm";
import { SESSION_MS, SIGN_IN_ATTEMPT_MS } from "../limits.ts";
import { iso, type ControlDatabase } from "./database.ts";
import { members, plans, sessions, signInAttempts, workspaces } from "./control-schema.ts";
import { WORKSPACE_COLUMNS, type Workspace } from "./workspaces.ts";

/** Expired sessions and attempts that one sign-in clears away. */
export const EXPIRED_SESSIONS_CLEARED = 100;
/** Workspaces that the switcher and the chooser offer; the others are reached by their address. */
const SWITCHER_WORKSPACES = 200;

/** What a request proves who makes it by: a session's token (its SHA-256), or an email that something else vouches for. */
export type SignInProof = { tokenHash: string; driver: string } | { email: string };

export interface SignedIn {
  /** Lower case. */
  email: string;
  /** The workspaces that this person is a member of: the first SWITCHER_WORKSPACES of them by name. */
  workspaces: { slug: string; name: string; role: Role }[];
  /** The workspace that was asked for, if it exists and this person is its member. */
  here: { workspace: Workspace; role: Role } | null;
}

/** Who makes a request, and where, in one round trip; null: nobody is signed in. */
export async function findSignedIn(
  db: ControlDatabase,
  claim: SignInProof,
  slug: string | null,
  nowMs: number,
): Promise<SignedIn | null> {
  const who =
    "email" in claim
      ? sql<string | null>`${claim.email}`
      : sql<string | null>`(${db
          .select({ email: sessions.email })
          .from(sessions)
          .where(
            and(
              eq(sessions.tokenHash, claim.tokenHash),
              eq(sessions.driver, claim.driver),
              gt(sessions.expiresAt, iso(nowMs)),
            ),
          )})`;
  const [[visitor], mine, [here]] = await db.batch([
    db.select({ email: sql<string | null>`${who}` }).from(sql`(select 1)`),
    db
      .select({ slug: workspaces.slug, name: workspaces.name, role: members.role })
      .from(members)
      .innerJoin(workspaces, eq(workspaces.id, members.workspaceId))
      .where(eq(members.email, who))
      .orderBy(asc(workspaces.name))
      .limit(SWITCHER_WORKSPACES),
    db
      .select({ workspace: WORKSPACE_COLUMNS, role: members.role })
      .from(workspaces)
      .innerJoin(members, eq(members.workspaceId, workspaces.id))
      .innerJoin(plans, eq(plans.id, workspaces.planId))
      .where(and(eq(workspaces.slug, slug ?? ""), eq(members.email, who))),
  ]);
  const email = visitor?.email ?? null;
  return email === null ? null : { email, workspaces: mine, here: here ?? null };
}

/** Signs in, and clears away some of what has expired. False, and nothing is kept, when nobody is a member by this email. */
export async function openSession(
  db: ControlDatabase,
  session: { tokenHash: string; email: string; driver: string },
  nowMs: number,
): Promise<boolean> {
  const { tokenHash, email, driver } = session;
  const expired = db
    .select({ tokenHash: sessions.tokenHash })
    .from(sessions)
    .where(lte(sessions.expiresAt, iso(nowMs)))
    .limit(EXPIRED_SESSIONS_CLEARED);
  const [opened] = await db.batch([
    // INSERT … SELECT takes the columns in the order of the table.
    db
      .insert(sessions)
      .select(
        sql`select ${tokenHash}, ${email}, ${driver}, ${iso(nowMs)}, ${iso(nowMs + SESSION_MS)}
          where exists (select 1 from ${members} where ${eq(members.email, email)})`,
      )
      .returning({ email: sessions.email }),
    db.delete(sessions).where(inArray(sessions.tokenHash, expired)),
  ]);
  return opened.length > 0;
}

/** Signs out. */
export async function closeSession(db: ControlDatabase, tokenHash: string): Promise<void> {
  await db.delete(sessions).where(eq(sessions.tokenHash, tokenHash));
}

/** What an OpenID provider's answer to a sign-in is checked against. */
export interface SignInAttempt {
  state: string;
  nonce: string;
  codeVerifier: string;
  target: string;
}

export async function keepAttempt(
  db: ControlDatabase,
  tokenHash: string,
  attempt: SignInAttempt,
  nowMs: number,
): Promise<void> {
  const expired = db
    .select({ tokenHash: signInAttempts.tokenHash })
    .from(signInAttempts)
    .where(lte(signInAttempts.expiresAt, iso(nowMs)))
    .limit(EXPIRED_SESSIONS_CLEARED);
  await db.batch([
    db.insert(signInAttempts).values({ tokenHash, ...attempt, expiresAt: iso(nowMs + SIGN_IN_ATTEMPT_MS) }),
    db.delete(signInAttempts).where(inArray(signInAttempts.tokenHash, expired)),
  ]);
}

/** Takes an attempt to sign in, once only: whatever comes of it, the attempt is over. */
export async function takeAttempt(
  db: ControlDatabase,
  tokenHash: string,
  nowMs: number,
): Promise<SignInAttempt | null> {
  const [taken] = await db.delete(signInAttempts).where(eq(signInAttempts.tokenHash, tokenHash)).returning();
  return taken === undefined || taken.expiresAt <= iso(nowMs) ? null : taken;
}

/** Everybody who is a member of something, by email; for local sign-in. */
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
