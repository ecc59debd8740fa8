/** The rotation of an API key into a successor with the same settings (design §5). */
import { findKey, type ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { isOverlap, replaceKey, type Overlap } from "../../workspace/manage-keys.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { FormErrors, SelectField } from "../kit/forms.tsx";
import { Empty, Fact, FactList, PageHead, Panel } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { contextOf, pages } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { createdPage, madeBeforePage } from "./created-key.tsx";
import { expirationOf, formTokenOf, readLifetime, type TypedLifetime } from "./key-form.ts";
import { keyCrumbs, type KeyContext, KEYS_PAGE, keysPath, LastUsed, LifetimeFields } from "./key-parts.tsx";

const OVERLAPS = [
  ["none", "Now: calls fail until the sender has the new key"],
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
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
    const rotated = await replaceKey(contextOf(c), { keyId: key.id, overlap, formToken, expiresAt: expiration.value });
    if (rotated.ok) return createdPage(c, rotated.value, await findKey(db, id, key.id));
    const { refusal } = rotated;
    if (refusal.reason === "made_before") return madeBeforePage(c, refusal.key);
    if (refusal.reason === "not_found") return notFoundPage(c, "key");
    if (refusal.reason === "key_inactive") return endedPage(c);
    return formPage(c, key, { formToken, overlap, lifetime, errors: { form: LIMIT_COPY[refusal.reason] } });
  });

async function formPage(c: KeyContext, apiKey: ApiKey, form: RotationForm): Promise<Response> {
  const nowMs = Date.now();
  if (keyStatus(apiKey, nowMs) === "Inactive") return endedPage(c);
  const lastUsed = await quotaCounter(c.env, c.get("workspace").id).lastUsed();
  const props = { path: keysPath(c), apiKey, usedMs: lastUsed[apiKey.id], form, nowMs };
  const status = Object.keys(form.errors).length === 0 ? 200 : 422;
  return page(c, { ...KEYS_PAGE, title: "Rotate API key", status }, <RotateView {...props} />);
}

function endedPage(c: KeyContext): Promise<Response> {
  return page(
    c,
    { ...KEYS_PAGE, status: 409 },
    <>
      <PageHead title="Rotate API key" crumbs={keyCrumbs(keysPath(c))} />
      <Empty title="This key is inactive">
        <p>It was deactivated or has expired. Create a new key instead.</p>
        <a class="button" href={`${keysPath(c)}/new`}>
          Create API key
        </a>
      </Empty>
    </>,
  );
}

interface Props {
  /** Path of the list. */
  path: string;
  apiKey: ApiKey;
  usedMs: number | undefined;
  form: RotationForm;
  nowMs: number;
}

function RotateView({ path, apiKey, usedMs, form: { formToken, overlap, lifetime, errors }, nowMs }: Props) {
  return (
    <>
      <PageHead title={`Rotate ${apiKey.name}`} crumbs={keyCrumbs(path, apiKey)}>
        Creates a key with the same settings{apiKey.hasSecret ? " and a new secret" : ""}, shown once.
      </PageHead>
      <FormErrors title="The key was not rotated" errors={Object.values(errors)} />
      <Panel>
        <FactList>
          <Fact name="Old key">
            <code>{apiKey.maskedKey}</code>
          </Fact>
          <Fact name="Last used">
            <LastUsed usedMs={usedMs} nowMs={nowMs} />
          </Fact>
        </FactList>
        <form method="post" action={`${path}/${apiKey.id}/rotate`} data-once class="form">
          <input type="hidden" name="form_token" value={formToken} />
          <SelectField
            name="overlap"
            label="The old key ends in"
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
          <div class="row">
            <button class="primary">Rotate key</button>
            <a class="button" href={path}>
              Cancel
            </a>
          </div>
        </form>
      </Panel>
    </>
  );
}
