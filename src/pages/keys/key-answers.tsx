/** Answers that both making a key and rotating one end in, and where the keys' pages are. */
import type { Context } from "hono";
import type { ApiKey } from "../../control/api-keys.ts";
import type { CreatedKey } from "../../control/new-keys.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { page } from "../page.tsx";
import { workspacePath, type PagesEnv } from "../pages-env.ts";
import { KeyCreatedView, KeyMadeBeforeView } from "./key-created-view.tsx";

export type KeyContext = Context<PagesEnv>;

/** Title and section of the keys' pages. */
export const KEYS_PAGE = { title: "API Keys", section: "keys" } as const;

/** Path of the API keys, `/w/{slug}/settings/api-keys`. */
export function keysPath(c: KeyContext): string {
  return `${workspacePath(c)}/settings/api-keys`;
}

/** The only page with a full key in it. It answers the post itself: for a redirect the key would have to be stored. */
export function createdPage(c: KeyContext, created: CreatedKey, replaced: ApiKey | null) {
  const where = { home: workspacePath(c), path: keysPath(c), origin: new URL(c.req.url).origin };
  const title = replaced === null ? "API key created" : "API key rotated";
  return page(
    c,
    { ...KEYS_PAGE, title, showsKey: true },
    <KeyCreatedView {...where} created={created} replaced={replaced} nowMs={Date.now()} />,
  );
}

export async function madeBeforePage(c: KeyContext, apiKey: ApiKey) {
  const view = <KeyMadeBeforeView {...await endingOf(c, apiKey)} />;
  return page(c, { ...KEYS_PAGE, title: "Created already", status: 409 }, view);
}

/** What the pages say of a key that ends, or is to end. */
export async function endingOf(c: KeyContext, apiKey: ApiKey) {
  const lastUsed = await quotaCounter(c.env, c.get("workspace").id).lastUsed();
  return { path: keysPath(c), apiKey, usedMs: lastUsed[apiKey.id], nowMs: Date.now() };
}
