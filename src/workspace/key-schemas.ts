/** Schemas of a new API key (spec §2.1) and of its payload template (design §8.7). */
import * as z from "zod";
import { ENDPOINT_TYPES } from "../domain/signal/signal.ts";
import { parseDotPath } from "../domain/json/dot-path.ts";
import { ACCOUNT_TARGETS, isAccountTarget, PAYLOAD_TYPES } from "../domain/accounts/payload-template.ts";
import { TEMPLATE_MAX_BYTES, TEMPLATE_MAX_MAPPINGS } from "../limits.ts";
import { name, time } from "./field-schemas.ts";
import { noCredential } from "./name-schema.ts";

export const payloadMapping = z
  .strictObject({
    target: z
      .string()
      .max(255)
      .refine(...noCredential)
      .refine(isAccountTarget, `one of ${ACCOUNT_TARGETS.join(", ")}, or attributes.<name>`)
      .meta({
        description: "`external_id`, another field of an account, or `attributes.<name>`.",
        example: "external_id",
      }),
    path: z
      .string()
      .max(255)
      .refine(...noCredential)
      .refine((path) => parseDotPath(path) !== undefined, "not a dot path such as company.id")
      .meta({ description: "Dot path into the payload.", example: "company.id" }),
    type: z.enum(PAYLOAD_TYPES),
    required: z.boolean().default(false),
  })
  .meta({ id: "PayloadMapping", outputId: "StoredPayloadMapping" });

export const payloadTemplate = z
  .array(payloadMapping)
  .max(TEMPLATE_MAX_MAPPINGS)
  .superRefine((template, ctx) => {
    const seen = new Set<string>();
    for (const [index, { target, type }] of template.entries()) {
      if (seen.has(target))
        ctx.addIssue({ code: "custom", path: [index, "target"], message: `${target} is mapped twice` });
      seen.add(target);
      if (target === "external_id" && type === "boolean")
        ctx.addIssue({ code: "custom", path: [index, "type"], message: "external_id cannot be true or false" });
    }
    if (!seen.has("external_id")) ctx.addIssue({ code: "custom", message: "a mapping of external_id is missing" });
    if (Buffer.byteLength(JSON.stringify(template)) > TEMPLATE_MAX_BYTES)
      ctx.addIssue({ code: "custom", message: `all mappings together have more than ${TEMPLATE_MAX_BYTES} bytes` });
  })
  // An account without an external id could not be found again: it is required whatever was said.
  .transform((template) =>
    template.map((mapping) => ({ ...mapping, required: mapping.required || mapping.target === "external_id" })),
  );

const expiration = time.refine((at) => Date.parse(at) > Date.now(), "must lie in the future").nullish();

export const keyRotation = z
  .strictObject({
    overlap: z.enum(["none", "1h", "24h", "7d"]),
    expires_at: expiration.meta({
      description: "Of the successor; null: never. What was asked for the old key, when this is left out.",
    }),
  })
  .meta({ id: "KeyRotation" });

export const newKey = z
  .strictObject({
    name,
    endpoint_type: z
      .enum(ENDPOINT_TYPES)
      .default("signal_staging")
      .meta({ description: "Which endpoints the key may be used on." }),
    expires_at: expiration.meta({ description: "The key never expires when this is left out." }),
    secret: z.boolean().default(false).meta({ description: "Generate a shared secret that calls must carry." }),
    payload_template: payloadTemplate
      .nullish()
      .meta({ description: "Required for `product_org`, refused for `signal_staging`." }),
  })
  .superRefine((key, ctx) => {
    const isGiven = (key.payload_template ?? null) !== null;
    if (isGiven === (key.endpoint_type === "product_org")) return;
    const message = isGiven ? "only for endpoint_type product_org" : "required when endpoint_type is product_org";
    ctx.addIssue({ code: "custom", path: ["payload_template"], message });
  });
