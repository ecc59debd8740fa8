/** Settings › API Keys: a key is deactivated, or rotated into another one. */
import { findKey, type ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { endKey, replaceKey } from "../../workspace/manage-keys.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { done, notFoundPage, page } from "../page.tsx";
import { readForm } from "../read-form.tsx";
import { pages, contextOf } from "../pages-env.ts";
import { isOverlap } from "../views/overlap-choice.tsx";
import { createdPage, endingOf, KEYS_PAGE, keysPath, madeBeforePage, type KeyContext } from "./key-answers.tsx";
import { DeactivateView, RotateView, type RotationForm } from "./key-ending-view.tsx";
import { formTokenOf } from "./key-form.ts";
import { expirationOf, readLifetime, type TypedLifetime } from "./key-lifetime.ts";

export const keyEndingPages = pages
  .createApp()
  .get("/:key_id/deactivate", async (c) => {
    const key = await activeKey(c);
    if (key instanceof Response) return key;
    return page(c, KEYS_PAGE, <DeactivateView {...await endingOf(c, key)} />);
  })
  .post("/:key_id/deactivate", async (c) => {
    const key = await endKey(contextOf(c), c.req.param("key_id"));
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
  .post("/:key_id/rotate", readForm(), async (c) => {
    const form = c.get("form");
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
    const rotated = await replaceKey(contextOf(c), rotation);
    if (rotated.ok) return createdPage(c, rotated.value, await findKey(c.get("db"), c.get("workspace").id, key.id));
    const { refusal } = rotated;
    if (refusal.reason === "made_before") return madeBeforePage(c, refusal.key);
    if (refusal.reason === "not_found" || refusal.reason === "key_inactive") return endedPage(c, refusal.reason);
    return rotateForm(c, key, { formToken, overlap, lifetime, errors: { form: LIMIT_COPY[refusal.reason] } });
  });

async function rotateForm(c: KeyContext, key: ApiKey, form: RotationForm) {
  if (keyStatus(key, Date.now()) === "Inactive") return endedPage(c, "key_inactive");
  const status = Object.keys(form.errors).length === 0 ? 200 : 422;
  return page(c, { ...KEYS_PAGE, title: "Rotate", status }, <RotateView {...await endingOf(c, key)} form={form} />);
}

/** The key of the path, or the page that says why there is none to change. */
async function activeKey(c: KeyContext): Promise<ApiKey | Response> {
  const key = await findKey(c.get("db"), c.get("workspace").id, c.req.param("key_id") ?? "");
  if (key === null) return notFoundPage(c, "key");
  return keyStatus(key, Date.now()) === "Active" ? key : endedPage(c, "key_inactive");
}

function endedPage(c: KeyContext, reason: "not_found" | "key_inactive"): Response | Promise<Response> {
  if (reason === "not_found") return notFoundPage(c, "key");
  return page(
    c,
    { ...KEYS_PAGE, status: 409 },
    <>
      <h1>This key has ended</h1>
      <p class="quiet">It is inactive already: deactivated or expired. Create a new one instead.</p>
      <p>
        <a href={keysPath(c)}>To the list</a>
      </p>
    </>,
  );
}
