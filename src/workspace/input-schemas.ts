/** Schemas of the fields that people and programs enter: names, emails, times, keys, destinations, rules. */
import * as z from "zod";
import { ACCOUNT_TARGETS, isAccountTarget, PAYLOAD_TYPES } from "../domain/accounts/payload-template.ts";
import { DESTINATION_TYPES } from "../domain/events/destination.ts";
import { eventTypes } from "../domain/events/workspace-event.ts";
import { parseDotPath } from "../domain/json/dot-path.ts";
import { holdsCredential } from "../domain/keys/echo.ts";
import { isEventPattern, isRulePath, RULE_FREQUENCIES } from "../domain/rules/mapping-rule.ts";
import {
  MAPPING_OPERATORS,
  OPERATORS_OF_NUMBERS,
  OPERATORS_WITH_LIST,
  OPERATORS_WITHOUT_VALUE,
} from "../domain/rules/mapping-condition.ts";
import { toComparable } from "../domain/rules/mapping-condition.ts";
import { ruleSize } from "../domain/rules/rule-content.ts";
import { memberEmail } from "../domain/signal/identity.ts";
import { ENDPOINT_TYPES } from "../domain/signal/signal.ts";
import { isPlausibleEmail } from "../domain/signal/identity.ts";
import { fitsName } from "../domain/signal/validate-signal.ts";
import {
  DESTINATION_URL_MAX_LENGTH,
  KEY_SILENT_MAX_DAYS,
  NAME_MAX_CODE_POINTS,
  RULE_MAX_CONDITIONS,
  RULE_MAX_SIZE,
  RULE_PATH_MAX_ELEMENTS,
  TEMPLATE_MAX_BYTES,
  TEMPLATE_MAX_MAPPINGS,
  THRESHOLDS_MAX,
  WORKSPACE_MAX_RULES,
  WORKSPACE_RULES_MAX_SIZE,
} from "../limits.ts";

/** For `refine`. Members who must not see keys can see names and rules (spec §1). */
export const noCredential: [check: (text: string) => boolean, message: string] = [
  (text) => !holdsCredential(text),
  "it holds an API key or a secret, and is shown to all members",
];

export const name = z
  .string()
  .trim()
  .min(1)
  .refine(fitsName, `at most ${NAME_MAX_CODE_POINTS} characters`)
  .refine(...noCredential)
  .refine(canBeSeen, "a name that can be seen, on one line")
  .meta({ maxLength: NAME_MAX_CODE_POINTS });

/** Pages link names, so a name needs a visible character. An empty name has its own error. */
function canBeSeen(text: string): boolean {
  return text === "" || (/[^\p{Cc}\p{Cf}\p{M}\p{Z}]/u.test(text) && !/\p{Cc}/u.test(text));
}

export const email = z
  .string()
  .trim()
  .toLowerCase()
  .refine(isPlausibleEmail, "not an email address")
  .meta({ format: "email", example: "jane@example.com" });

/** Email of a person who signs in (see `memberEmail`). */
export const memberAddress = z
  .string()
  .refine((text) => memberEmail(text) !== undefined, "not an email address, or one that is easily taken for another")
  .transform((text) => memberEmail(text) ?? text)
  .meta({ format: "email", example: "jane@example.com" });

/**
 * A time with any offset, converted to UTC with milliseconds. Times are compared as text, so the year has four digits
 * in UTC as well.
 */
export const time = z.iso
  .datetime({ offset: true, error: "not an ISO 8601 date and time with an offset, such as 2026-11-01T00:00:00Z" })
  .transform((text) => new Date(text).toISOString())
  .refine((at) => /^\d{4}-/.test(at), "its year has more than four digits in UTC")
  .meta({ example: "2026-11-01T00:00:00.000Z" });

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
  // Accounts are found by their external id, so the template must always contain it.
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

/** Notification types without repetitions, in the order of `eventTypes`. */
export const wantedTypes = z
  .array(z.enum(eventTypes))
  .min(1, "at least one")
  .transform((types) => eventTypes.filter((type) => types.includes(type)))
  .meta({ description: "The types of events that it is sent.", example: ["person.score_crossed"] });

const target = z.string().trim().min(1).max(DESTINATION_URL_MAX_LENGTH).meta({
  description:
    "Of a webhook, and of a Slack-compatible one: a URL with `https` and a public name, without credentials. Of an email: an address.",
  example: "https://crm.example.com/hooks/signals",
});

export const newDestination = z
  .strictObject({
    name,
    type: z.enum(DESTINATION_TYPES).meta({
      description: "`email` only where the deployment sends email.",
    }),
    target,
    events: wantedTypes,
  })
  .meta({ id: "NewDestination" });

export const destinationChange = z
  .strictObject({ name: name.optional(), target: target.optional(), events: wantedTypes.optional() })
  .meta({ id: "DestinationChange" });

/** Thresholds without repetitions, sorted ascending. */
export const thresholds = z
  .array(z.int().min(-1_000_000).max(1_000_000))
  .max(THRESHOLDS_MAX)
  .refine((scores) => new Set(scores).size === scores.length, "the same score twice")
  .transform((scores) => scores.toSorted((a, b) => a - b))
  .meta({ description: `Scores whose crossing is told, at most ${THRESHOLDS_MAX}.`, example: [50, 100] });

export const silentAfterDays = z
  .int()
  .min(1)
  .max(KEY_SILENT_MAX_DAYS)
  .nullable()
  .meta({ description: "After so many days without a call `key.silent` is raised; null: never.", example: 3 });

const scalar = z.union([
  z
    .string()
    .refine(fitsName, `at most ${NAME_MAX_CODE_POINTS} characters`)
    .refine(...noCredential),
  z.number(),
  z.boolean(),
]);

const condition = z
  .strictObject({
    path: z
      .string()
      .refine(isRulePath, "one of event, source, email, or properties. and a dot path")
      .refine(...noCredential)
      .meta({
        description:
          "`event`, `source`, `email`, or `properties.` and a dot path. `items[0].sku` is of an element, `items[].sku` of " +
          `any, of which the first ${RULE_PATH_MAX_ELEMENTS} are looked at.`,
        example: "properties.form_name",
      }),
    operator: z.enum(MAPPING_OPERATORS),
    value: z
      .union([scalar, z.array(scalar).min(1).max(200)])
      .exactOptional()
      .meta({
        description:
          "A list for `in`, a number for `greater_…` and `less_…`, nothing for `exists`, `not_exists`, `is_true`, `is_false`.",
      }),
  })
  .superRefine(({ operator, value }, ctx) => {
    const message = valueError(operator, value);
    if (message !== null) ctx.addIssue({ code: "custom", path: ["value"], message });
  })
  .meta({ id: "MappingCondition" });

/** Fields of a rule, without defaults: a change keeps the fields that it does not name. */
export const ruleFields = {
  name,
  event: z
    .string()
    .trim()
    .refine(isEventPattern, `an event name or pattern of 1 to ${NAME_MAX_CODE_POINTS} characters`)
    .refine(...noCredential)
    .meta({ description: "An event name; `*` stands for anything.", example: "Filled Out *" }),
  match: z.enum(["all", "any"]),
  conditions: z
    .array(condition)
    .max(RULE_MAX_CONDITIONS)
    .refine((conditions) => ruleSize({ event: "", conditions }) <= RULE_MAX_SIZE, {
      message: `at most ${RULE_MAX_SIZE} paths and values, of which a long one counts as several`,
    }),
  scoring_signal: name,
  points: z.int().min(-1_000_000).max(1_000_000),
  frequency: z.enum(RULE_FREQUENCIES).meta({
    description:
      "How often the rule may score one person: each time that it matches, once a UTC day of receipt, or once ever. The " +
      "first signal recorded counts.",
  }),
  enabled: z.boolean(),
};

export const newRule = z.strictObject({
  ...ruleFields,
  match: ruleFields.match.default("all"),
  conditions: ruleFields.conditions.default([]),
  frequency: ruleFields.frequency.default("every_time"),
  enabled: ruleFields.enabled.default(true),
});

export const ruleChange = z.strictObject(ruleFields).partial();

type Condition = { operator: (typeof MAPPING_OPERATORS)[number]; value?: unknown };

/** Limit that prevents another rule in the workspace. */
export const NO_ROOM = {
  too_many_rules: `A workspace has at most ${WORKSPACE_MAX_RULES} mapping rules: delete one first.`,
  rules_too_large: `All mapping rules of a workspace together have at most ${WORKSPACE_RULES_MAX_SIZE} paths and values, of which a long one counts as several: shorten some lists first.`,
} as const;

function valueError(operator: Condition["operator"], value: Condition["value"]): string | null {
  if (OPERATORS_WITHOUT_VALUE.includes(operator)) return value === undefined ? null : `${operator} takes no value`;
  if (value === undefined) return "a value is needed";
  if (OPERATORS_WITH_LIST.includes(operator)) return Array.isArray(value) ? null : `${operator} needs a list of values`;
  if (Array.isArray(value)) return `${operator} takes one value; use in for a list`;
  const isNumber = !Number.isNaN(toComparable(value).number);
  return OPERATORS_OF_NUMBERS.includes(operator) && !isNumber ? "a number is needed, such as 100" : null;
}
