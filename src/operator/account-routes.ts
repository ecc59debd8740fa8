/** Accounts (spec §1), and the preview of a payload template. */
import * as z from "zod";
import {
  ACCOUNT_TARGETS,
  compileTemplate,
  mapAccount,
  type AccountField,
  type TemplateError,
} from "../domain/accounts/payload-template.ts";
import { boundedText } from "../http/fields.ts";
import { grouped } from "../domain/text.ts";
import {
  ACCOUNT_HISTORY_SHOWN,
  FIELD_HISTORY_MAX_BYTES,
  FIELD_HISTORY_MAX_CHANGES,
  IDENTITY_MAX_LENGTH,
  SIGNAL_MAX_BYTES,
  SIGNAL_MAX_DEPTH,
} from "../limits.ts";
import type { AccountsSort } from "../store/protocol/people-and-accounts.ts";
import { payloadTemplate } from "../use-cases/manage-keys.ts";
import {
  listQueryOf,
  camelKeys,
  count,
  filteredPageQuery,
  instant,
  listOf,
  listQuery,
  operationsOf,
  storeOf,
} from "./operation.ts";
import { person, readPeople } from "./signal-routes.ts";

const operation = operationsOf("Accounts", "account");

const ACCOUNT_ORDERS = ["newest", "score", "people", "last_seen"] as const satisfies readonly AccountsSort[];

const externalId = z.string().meta({ example: "acme-42" });
const fieldValue = z.unknown().describe("The payload template defines the type. Null: no value was ever sent.");
const attributes = z.record(z.string(), z.unknown()).meta({ description: "By name.", example: { region: "emea" } });
const values = {
  name: fieldValue,
  plan: fieldValue,
  user_count: fieldValue,
  recurring_revenue: fieldValue,
  trial_status: fieldValue,
  feature_flags: fieldValue,
} satisfies Record<AccountField, z.ZodType>;

const accountChange = z
  .object({
    field: z.enum(ACCOUNT_TARGETS.filter((target) => target !== "external_id")),
    before: z.unknown().describe("Null: the field had no value before."),
    after: z.unknown(),
    at: instant.describe("When the update was received."),
    signal_id: z.string(),
  })
  .meta({ id: "AccountChange" });

const account = z
  .object({
    external_id: externalId,
    ...values,
    attributes,
    score: z.int().describe("Sum of the scores of the account's people, without points that have lapsed."),
    recomputing: z.boolean().describe("True: a person of the account is being recomputed."),
    people: count,
    first_seen: instant,
    last_seen: instant,
    last_seen_at: instant.describe("The same as `last_seen`."),
    history_cut: z
      .boolean()
      .describe(
        `True: older changes are no longer kept. A field keeps its latest ${grouped(FIELD_HISTORY_MAX_CHANGES)} changes, up to ${FIELD_HISTORY_MAX_BYTES / 1024} KB of values.`,
      ),
    history: z.array(accountChange).describe(`Newest first, at most ${ACCOUNT_HISTORY_SHOWN}.`),
  })
  .meta({ id: "Account" });

const accounts = listOf(account).extend({
  sorted: z.boolean().describe("False: there are too many accounts to sort, so the newest come first."),
  lapsing: z.boolean().describe("True: points are lapsing right now, so scores and their order may change."),
});

const record = z
  .object({ external_id: externalId, ...z.object(values).partial().shape, attributes })
  .meta({ id: "AccountRecord", description: "What an update would set. Other fields keep their value." });

const templateError = z
  .object({
    target: z.string().meta({ example: "user_count" }),
    path: z.string().meta({ example: "seats" }),
    code: z.enum(["missing", "wrong_type", "out_of_reach"]),
    detail: z.string().describe("One sentence, without the value."),
    sent: z.string().optional().meta({ description: "The beginning of the value, in quotes.", example: '"12 seats"' }),
  } satisfies Record<keyof TemplateError, z.ZodType>)
  .meta({ id: "TemplateError" });

const accountQuery = filteredPageQuery({
  order: z.enum(ACCOUNT_ORDERS).default("newest").describe("Each in descending order."),
  external_id: boundedText(IDENTITY_MAX_LENGTH, { trim: true }).min(1).optional().describe("Exactly this id."),
});

/** With the limits of the endpoint, so that the endpoint accepts every previewed payload. */
const sample = z
  .record(z.string(), z.unknown())
  .refine((payload) => !isDeeper(payload, SIGNAL_MAX_DEPTH), {
    error: `at most ${SIGNAL_MAX_DEPTH} levels of nesting`,
    abort: true,
  })
  .refine(
    (payload) => Buffer.byteLength(JSON.stringify(payload)) <= SIGNAL_MAX_BYTES,
    `at most ${SIGNAL_MAX_BYTES} bytes`,
  )
  .describe("A payload as a sender would send it.");

export const accountRoutes = [
  operation("GET", "/workspaces/:workspace_id/accounts", {
    summary: "Accounts, their scores and the history of their fields",
    scope: "read",
    query: accountQuery,
    answers: { 200: "Accounts in the order of the query." },
    schema: accounts,
    async handle(c, { query: { order: sort, externalId: id, ...page } }) {
      const { items, ...found } = await storeOf(c).accounts({ externalId: id, sort }, listQueryOf(page));
      return { items: items.map((item) => ({ ...camelKeys(item), lastSeenAtMs: item.lastSeenMs })), ...found };
    },
  }),
  operation("GET", "/workspaces/:workspace_id/accounts/:external_id/people", {
    summary: "People of an account",
    scope: "read",
    description: "Newest first. The id is percent-encoded. The list of people has a filter by account, too.",
    query: listQuery,
    answers: { 200: "People." },
    schema: listOf(person),
    async handle(c, { query }) {
      const id = c.req.param("external_id");
      const people = await readPeople(c, { account: id }, listQueryOf(query));
      if (people.items.length > 0) return people;
      const found = await storeOf(c).accounts({ externalId: id }, { cursor: null, limit: 1 });
      return found.items.length === 0 ? null : people;
    },
  }),
  operation("POST", "/workspaces/:workspace_id/accounts/preview", {
    summary: "Try a payload template on a sample",
    scope: "keys",
    description: "Stores and counts nothing. The answer has the values that an update would set, or all errors.",
    body: z.strictObject({ payload_template: payloadTemplate, sample }).meta({ id: "AccountPreview" }),
    bodyExample: {
      payload_template: [
        { target: "external_id", path: "company.id", type: "string" },
        { target: "user_count", path: "seats", type: "number" },
        { target: "attributes.region", path: "geo.region", type: "string" },
      ],
      sample: { company: { id: "acme-42" }, seats: "12", geo: { region: "emea" } },
    },
    answers: { 200: "The record, or the errors." },
    schema: z.union([z.object({ record }), z.object({ errors: z.array(templateError) })]),
    handle(c, { body }) {
      const mapped = mapAccount(compileTemplate(body.payloadTemplate), body.sample);
      if (!mapped.ok) return c.json({ errors: mapped.rejection });
      const { externalId: external_id, fields, attributes: others } = mapped.value;
      return c.json({ record: { external_id, ...fields, attributes: others } });
    },
  }),
];

/** Reads at most `levels` deep. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}
