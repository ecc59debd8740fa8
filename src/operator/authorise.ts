/** Operator API: the operator token calls everything, an API token only operations of its workspace and scopes. */
import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { findActiveToken, isUseDue, storeTokenUse, type ApiToken } from "../d1/api-tokens.ts";
import { hasReachedDailyChanges } from "../d1/audit.ts";
import { controlDatabase, OPERATOR } from "../d1/database.ts";
import { findWorkspace } from "../d1/workspaces.ts";
import { isWellFormedToken } from "../domain/keys/api-key.ts";
import { tokenActor } from "../domain/keys/api-token.ts";
import { configuredJurisdiction, requireJurisdiction } from "../env.ts";
import {
  AUTH_FAILURES_PER_MINUTE,
  clientNetwork,
  countFailure,
  countMiss,
  isWithin,
  lookupWaitMs,
} from "../http/auth-failures.ts";
import { problem } from "../http/problem.ts";
import { turnOfPage } from "../http/workspace-share.ts";
import { ACTOR_MAX_CHANGES_A_DAY } from "../limits.ts";
import { digest, digestHex } from "../platform/hashes.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import {
  notFound,
  tooMany,
  workspaceEnded,
  workspaceImporting,
  type Operation,
  type OperatorEnv,
} from "./operation.ts";

/** Calls of an API token in a period of TOKEN_CALLS in wrangler.toml. */
export const TOKEN_CALLS_PER_PERIOD = 100;
const TOKEN_CALLS_PERIOD_MS = 10_000;

/** Some 100 bytes each. */
const KNOWN_TOKENS = 1_000;
/** Hashes of tokens found by this isolate. They do not wait while others send invented tokens, but each call still reads D1. */
const knownTokens = new Lru<string, true>(KNOWN_TOKENS);

/** Some answers contain a secret. */
export const noStore = createMiddleware<OperatorEnv>(async (c, next) => {
  await next();
  c.res.headers.set("cache-control", "no-store");
});

export const authorise = createMiddleware<OperatorEnv>(async (c, next) => {
  const { OPERATOR_TOKEN, OPERATOR_TOKEN_NEXT }: { OPERATOR_TOKEN?: string; OPERATOR_TOKEN_NEXT?: string } = c.env;
  const operatorTokens = [OPERATOR_TOKEN, OPERATOR_TOKEN_NEXT].flatMap((token) => token || []);
  // Without an operator token configured the routes do not exist.
  if (operatorTokens.length === 0) return c.notFound();
  const presented = /^Bearer +(\S+)$/i.exec(c.req.header("authorization")?.trim() ?? "")?.[1] ?? "";
  const nowMs = Date.now();
  c.set("db", controlDatabase(c.env.DB));
  // A correct token is accepted even from a network that has sent too many wrong ones.
  if (await matchesAny(operatorTokens, presented)) {
    c.set("token", null);
    c.set("isKnown", true);
    c.set("by", { actor: OPERATOR, nowMs });
    return next();
  }
  // The checksum rejects typos without a look-up.
  const token = isWellFormedToken(presented) ? await findToken(c, await digestHex(presented), nowMs) : null;
  if (token instanceof Response) return token;
  if (token === null) return unauthorized(c, presented);
  c.set("token", token);
  c.set("isKnown", true);
  c.set("by", { actor: tokenActor(token), nowMs });
  c.get("logFields")["token"] = token.id;
  c.get("logFields")["workspace"] = token.workspaceId;
  if (isUseDue(token, nowMs)) c.executionCtx.waitUntil(storeUse(c, token.id, nowMs));
  return next();
});

/** Two tokens may be valid during an exchange (docs/operate.md: A leaked operator token). */
async function matchesAny(tokens: readonly string[], presented: string): Promise<boolean> {
  const [actual, ...expected] = await Promise.all([presented, ...tokens].map((text) => digest(text)));
  // Compare digests, and all of them even after a match, so that timing does not reveal which one matched.
  const matches = expected.map((token) => actual !== undefined && crypto.subtle.timingSafeEqual(token, actual));
  return matches.includes(true);
}

/** Null: unknown, expired or revoked. Limits come before the look-up, because all workspaces share the database. */
async function findToken(c: Context<OperatorEnv>, hash: string, nowMs: number): Promise<ApiToken | null | Response> {
  if (!(await isWithin(c.env.TOKEN_CALLS, hash))) {
    const detail =
      `An API token may make ${TOKEN_CALLS_PER_PERIOD} calls in ${TOKEN_CALLS_PERIOD_MS / 1_000} seconds. Send again ` +
      "after Retry-After seconds.";
    return tooMany(c, TOKEN_CALLS_PERIOD_MS, detail);
  }
  const waitMs = knownTokens.get(hash) === undefined ? lookupWaitMs(clientNetwork(c), nowMs) : 0;
  if (waitMs > 0) return tooManyFailures(c, waitMs);
  const token = await findActiveToken(c.var.db, hash, nowMs);
  if (token !== null) {
    knownTokens.set(hash, true);
    return token;
  }
  knownTokens.delete(hash);
  countMiss(nowMs);
  return null;
}

async function unauthorized(c: Context<OperatorEnv>, presented: string): Promise<Response> {
  // A request without a token is not a guess.
  const waitMs = presented === "" ? 0 : await countFailure(c.env.AUTH_FAILURES, clientNetwork(c), Date.now());
  if (waitMs > 0) return tooManyFailures(c, waitMs);
  return problem(c, {
    status: 401,
    code: "operator_unauthorized",
    title: "Unauthorized",
    detail:
      "Send the operator token, or an API token of the workspace, as `Authorization: Bearer <token>`. The token is " +
      "missing, wrong, expired or revoked.",
    headers: { "www-authenticate": 'Bearer realm="operator"' },
  });
}

function tooManyFailures(c: Context<OperatorEnv>, waitMs: number): Response {
  const detail =
    `More than ${AUTH_FAILURES_PER_MINUTE} wrong tokens, keys and secrets a minute came from this network, or very many ` +
    "to this server. Check the token, and send again after Retry-After seconds. The correct operator token is accepted at once.";
  return tooMany(c, waitMs, detail);
}

/** A failed write does not matter: a later call stores its use. */
async function storeUse(c: Context<OperatorEnv>, tokenId: string, nowMs: number): Promise<void> {
  try {
    await storeTokenUse(c.var.db, tokenId, nowMs);
  } catch (error) {
    logEvent("token_use_failed", { token: tokenId, error: errorText(error) });
  }
}

/** For an API token, other workspaces do not exist (404). */
export const findWorkspaceOfPath = createMiddleware<OperatorEnv>(async (c, next) => {
  const { db, token } = c.var;
  const id = c.req.param("workspace_id") ?? "";
  const workspace = token === null || token.workspaceId === id ? await findWorkspace(db, id) : null;
  if (workspace === null) return notFound(c, "workspace");
  requireJurisdiction(configuredJurisdiction(c.env), workspace.jurisdiction);
  if (workspace.state === "ended" && !isOfEnd(c.req.method, c.req.path)) return workspaceEnded(c);
  if (workspace.state === "importing" && !isOfImport(c.req.method, c.req.path)) return workspaceImporting(c);
  c.set("workspace", workspace);
  const waitMs = token === null ? 0 : await turnOfPage(workspace.id);
  if (waitMs > 0) {
    const detail =
      "The API tokens and the pages of the workspace have used its share of this server. Send again after Retry-After seconds.";
    return tooMany(c, waitMs, detail);
  }
  return next();
});

function isOfImport(method: string, path: string): boolean {
  const below = belowWorkspace(path);
  return below === "import" || (method === "GET" && below === "") || isOfEnd(method, path);
}

/** The calls that end a workspace, or show its receipt. */
function isOfEnd(method: string, path: string): boolean {
  const below = belowWorkspace(path);
  return below === "end" || (method === "DELETE" && below === "");
}

/** The part of the path after the workspace; empty: the workspace itself. */
function belowWorkspace(path: string): string {
  const parts = path.split("/");
  return parts[parts.indexOf("workspaces") + 2] ?? "";
}

export function requireScope({ method, scope }: Operation) {
  return createMiddleware<OperatorEnv>(async (c, next) => {
    const { token, db, by } = c.var;
    if (token === null) return next();
    if (scope === undefined) {
      return problem(c, {
        status: 403,
        code: "operator_only",
        title: "Not for API tokens",
        detail: "Only the operator token may call this operation. An API token of a workspace may not.",
      });
    }
    if (!token.scopes.includes(scope)) {
      const page = new URL(`/w/${c.var.workspace.slug}/settings/api-tokens`, c.req.url).href;
      return problem(c, {
        status: 403,
        code: "insufficient_scope",
        title: "Scope missing",
        detail: `The API token lacks the scope \`${scope}\`. An owner or admin creates a token with this scope at ${page}.`,
        headers: { "www-authenticate": `Bearer realm="operator", error="insufficient_scope", scope="${scope}"` },
        more: { scope },
      });
    }
    // An export leaves an audit entry too.
    const isChange = method !== "GET" || scope === "export";
    if (isChange && (await hasReachedDailyChanges(db, token.workspaceId, by))) {
      const detail = `An API token may make ${ACTOR_MAX_CHANGES_A_DAY} changes in 24 hours. Send again after Retry-After seconds.`;
      return tooMany(c, CHANGES_WAIT_MS, detail);
    }
    return next();
  });
}

const CHANGES_WAIT_MS = 3_600_000;
