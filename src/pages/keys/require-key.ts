import { findKey } from "../../d1/api-keys.ts";
import { notFoundPage } from "../page.tsx";
import { pages } from "../pages-env.ts";

/** Sets `apiKey`; 404 if the path names no key of the workspace. */
export const requireKey = pages.createMiddleware(async (c, next) => {
  const key = await findKey(c.get("db"), c.get("workspace").id, c.req.param("key_id") ?? "");
  if (key === null) return notFoundPage(c, "key");
  c.set("apiKey", key);
  await next();
});
