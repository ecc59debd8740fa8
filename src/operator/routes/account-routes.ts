/** Accounts (spec §1, design §8.7), and what a payload template makes of a sample. */
import * as z from "zod";
import { compileTemplate, mapAccount } from "../../domain/accounts/payload-template.ts";
import type { JsonObject } from "../../domain/json/json-object.ts";
import { IDENTITY_MAX_LENGTH, SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../../limits.ts";
import type { AccountFilter } from "../../store/protocol/account-pages.ts";
import {
  accountAnswer,
  accountJson,
  recordAnswer,
  recordJson,
  templateErrorAnswer,
} from "../answers/account-answers.ts";
import { operator } from "../environment.ts";
import { payloadTemplate } from "../../workspace/key-schemas.ts";
import { signalStore } from "../../workspace/objects.ts";
import { operation } from "../operation.ts";
import { filteredPageQuery, listOf, mapPage, pageAsked } from "../schema-parts.ts";

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
