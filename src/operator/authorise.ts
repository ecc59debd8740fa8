/**
 * The operator API's bearer token (design §9): compared as digests, so that time tells nothing about it. Two may be valid at
 * once while one is exchanged for another (docs/operate.md: A leaked operator token).
 */
import type { AppEnv } from "../env.ts";
import { problem } from "../http/problem.ts";
import { digest } from "../platform/hashes.ts";
import { operator } from "./environment.ts";

export const authorise = operator.createMiddleware(async (c, next) => {
  const tokens = tokensOf(c.env);
  // Without a token configured the routes do not exist.
  if (tokens.length === 0) return c.notFound();
  const presented = /^Bearer +(\S+)$/i.exec(c.req.header("authorization")?.trim() ?? "")?.[1] ?? "";
  const [actual, ...expected] = await Promise.all([presented, ...tokens].map((text) => digest(text)));
  // All tokens are compared, also after one has matched: time does not tell which one it was.
  const matches = expected.map((one) => actual !== undefined && crypto.subtle.timingSafeEqual(one, actual));
  if (matches.includes(true)) return next();
  return problem(c, {
    status: 401,
    code: "operator_unauthorized",
    title: "Unauthorized",
    detail: "Send the operator token as `Authorization: Bearer <token>`.",
    headers: { "www-authenticate": 'Bearer realm="operator"' },
  });
});

function tokensOf({ OPERATOR_TOKEN, OPERATOR_TOKEN_NEXT }: AppEnv["Bindings"]): string[] {
  const tokens: (string | undefined)[] = [OPERATOR_TOKEN, OPERATOR_TOKEN_NEXT];
  return tokens.flatMap((token) => token || []);
}
