/** The rotation of an API key into a successor with the same settings (design §5). */
import { findKey, type ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { isOverlap, rotateApiKey, type Overlap } from "../../workspace/manage-keys.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { FormEnd, FormErrors, SelectField } from "../kit/forms.tsx";
import { Notice, PageHead, Panel } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { contextOf, pages } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { createdPage, madeBeforePage } from "./created-key.tsx";
import { expirationOf, formTokenOf, readLifetime, type TypedLifetime } from "./key-form.ts";
import { keyCrumbs, type KeyContext, KEYS_PAGE, keysPath, LastUsed, LifetimeFields } from "./key-parts.tsx";

const OVERLAPS = [
  ["none", "Now: calls fail until the sender has the new key"],
  ["1h", "In 1 hour"],
  ["24h", "In 24 hours"],
  ["7d", "In 7 days"],
] as const satisfies readonly (readonly [Overlap, string])[];

interface RotationForm {
  formToken: string;
  overlap: Overlap;
  lifetime: TypedLifetime;
  errors: { form?: string; overlap?: string; lifetime?: string };
}

export const rotateKeyPages = pages
  .createApp()
  .get("/:key_id/rotate", async (c) => {
    const key = await findKey(c.get("db"), c.get("workspace").id, c.req.param("key_id"));
    if (key === null) return notFoundPage(c, "key");
    const asked = c.req.query("overlap");
    return formPage(c, key, {
      formToken: crypto.randomUUID(),
      overlap: isOverlap(asked) ? asked : "24h",
      // An expiring key is often rotated because it expires, so its successor's expiration has to be chosen.
      lifetime: { lifetime: key.expiresAt === null ? "never" : "", expires: "" },
      errors: {},
    });
  })
  .post("/:key_id/rotate", readForm(), async (c) => {
    const form = c.get("form");
    const [db, { id }] = [c.get("db"), c.get("workspace")];
    const key = await findKey(db, id, c.req.param("key_id"));
    if (key === null) return notFoundPage(c, "key");
    const formToken = formTokenOf(form);
    const overlap = form.get("overlap");
    const lifetime = readLifetime(form);
    const expiration = expirationOf(lifetime, Date.now(), key.expiresAt);
    if (formToken === null || !isOverlap(overlap) || !expiration.ok) {
      return formPage(c, key, {
        formToken: formToken ?? crypto.randomUUID(),
        overlap: isOverlap(overlap) ? overlap : "24h",
        lifetime,
        errors: {
          ...(formToken === null ? { form: "The form was incomplete. Check it and send it again." } : {}),
          ...(isOverlap(overlap) ? {} : { overlap: "Choose when the old key ends." }),
          ...(expiration.ok ? {} : { lifetime: expiration.refusal }),
        },
      });
    }
    const rotated = await rotateApiKey(contextOf(c), {
      keyId: key.id,
      overlap,
      formToken,
      expiresAt: expiration.value,
    });
    if (rotated.ok) return createdPage(c, rotated.value, await findKey(db, id, key.id));
    const { refusal } = rotated;
    if (refusal.reason === "made_before") return madeBeforePage(c, refusal.key);
    if (refusal.reason === "not_found") return notFoundPage(c, "key");
    // `formPage` says that the key is inactive.
    const errors = refusal.reason === "key_inactive" ? {} : { form: LIMIT_COPY[refusal.reason] };
    return formPage(c, (await findKey(db, id, key.id)) ?? key, { formToken, overlap, lifetime, errors });
  });

async function formPage(c: KeyContext, apiKey: ApiKey, { errors, ...form }: RotationForm): Promise<Response> {
  const lastUsed = await quotaCounter(c.env, c.get("workspace").id).lastUsed();
  const isActive = keyStatus(apiKey, Date.now()) === "Active";
  const status = !isActive ? 409 : Object.keys(errors).length === 0 ? 200 : 422;
  const props = { path: keysPath(c), apiKey, usedMs: lastUsed[apiKey.id], form: { ...form, errors } };
  const view = isActive ? <RotateView {...props} /> : <InactiveView {...props} />;
  return page(c, { ...KEYS_PAGE, title: "Rotate API key", status }, view);
}

interface Props {
  /** Path of the list. */
  path: string;
  apiKey: ApiKey;
  usedMs: number | undefined;
  form: RotationForm;
}

function InactiveView({ path, apiKey }: Props) {
  return (
    <>
      <PageHead title={`Rotate ${apiKey.name}`} crumbs={keyCrumbs(path, apiKey)} />
      <Notice tone="bad" title="An inactive key cannot be rotated">
        <p>Create a new key instead.</p>
      </Notice>
      <div>
        <a class="button primary" href={`${path}/new`}>
          Create API key
        </a>
      </div>
    </>
  );
}

function RotateView({ path, apiKey, usedMs, form: { formToken, overlap, lifetime, errors } }: Props) {
  return (
    <>
      <PageHead title={`Rotate ${apiKey.name}`} crumbs={keyCrumbs(path, apiKey)}>
        The new key has the same settings{apiKey.hasSecret ? " and a new secret" : ""}. The old key is{" "}
        <code>{apiKey.maskedKey}</code>, last used: <LastUsed usedMs={usedMs} nowMs={Date.now()} />.
      </PageHead>
      <FormErrors title="The key was not rotated" errors={Object.values(errors)} />
      <Panel>
        <form method="post" action={`${path}/${apiKey.id}/rotate`} data-once class="form">
          <input type="hidden" name="form_token" value={formToken} />
          <SelectField
            name="overlap"
            label="The old key ends"
            hint={
              apiKey.endsAt === null
                ? "Until then both keys work."
                : "Until then both keys work, unless the old key expires before."
            }
            value={overlap}
            options={OVERLAPS}
            error={errors.overlap}
          />
          <LifetimeFields
            label="The new key expires"
            typed={lifetime}
            kept={apiKey.expiresAt}
            error={errors.lifetime}
          />
          <FormEnd submit="Rotate key" cancel={path} />
        </form>
      </Panel>
    </>
  );
}
