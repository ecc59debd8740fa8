/** Settings › API Keys (spec §2.1, §3.1, §5.6; design §5). For owners and admins only. */
import { findKey, listKeys, renameKey, rotatedWith, type ApiKey, watchForSilence } from "../../control/api-keys.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { KEY_SILENT_MAX_DAYS, PAGE_ROWS } from "../../limits.ts";
import { silentAfterDays } from "../../workspace/manage-keys.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { pages, workspacePath, contextOf } from "../pages-env.ts";
import { formText } from "../form-text.ts";
import { readForm } from "../read-form.tsx";
import { done, managersOnlyPage, notFoundPage, page } from "../page.tsx";
import { groupRejections } from "../rejections.tsx";
import { KEYS_PAGE, keysPath, type KeyContext } from "./key-answers.tsx";
import { keyEndingPages } from "./key-ending-pages.tsx";
import { checkKeyName } from "./key-form.ts";
import { KeyView, type TypedField } from "./key-view.tsx";
import { KeysView } from "./keys-view.tsx";
import { newKeyPages } from "./new-key-pages.tsx";

/** Spec §1: other members who open the URL see an explanation instead of the list. */
const requireKeyManager = pages.createMiddleware(async (c, next) => {
  if (!canManageKeys(c.get("role"))) return managersOnlyPage(c, null, "API Keys", "see or manage API keys");
  await next();
});

export const keyPages = pages
  .createApp()
  .use(requireKeyManager)
  .route("/", newKeyPages)
  .route("/", keyEndingPages)
  .get("/", async (c) => {
    const { id } = c.get("workspace");
    const query = c.req.query();
    const [list, lastUsed] = await Promise.all([
      listKeys(c.get("db"), id, { cursor: query["cursor"] ?? null, limit: PAGE_ROWS }),
      quotaCounter(c.env, id).lastUsed(),
    ]);
    const related = await rotatedWith(c.get("db"), id, list.items);
    const cursor: Record<string, string> = query["cursor"] === undefined ? {} : { cursor: query["cursor"] };
    return page(
      c,
      KEYS_PAGE,
      <KeysView path={keysPath(c)} query={cursor} page={list} lastUsed={lastUsed} {...related} nowMs={Date.now()} />,
    );
  })
  .get("/:key_id", async (c) => {
    const key = await findKey(c.get("db"), c.get("workspace").id, c.req.param("key_id"));
    return key === null ? notFoundPage(c, "key") : keyPage(c, key, {});
  })
  .post("/:key_id/name", readForm(), async (c) => {
    const [db, { id }, keyId] = [c.get("db"), c.get("workspace"), c.req.param("key_id")];
    const typed = formText(c.get("form"), "name");
    const name = checkKeyName(typed);
    if (name.ok) {
      const renamed = await renameKey(contextOf(c), keyId, name.value);
      return renamed === null ? notFoundPage(c, "key") : done(c, `settings/api-keys/${keyId}`, "saved");
    }
    const key = await findKey(db, id, keyId);
    if (key === null) return notFoundPage(c, "key");
    return keyPage(c, key, { rename: { typed, error: name.refusal } });
  })
  .post("/:key_id/silence", readForm(), async (c) => {
    const [db, { id }, keyId] = [c.get("db"), c.get("workspace"), c.req.param("key_id")];
    const typed = formText(c.get("form"), "silent_after_days").trim();
    const days = silentAfterDays.safeParse(typed === "" ? null : Number(typed));
    if (days.success) {
      const watched = await watchForSilence(contextOf(c), keyId, days.data);
      return watched === null ? notFoundPage(c, "key") : done(c, `settings/api-keys/${keyId}`, "saved");
    }
    const key = await findKey(db, id, keyId);
    if (key === null) return notFoundPage(c, "key");
    return keyPage(c, key, { silence: { typed, error: `From 1 to ${KEY_SILENT_MAX_DAYS}, or nothing.` } });
  });

/** @param refused holds what was typed into a form that was refused. */
async function keyPage(c: KeyContext, apiKey: ApiKey, refused: { rename?: TypedField; silence?: TypedField }) {
  const { id } = c.get("workspace");
  const [calls, related] = await Promise.all([
    quotaCounter(c.env, id).keyCalls(apiKey.id),
    rotatedWith(c.get("db"), id, [apiKey]),
  ]);
  const view = (
    <KeyView
      home={workspacePath(c)}
      path={keysPath(c)}
      origin={new URL(c.req.url).origin}
      apiKey={apiKey}
      rename={refused.rename ?? { typed: apiKey.name, error: undefined }}
      silence={refused.silence ?? { typed: String(apiKey.silentAfterDays ?? ""), error: undefined }}
      calls={calls}
      successor={related.successors.get(apiKey.id) ?? null}
      predecessor={related.predecessors.get(apiKey.successorOf ?? "") ?? null}
      refused={groupRejections(calls.rejections)}
      runs={calls.rejections.slice(0, PAGE_ROWS)}
      nowMs={Date.now()}
    />
  );
  return page(c, { ...KEYS_PAGE, title: apiKey.name, status: Object.keys(refused).length === 0 ? 200 : 422 }, view);
}
