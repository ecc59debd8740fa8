/** The operator API (design §9), for the deployer's own systems, and the documents that are made from its routes. */
import { Hono } from "hono";
import { createMiddleware } from "hono/factory";
import { controlDatabase } from "../control/database.ts";
import { findWorkspace } from "../control/workspaces.ts";
import { networkOf } from "../domain/keys/client-network.ts";
import { configuredJurisdiction } from "../env.ts";
import { AUTH_FAILURES_PER_MINUTE, countFailure } from "../http/auth-failures.ts";
import { methodNotAllowed, problem, retryAfter } from "../http/problem.ts";
import { digest } from "../platform/hashes.ts";
import { requireJurisdiction } from "../platform/jurisdiction.ts";
import { accountRoutes } from "./account-routes.ts";
import { deletionRoutes, exportRoutes } from "./data-care-routes.ts";
import { destinationRoutes } from "./destination-routes.ts";
import { createDocumentRoutes } from "./docs/docs-page.tsx";
import { healthRoutes } from "./health-routes.ts";
import { keyRoutes } from "./key-routes.ts";
import { memberRoutes } from "./member-routes.ts";
import { notFound, type OperatorEnv } from "./operation.ts";
import { planRoutes } from "./plan-routes.ts";
import { restoreRoutes } from "./restore-routes.ts";
import { ruleRoutes } from "./rule-routes.ts";
import { signalRoutes } from "./signal-routes.ts";
import { usageRoutes } from "./usage-routes.ts";
import { workspaceRoutes } from "./workspace-routes.ts";

/** No cache may store an answer: answers belong to one deployment, and some contain a secret. */
const noStore = createMiddleware<OperatorEnv>(async (c, next) => {
  await next();
  c.res.headers.set("cache-control", "no-store");
});

/**
 * Checks the bearer token. Digests are compared, so that timing reveals nothing. Two tokens may be valid during an exchange
 * (docs/operate.md: A leaked operator token).
 */
const authorise = createMiddleware<OperatorEnv>(async (c, next) => {
  const { OPERATOR_TOKEN, OPERATOR_TOKEN_NEXT }: { OPERATOR_TOKEN?: string; OPERATOR_TOKEN_NEXT?: string } = c.env;
  const tokens = [OPERATOR_TOKEN, OPERATOR_TOKEN_NEXT].flatMap((token) => token || []);
  // Without a token configured the routes do not exist.
  if (tokens.length === 0) return c.notFound();
  const presented = /^Bearer +(\S+)$/i.exec(c.req.header("authorization")?.trim() ?? "")?.[1] ?? "";
  const [actual, ...expected] = await Promise.all([presented, ...tokens].map((text) => digest(text)));
  // Compare all tokens even after a match, so that timing does not reveal which one matched.
  const matches = expected.map((token) => actual !== undefined && crypto.subtle.timingSafeEqual(token, actual));
  // A correct token is accepted even from a network that has sent too many wrong ones.
  if (matches.includes(true)) return next();
  const network = networkOf(c.req.header("cf-connecting-ip") ?? "unknown");
  // A request without a token is not a guess.
  const waitMs = presented === "" ? 0 : await countFailure(c.env.AUTH_FAILURES, network, Date.now());
  if (waitMs > 0) {
    return problem(c, {
      status: 429,
      code: "rate_limited",
      title: "Too many requests",
      detail:
        `More than ${AUTH_FAILURES_PER_MINUTE} wrong tokens, keys and secrets a minute came from this network. Check the ` +
        "operator token, and send again after Retry-After seconds. A correct token is accepted at once.",
      headers: retryAfter(waitMs),
    });
  }
  return problem(c, {
    status: 401,
    code: "operator_unauthorized",
    title: "Unauthorized",
    detail: "Send the operator token as `Authorization: Bearer <token>`.",
    headers: { "www-authenticate": 'Bearer realm="operator"' },
  });
});

const setContext = createMiddleware<OperatorEnv>((c, next) => {
  c.set("db", controlDatabase(c.env.DB));
  c.set("by", { actor: "operator", nowMs: Date.now() });
  return next();
});

const findWorkspaceOfPath = createMiddleware<OperatorEnv>(async (c, next) => {
  const workspace = await findWorkspace(c.var.db, c.req.param("workspace_id") ?? "");
  if (workspace === null) return notFound(c, "workspace");
  requireJurisdiction(configuredJurisdiction(c.env), workspace.jurisdiction);
  c.set("workspace", workspace);
  return next();
});

export const OPERATIONS = [
  ...planRoutes,
  ...workspaceRoutes,
  ...healthRoutes,
  ...restoreRoutes,
  ...memberRoutes,
  ...keyRoutes,
  ...ruleRoutes,
  ...usageRoutes,
  ...signalRoutes,
  ...accountRoutes,
  ...exportRoutes,
  ...deletionRoutes,
  ...destinationRoutes,
];

export const documentRoutes = createDocumentRoutes(OPERATIONS);

export const operatorRoutes = new Hono<OperatorEnv>()
  .use(noStore, authorise, setContext)
  .use("/workspaces/:workspace_id/*", findWorkspaceOfPath);
for (const { method, path, handler } of OPERATIONS) operatorRoutes.on(method, path, handler);
for (const [path, operations] of Map.groupBy(OPERATIONS, (operation) => operation.path)) {
  const allow = operations.map(({ method }) => (method === "GET" ? "GET, HEAD" : method)).join(", ");
  operatorRoutes.all(path, (c) => methodNotAllowed(c, allow));
}
