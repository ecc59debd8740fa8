/** The operator API's bearer token (design §9): compared as digests, so that time tells nothing about it. */
import { digest } from "../platform/hashes.ts";
import { operator } from "./environment.ts";
import { problem } from "../http/problem.ts";

export const authorise = operator.createMiddleware(async (c, next) => {
  const token: string | undefined = c.env.OPERATOR_TOKEN;
  // Without the secret the routes do not exist.
  if (token === undefined || token === "") return c.notFound();
  const presented = /^Bearer +(\S+)$/i.exec(c.req.header("authorization")?.trim() ?? "")?.[1] ?? "";
  const [expected, actual] = await Promise.all([digest(token), digest(presented)]);
  if (crypto.subtle.timingSafeEqual(expected, actual)) return next();
  return problem(c, {
    status: 401,
    code: "operator_unauthorized",
    title: "Unauthorized",
    detail: "Send the operator token as `Authorization: Bearer <token>`.",
    headers: { "www-authenticate": 'Bearer realm="operator"' },
  });
});
