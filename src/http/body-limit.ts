/**
 * Hono's limit of a body's size, for methods that have a body. One that comes with a GET is not looked at: no route reads it,
 * and Hono would make a request of it that the platform refuses.
 */
import type { Context, MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";

export function limitBody(maxSize: number, onError: (c: Context) => Response): MiddlewareHandler {
  const limit = bodyLimit({ maxSize, onError });
  return (c, next) => (c.req.method === "GET" || c.req.method === "HEAD" ? next() : limit(c, next));
}
