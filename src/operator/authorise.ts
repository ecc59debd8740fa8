/**
 * Checks the operator API's bearer token (design §9). Digests are compared, so that timing reveals nothing. Two
 * tokens may be valid during an exchange (docs/operate.md: A leaked operator token).
 */
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";
import { networkOf } from "../domain/keys/client-network.ts";
import { AUTH_FAILURES_PER_MINUTE, countFailure } from "../http/auth-failures.ts";
import { problem, retryAfter } from "../http/problem.ts";
import { digest } from "../platform/hashes.ts";
import { operator, type OperatorEnv } from "./environment.ts";

export const authorise = operator.createMiddleware(async (c, next) => {
  const tokens = tokensOf(c.env);
  // Without a token configured the routes do not exist.
  if (tokens.length === 0) return c.notFound();
  const presented = /^Bearer +(\S+)$/i.exec(c.req.header("authorization")?.trim() ?? "")?.[1] ?? "";
  const [actual, ...expected] = await Promise.all([presented, ...tokens].map((text) => digest(text)));
  // Compare all tokens even after a match, so that timing does not reveal which one matched.
  const matches = expected.map((token) => actual !== undefined && crypto.subtle.timingSafeEqual(token, actual));
  // A correct token is accepted even from a network that has sent too many wrong ones.
  if (matches.includes(true)) return next();
  // A request without a token is not a guess.
  const waitMs = presented === "" ? 0 : await countFailure(c.env.AUTH_FAILURES, networkOf(clientOf(c)), Date.now());
  if (waitMs > 0) {
    return problem(c, {
      status: 429,
      code: "rate_limited",
      title: "Too many requests",
      detail:
        `More than ${AUTH_FAILURES_PER_MINUTE} wrong tokens, keys and secrets a minute came from this network. Check the ` +
        "operator token, and send again after Retry-After seconds. The right token is let through at once.",
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

function clientOf(c: Context<OperatorEnv>): string {
  return c.req.header("cf-connecting-ip") ?? "unknown";
}

function tokensOf({ OPERATOR_TOKEN, OPERATOR_TOKEN_NEXT }: AppEnv["Bindings"]): string[] {
  const tokens: (string | undefined)[] = [OPERATOR_TOKEN, OPERATOR_TOKEN_NEXT];
  return tokens.flatMap((token) => token || []);
}
