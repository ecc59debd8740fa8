/** Accounts: what is answered, and the record turned into it. */
import * as z from "zod";
import { iso } from "../../control/database.ts";
import { ACCOUNT_TARGETS } from "../../domain/accounts/payload-template.ts";
import type { AccountField, AccountRecord, TemplateError } from "../../domain/accounts/payload-template.ts";
import { ACCOUNT_HISTORY_SHOWN } from "../../limits.ts";
import type { Account } from "../../store/protocol/account-pages.ts";
import { instant } from "../schema-parts.ts";

const FIELDS = ACCOUNT_TARGETS.filter((target) => target !== "external_id");

const externalId = z.string().meta({ example: "acme-42" });
const value = z.unknown().meta({ description: "Of the type that the payload template gives it; null: never sent." });
const attributes = z.record(z.string(), z.unknown()).meta({ description: "By name.", example: { region: "emea" } });
const values = {
  name: value,
  plan: value,
  user_count: value,
  recurring_revenue: value,
  trial_status: value,
  feature_flags: value,
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

export const accountAnswer = z
  .object({
    external_id: externalId,
    ...values,
    attributes,
    first_seen: instant,
    last_seen: instant,
    history: z.array(change).meta({ description: `Newest first, at most ${ACCOUNT_HISTORY_SHOWN}.` }),
  })
  .meta({ id: "Account" });

export const recordAnswer = z
  .object({ external_id: externalId, ...z.object(values).partial().shape, attributes })
  .meta({ id: "AccountRecord", description: "What an update would set; it leaves alone what is not in here." });

export const templateErrorAnswer = z
  .object({
    target: z.string().meta({ example: "user_count" }),
    path: z.string().meta({ example: "seats" }),
    code: z.enum(["missing", "wrong_type", "out_of_reach"]),
    detail: z.string().meta({ description: "One sentence, without the value." }),
    sent: z.string().optional().meta({ description: "The beginning of the value, in quotes.", example: '"12 seats"' }),
  } satisfies Record<keyof TemplateError, z.ZodType>)
  .meta({ id: "TemplateError" });

export function accountJson(account: Account): z.infer<typeof accountAnswer> {
  const { externalId: external_id, firstSeenMs, lastSeenMs, history, ...fields } = account;
  return {
    external_id,
    ...fields,
    first_seen: iso(firstSeenMs),
    last_seen: iso(lastSeenMs),
    history: history.map(({ atMs, signalId, ...changed }) => ({ ...changed, at: iso(atMs), signal_id: signalId })),
  };
}

export function recordJson(record: AccountRecord): z.infer<typeof recordAnswer> {
  return { external_id: record.externalId, ...record.fields, attributes: record.attributes };
}
