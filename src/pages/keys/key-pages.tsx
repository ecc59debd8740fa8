/** Settings › API Keys (spec §2.1, §3.1, §5.6; design §5). For owners and admins only. */
import type { Context } from "hono";
import { findKey, listKeys, renameKey, rotatedWith, type ApiKey } from "../../control/stored-keys.ts";
import { watchForSilence } from "../../control/key-watch.ts";
import { createKeyOnce, type CreatedKey } from "../../control/new-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { proposeTemplate } from "../../domain/accounts/propose-template.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { readSample } from "../../domain/accounts/sample-payload.ts";
import { KEY_SILENT_MAX_DAYS, PAGE_ROWS } from "../../limits.ts";
import { silentAfterDays } from "../../workspace/destination-schemas.ts";
import { endKey, replaceKey } from "../../workspace/end-key.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { byMember, pages, type PagesEnv, workspacePath } from "../pages-env.ts";
import {
  checkKeyForm,
  checkKeyName,
  emptyKey,
  emptyRow,
  formTokenOf,
  mapSample,
  NO_ERRORS,
  readKeyForm,
  toRow,
} from "./key-form.ts";
import type { KeyFormErrors, TypedKey } from "./key-form.ts";
import { expirationOf, readLifetime, type TypedLifetime } from "./key-lifetime.ts";
import { done, fragment, managersOnlyPage, notFoundPage, page } from "../page.tsx";
import { groupRejections } from "../rejections/rejection-list.ts";
import { KeyView, type TypedField } from "./key-view.tsx";
import { KeyCreatedView, KeyMadeBeforeView } from "./key-created-view.tsx";
import { DeactivateView, RotateView, type RotationForm } from "./key-ending-view.tsx";
import { isOverlap } from "../views/overlap-choice.tsx";
import { KeyFormView } from "./key-form-view.tsx";
import { KeysView } from "./keys-view.tsx";
import { MappedRecord } from "./template-editor.tsx";

type Ctx = Context<PagesEnv>;

/** Spec §1: other members who open the URL see an explanation instead of the list. */
const requireKeyManager = pages.createMiddleware(async (c, next) => {
  if (!canManageKeys(c.get("role"))) return managersOnlyPage(c, null, "API Keys", "see or manage API keys");
  await next();
});

const TEXT = { title: "API Keys", section: "keys" } as const;

export const keyPages = pages
  .createApp()
  .use(requireKeyManager)
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
      TEXT,
      <KeysView path={keysPath(c)} query={cursor} page={list} lastUsed={lastUsed} {...related} nowMs={Date.now()} />,
    );
  })
  .get("/new", (c) => keyForm(c, emptyKey(crypto.randomUUID()), NO_ERRORS, 200))
  .post("/new", async (c) => {
    const form = await c.req.formData();
    const typed = readKeyForm(form, crypto.randomUUID());
    const edit = form.get("do");
    if (typeof edit === "string") return keyForm(c, edited(typed, edit), NO_ERRORS, 200);
    const { key, errors } = checkKeyForm(typed, Date.now());
    if (formTokenOf(form) === null) errors.form = "The form was not complete. Look it over and send it again.";
    if (key === null || errors.form !== undefined) return keyForm(c, typed, errors, 422);

    const { id } = c.get("workspace");
    const result = await createKeyOnce(c.get("db"), id, key, typed.formToken, byMember(c));
    return result.ok ? createdPage(c, result.value, null) : madeBeforePage(c, result.refusal.key);
  })
  .post("/new/preview", async (c) => {
    const typed = readKeyForm(await c.req.formData(), "");
    return fragment(c, <MappedRecord mapped={mapSample(typed)} />);
  })
  .get("/:key_id", async (c) => {
    const key = await findKey(c.get("db"), c.get("workspace").id, c.req.param("key_id"));
    return key === null ? notFoundPage(c, "key") : keyPage(c, key, {});
  })
  .post("/:key_id/name", async (c) => {
    const [db, { id }, keyId] = [c.get("db"), c.get("workspace"), c.req.param("key_id")];
    const typed = (await c.req.formData()).get("name");
    const name = checkKeyName(typeof typed === "string" ? typed : "");
    if (name.ok) {
      const renamed = await renameKey(db, id, keyId, name.value, byMember(c));
      return renamed === null ? notFoundPage(c, "key") : done(c, `settings/api-keys/${keyId}`, "saved");
    }
    const key = await findKey(db, id, keyId);
    if (key === null) return notFoundPage(c, "key");
    return keyPage(c, key, { rename: { typed: typeof typed === "string" ? typed : "", error: name.refusal } });
  })
  .post("/:key_id/silence", async (c) => {
    const [db, { id }, keyId] = [c.get("db"), c.get("workspace"), c.req.param("key_id")];
    const typed = (await c.req.formData()).get("silent_after_days");
    const text = typeof typed === "string" ? typed.trim() : "";
    const days = silentAfterDays.safeParse(text === "" ? null : Number(text));
    if (days.success) {
      const watched = await watchForSilence(db, id, keyId, days.data, byMember(c));
      return watched === null ? notFoundPage(c, "key") : done(c, `settings/api-keys/${keyId}`, "saved");
    }
    const key = await findKey(db, id, keyId);
    if (key === null) return notFoundPage(c, "key");
    return keyPage(c, key, { silence: { typed: text, error: `From 1 to ${KEY_SILENT_MAX_DAYS}, or nothing.` } });
  })
  .get("/:key_id/deactivate", async (c) => {
    const key = await activeKey(c);
    if (key instanceof Response) return key;
    return page(c, TEXT, <DeactivateView {...await endingOf(c, key)} />);
  })
  .post("/:key_id/deactivate", async (c) => {
    const key = await endKey(c.env, c.get("db"), c.get("workspace").id, c.req.param("key_id"), byMember(c));
    return key === null ? notFoundPage(c, "key") : done(c, "settings/api-keys", "key_deactivated");
  })
  .get("/:key_id/rotate", async (c) => {
    const key = await activeKey(c);
    if (key instanceof Response) return key;
    const asked = c.req.query("overlap");
    // A key that expires is rotated because it does: how long the next one lives is asked, and never taken for granted.
    const lifetime: TypedLifetime = { lifetime: key.expiresAt === null ? "never" : "", expires: "" };
    return rotateForm(c, key, {
      formToken: crypto.randomUUID(),
      overlap: isOverlap(asked) ? asked : "24h",
      lifetime,
      errors: {},
    });
  })
  .post("/:key_id/rotate", async (c) => {
    const form = await c.req.formData();
    const key = await findKey(c.get("db"), c.get("workspace").id, c.req.param("key_id"));
    if (key === null) return notFoundPage(c, "key");
    const formToken = formTokenOf(form);
    const overlap = form.get("overlap");
    const lifetime = readLifetime(form);
    const expiration = expirationOf(lifetime, Date.now(), key.expiresAt);
    if (formToken === null || !isOverlap(overlap) || !expiration.ok) {
      return rotateForm(c, key, {
        formToken: formToken ?? crypto.randomUUID(),
        overlap: isOverlap(overlap) ? overlap : "24h",
        lifetime,
        errors: {
          ...(isOverlap(overlap) ? {} : { overlap: "Choose when the old key ends." }),
          ...(expiration.ok ? {} : { lifetime: expiration.refusal }),
        },
      });
    }
    const rotation = { keyId: key.id, overlap, formToken, expiresAt: expiration.value };
    const rotated = await replaceKey(c.env, c.get("db"), c.get("workspace").id, rotation, byMember(c));
    if (rotated.ok) return createdPage(c, rotated.value, await findKey(c.get("db"), c.get("workspace").id, key.id));
    if (rotated.refusal.reason === "made_before") return madeBeforePage(c, rotated.refusal.key);
    return endedPage(c, rotated.refusal.reason);
  });

function keysPath(c: Ctx): string {
  return `${workspacePath(c)}/settings/api-keys`;
}

/** @param refused holds what was typed into a form that was refused. */
async function keyPage(c: Ctx, apiKey: ApiKey, refused: { rename?: TypedField; silence?: TypedField }) {
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
  return page(c, { ...TEXT, title: apiKey.name, status: Object.keys(refused).length === 0 ? 200 : 422 }, view);
}

function keyForm(c: Ctx, typed: TypedKey, errors: KeyFormErrors, status: 200 | 422) {
  const view = <KeyFormView path={keysPath(c)} typed={typed} errors={errors} mapped={mapSample(typed)} />;
  return page(c, { ...TEXT, title: "Create API Key", status }, view);
}

/** The form after a button of the template editor: `add`, `remove.2`, `fill` or `preview`. */
function edited(typed: TypedKey, edit: string): TypedKey {
  const [what, at] = edit.split(".");
  const product: TypedKey = { ...typed, endpointType: "product_org" };
  if (what === "add") return { ...product, rows: [...typed.rows, emptyRow()] };
  if (what === "remove") return { ...product, rows: typed.rows.filter((_, index) => index !== Number(at)) };
  if (what !== "fill") return product;
  const sample = readSample(typed.sample);
  return sample.ok ? { ...product, rows: proposeTemplate(sample.value).map(toRow) } : product;
}

/** The only page with a full key in it. It answers the post itself: for a redirect the key would have to be stored. */
function createdPage(c: Ctx, created: CreatedKey, replaced: ApiKey | null) {
  const where = { home: workspacePath(c), path: keysPath(c), origin: new URL(c.req.url).origin };
  const title = replaced === null ? "API key created" : "API key rotated";
  return page(
    c,
    { ...TEXT, title },
    <KeyCreatedView {...where} created={created} replaced={replaced} nowMs={Date.now()} />,
  );
}

async function madeBeforePage(c: Ctx, apiKey: ApiKey) {
  const view = <KeyMadeBeforeView {...await endingOf(c, apiKey)} />;
  return page(c, { ...TEXT, title: "Created already", status: 409 }, view);
}

async function rotateForm(c: Ctx, key: ApiKey, form: RotationForm) {
  if (keyStatus(key, Date.now()) === "Inactive") return endedPage(c, "inactive");
  const status = Object.keys(form.errors).length === 0 ? 200 : 422;
  return page(c, { ...TEXT, title: "Rotate", status }, <RotateView {...await endingOf(c, key)} form={form} />);
}

async function endingOf(c: Ctx, apiKey: ApiKey) {
  const lastUsed = await quotaCounter(c.env, c.get("workspace").id).lastUsed();
  return { path: keysPath(c), apiKey, usedMs: lastUsed[apiKey.id], nowMs: Date.now() };
}

/** The key of the path, or the page that says why there is none to change. */
async function activeKey(c: Ctx): Promise<ApiKey | Response> {
  const key = await findKey(c.get("db"), c.get("workspace").id, c.req.param("key_id") ?? "");
  if (key === null) return notFoundPage(c, "key");
  return keyStatus(key, Date.now()) === "Active" ? key : endedPage(c, "inactive");
}

function endedPage(c: Ctx, reason: "not_found" | "inactive"): Response | Promise<Response> {
  if (reason === "not_found") return notFoundPage(c, "key");
  return page(
    c,
    { ...TEXT, status: 409 },
    <>
      <h1>This key has ended</h1>
      <p class="quiet">It is inactive already: deactivated or expired. Create a new one instead.</p>
      <p>
        <a href={keysPath(c)}>To the list</a>
      </p>
    </>,
  );
}
