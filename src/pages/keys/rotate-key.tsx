/** The rotation of an API key into a successor with the same settings (design §5). */
import { findKey, type ApiKey } from "../../control/api-keys.ts";
import { isOverlap, rotateApiKey, type Overlap } from "../../workspace/manage-keys.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { LinkButton } from "../kit/actions.tsx";
import { Form, FormErrors, SelectField } from "../kit/forms.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { Notice, Panel } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { contextOf, counterOf, type Ctx, pages } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { createdPage, madeBeforePage } from "./created-key.tsx";
import { formTokenOf, INCOMPLETE_FORM, isActive, LastUsed } from "./key-parts.tsx";
import { expirationOf, LifetimeFields, readLifetime, type TypedLifetime } from "./lifetime.tsx";

const OVERLAPS = [
  ["none", "Now: calls fail until the sender has the new key"],
  ["1h", "In 1 hour"],
  ["24h", "In 24 hours"],
  ["7d", "In 7 days"],
] as const satisfies readonly (readonly [Overlap, string])[];

interface TypedRotation {
  formToken: string;
  overlap: Overlap;
  lifetime: TypedLifetime;
}

type Errors = Partial<Record<"form" | "overlap" | "lifetime", string>>;

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
      const typed = {
        formToken: formToken ?? crypto.randomUUID(),
        overlap: isOverlap(overlap) ? overlap : ("24h" as const),
        lifetime,
      };
      return formPage(c, key, typed, {
        ...(formToken === null && { form: INCOMPLETE_FORM }),
        ...(!isOverlap(overlap) && { overlap: "Choose when the old key ends." }),
        ...(!expiration.ok && { lifetime: expiration.refusal }),
      });
    }
    const rotation = { keyId: key.id, overlap, formToken, expiresAt: expiration.value };
    const rotated = await rotateApiKey(contextOf(c), rotation);
    if (rotated.ok) return createdPage(c, rotated.value, await findKey(db, id, key.id));
    const { refusal } = rotated;
    if (refusal.reason === "made_before") return madeBeforePage(c, refusal.key);
    if (refusal.reason === "not_found") return notFoundPage(c, "key");
    // `formPage` says that the key is inactive.
    const errors = refusal.reason === "key_inactive" ? {} : { form: LIMIT_COPY[refusal.reason] };
    return formPage(c, (await findKey(db, id, key.id)) ?? key, { formToken, overlap, lifetime }, errors);
  });

function inactivePage(c: Ctx, { id, name }: ApiKey): Promise<Response> {
  const path = sectionPath(c, "keys");
  const heading = { title: "Rotate API key", heading: `Rotate ${name}`, crumbs: [[name, `${path}/${id}`]] as const };
  return page(
    c,
    { section: "keys", ...heading, status: 409 },
    <>
      <Notice tone="bad" title="An inactive key cannot be rotated" text="Create a new key instead." />
      <div>
        <LinkButton href={`${path}/new`} text="Create API key" look="primary" />
      </div>
    </>,
  );
}

async function formPage(c: Ctx, apiKey: ApiKey, typed: TypedRotation, errors: Errors = {}): Promise<Response> {
  if (!isActive(apiKey)) return inactivePage(c, apiKey);
  const lastUsed = await counterOf(c).lastUsed();
  const path = sectionPath(c, "keys");
  return page(
    c,
    {
      section: "keys",
      title: "Rotate API key",
      heading: `Rotate ${apiKey.name}`,
      crumbs: [[apiKey.name, `${path}/${apiKey.id}`]],
      intro: (
        <>
          The new key has the same settings{apiKey.hasSecret ? " and a new secret" : ""}. The old key is{" "}
          <code>{apiKey.maskedKey}</code>, last used: <LastUsed usedMs={lastUsed[apiKey.id]} />.
        </>
      ),
      status: Object.keys(errors).length === 0 ? 200 : 422,
    },
    <>
      <FormErrors title="The key was not rotated" errors={Object.values(errors)} />
      <Panel>
        <Form
          action={`${path}/${apiKey.id}/rotate`}
          submit="Rotate key"
          cancel={path}
          hidden={{ form_token: typed.formToken }}
        >
          <SelectField
            name="overlap"
            label="The old key ends"
            hint={`Until then both keys work${apiKey.endsAt === null ? "" : ", unless the old key expires before"}.`}
            value={typed.overlap}
            options={OVERLAPS}
            error={errors.overlap}
          />
          <LifetimeFields
            label="The new key expires"
            typed={typed.lifetime}
            kept={apiKey.expiresAt}
            error={errors.lifetime}
          />
        </Form>
      </Panel>
    </>,
  );
}
