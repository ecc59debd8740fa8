/** Accounts (spec §1, design §8.7), and the preview of a payload template. */
import * as z from "zod";
import { iso } from "../control/database.ts";
import {
  ACCOUNT_TARGETS,
  compileTemplate,
  mapAccount,
  type AccountField,
  type AccountRecord,
  type TemplateError,
} from "../domain/accounts/payload-template.ts";
import type { JsonObject } from "../domain/json/json-value.ts";
import { ACCOUNT_HISTORY_SHOWN, IDENTITY_MAX_LENGTH, SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../limits.ts";
import { operator } from "./environment.ts";
import { operation } from "./operation.ts";
import { filteredPageQuery, instant, listOf, mapPage, pageAsked } from "./schema-parts.ts";
import type { Account, AccountFilter } from "../store/protocol/people-and-accounts.ts";
import { payloadTemplate } from "../workspace/input-schemas.ts";
import { signalStore } from "../workspace/objects.ts";

const FIELDS = ACCOUNT_TARGETS.filter((target) => target !== "external_id");

const externalIdAnswer = z.string().meta({ example: "acme-42" });
const fieldValue = z
  .unknown()
  .meta({ description: "Of the type that the payload template gives it; null: never sent." });
const attributes = z.record(z.string(), z.unknown()).meta({ description: "By name.", example: { region: "emea" } });
const values = {
  name: fieldValue,
  plan: fieldValue,
  user_count: fieldValue,
  recurring_revenue: fieldValue,
  trial_status: fieldValue,
  feature_flags: fieldValue,
} satisfies Record<AccountField, z.ZodType>;

const change = z
  .object({
    field: z.enum(FIELDS),
    before: z.unknown().meta({ description: "Null where the field was not known before." }),
    after: z.unknown(),
    at: instant.meta({ description: "Receipt of the update." }),
    signal_id: z.string(),
  })
  .meta({ id: "AccountChange" });

const accountAnswer = z
  .object({
    external_id: externalIdAnswer,
    ...values,
    attributes,
    first_seen: instant,
    last_seen: instant,
    history: z.array(change).meta({ description: `Newest first, at most ${ACCOUNT_HISTORY_SHOWN}.` }),
  })
  .meta({ id: "Account" });

const recordAnswer = z
  .object({ external_id: externalIdAnswer, ...z.object(values).partial().shape, attributes })
  .meta({ id: "AccountRecord", description: "What an update would set; it leaves alone what is not in here." });

const templateErrorAnswer = z
  .object({
    target: z.string().meta({ example: "user_count" }),
    path: z.string().meta({ example: "seats" }),
    code: z.enum(["missing", "wrong_type", "out_of_reach"]),
    detail: z.string().meta({ description: "One sentence, without the value." }),
    sent: z.string().optional().meta({ description: "The beginning of the value, in quotes.", example: '"12 seats"' }),
  } satisfies Record<keyof TemplateError, z.ZodType>)
  .meta({ id: "TemplateError" });

function accountJson(account: Account): z.infer<typeof accountAnswer> {
  const { externalId: external_id, firstSeenMs, lastSeenMs, history, ...fields } = account;
  return {
    external_id,
    ...fields,
    first_seen: iso(firstSeenMs),
    last_seen: iso(lastSeenMs),
    history: history.map(({ atMs, signalId, ...changed }) => ({ ...changed, at: iso(atMs), signal_id: signalId })),
  };
}

function recordJson(record: AccountRecord): z.infer<typeof recordAnswer> {
  return { external_id: record.externalId, ...record.fields, attributes: record.attributes };
}

const accountQuery = filteredPageQuery({
  external_id: z.string().trim().min(1).max(IDENTITY_MAX_LENGTH).optional().meta({ description: "Exactly this id." }),
});

/** A sample payload within the bounds of the endpoint: the preview must not promise more than that takes. */
const sample = z
  .record(z.string(), z.unknown())
  .refine((payload) => !isDeeper(payload, SIGNAL_MAX_DEPTH), {
    error: `at most ${SIGNAL_MAX_DEPTH} levels of nesting`,
    abort: true,
  })
  .refine((payload) => byteLength(payload) <= SIGNAL_MAX_BYTES, `at most ${SIGNAL_MAX_BYTES} bytes`)
  .meta({ description: "A payload as it would be sent." });

const preview = z.strictObject({ payload_template: payloadTemplate, sample }).meta({ id: "AccountPreview" });

export const accountRoutes = operator
  .createApp()
  .get(
    "/workspaces/:workspace_id/accounts",
    operation({
      tag: "Accounts",
      summary: "Accounts and the history of their fields",
      query: accountQuery,
      answers: { 200: { description: "Accounts, the newest first.", schema: listOf(accountAnswer) } },
    }),
    async (c) => {
      const { external_id: externalId, ...query } = c.req.valid("query");
      const filter: AccountFilter = externalId === undefined ? {} : { externalId };
      const page = await signalStore(c.env, c.get("workspace").id).accounts(filter, pageAsked(query));
      return c.json(mapPage(page, accountJson));
    },
  )
  .post(
    "/workspaces/:workspace_id/accounts/preview",
    operation({
      tag: "Accounts",
      summary: "Try a payload template on a sample",
      description:
        "Nothing is stored or counted. Answers what an update would set, or everything that is wrong with it.",
      body: preview,
      bodyExample: {
        payload_template: [
          { target: "external_id", path: "company.id", type: "string" },
          { target: "user_count", path: "seats", type: "number" },
          { target: "attributes.region", path: "geo.region", type: "string" },
        ],
        sample: { company: { id: "acme-42" }, seats: "12", geo: { region: "emea" } },
      },
      answers: {
        200: {
          description: "The record, or the errors.",
          schema: z.union([z.object({ record: recordAnswer }), z.object({ errors: z.array(templateErrorAnswer) })]),
        },
      },
    }),
    (c) => {
      const { payload_template, sample: payload } = c.req.valid("json");
      const mapped = mapAccount(compileTemplate(payload_template), payload);
      return c.json(mapped.ok ? { record: recordJson(mapped.value) } : { errors: mapped.refusal });
    },
  );

/** Whether a value has more levels of nesting than `levels`; looks no deeper than that. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

function byteLength(payload: JsonObject): number {
  return Buffer.byteLength(JSON.stringify(payload));
}
