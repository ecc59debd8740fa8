/** Presets, previews and proposals of the templates of keys whose senders cannot change their bodies (spec §2.2). */
import type { Context } from "hono";
import * as z from "zod";
import { findKey } from "../d1/api-keys.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { boundedText } from "../http/fields.ts";
import type { Preset } from "../presets/preset.ts";
import { PRESETS } from "../presets/presets.ts";
import { type FormSample, signalMapping, signalTemplate, templateSample } from "../use-cases/signal-template-schema.ts";
import { parseFormBody } from "../domain/template/form-body.ts";
import { SAMPLES_MAX } from "../domain/template/propose-template.ts";
import { PREVIEWED_SIGNALS, type PreviewSample } from "../domain/template/preview-template.ts";
import { previewSignalTemplate, proposeTemplate, type PreviewResult } from "../use-cases/preview-template.ts";
import { answer, misfits } from "./key-routes.ts";
import { type FieldError, idOf, isoInstant, contextOf, mayRead, operationsOf, type OperatorEnv } from "./operation.ts";

const operation = operationsOf("API keys", "key");

/** Longer than any id. */
const KEY_ID_MAX_LENGTH = 64;

const fromSamples = {
  samples: z.array(templateSample).max(SAMPLES_MAX).default([]),
  key_id: boundedText(KEY_ID_MAX_LENGTH)
    .optional()
    .describe(
      `The latest signals and misfits of this key are samples too, as far as there are fewer than ${SAMPLES_MAX}. An API token needs the scope \`read\` for it.`,
    ),
};

const previewed = z
  .object({
    sample: z.int().describe("Index of its sample; samples of the key come last."),
    signal_id: idOf("sig", "Of a stored signal.").nullable(),
    kind: z
      .enum(["mapped", "misfit", "call", "rejected"])
      .describe("`misfit`: the template does not fit. `call`: of a CDP, which ignores it. `rejected`: never kept."),
    event: z.string().nullable(),
    source: z.string().nullable(),
    email: z.string().nullable(),
    user_id: z.string().nullable(),
    anonymous_id: z.string().nullable(),
    id: z.string().nullable().describe("Of a duplicate, together with source and event."),
    occurred_at: isoInstant.nullable().describe("Null: the time of the receipt."),
    traits: z.record(z.string(), z.string()),
    problems: z.array(z.string()).describe("Values that are not used, and why."),
    detail: z.string().nullable().describe("Why it is a misfit or rejected."),
    values: z.array(z.string().nullable()).describe("What each mapping gives. Null: no value, or it maps `items`."),
    rules: z
      .array(z.object({ rule_id: z.string(), scoring_signal: z.string(), points: z.int() }))
      .nullable()
      .describe("The mapping rules that would match. Null: that takes too long, or the token lacks the scope `read`."),
  })
  .meta({ id: "PreviewedSignal" });

const preview = z
  .object({
    signals: z.array(previewed).describe(`At most ${PREVIEWED_SIGNALS} of a sample.`),
    rejected: z.array(z.object({ sample: z.int(), code: z.string(), detail: z.string() })),
    warnings: z.array(z.object({ mapping: z.int().describe("Its index."), message: z.string() })),
  })
  .meta({ id: "TemplatePreview" });

const preset = z
  .object({
    id: z.string().meta({ example: "typeform" }),
    name: z.string().describe("The vendor's own name for what sends."),
    payload_template: z.array(signalMapping),
    misfits,
    answer,
    address: z
      .string()
      .describe("The path to give to the vendor, below `/api/signal-staging`. Its second part becomes the source."),
    set_up: z.array(z.string()).describe("What to do at the vendor, in order."),
    documentation: z.string().describe("The vendor's page about these bodies."),
    events: z.string().describe("The events that the vendor sends."),
    person: z.string().describe("Where the person stands in a body."),
    note: z.string().nullable(),
    sample: templateSample.describe("A short body as the vendor sends it, for the preview."),
  })
  .meta({ id: "TemplatePreset" });

export const templateRoutes = [
  operation("GET", "/workspaces/:workspace_id/templates/presets", {
    summary: "List the presets of payload templates",
    scope: "read",
    description:
      "Of senders whose webhooks have a fixed body. A key is made from one with its `payload_template`, `misfits` and `answer`. It keeps " +
      "a copy, so a newer preset changes no key.",
    answers: { 200: "All presets, in the order of the pages." },
    schema: z.object({ items: z.array(preset) }),
    handle: () => ({ items: PRESETS.map(presetForApi) }),
  }),
  operation("POST", "/workspaces/:workspace_id/templates/preview", {
    summary: "Try a payload template on samples",
    scope: "keys",
    description: "Of a `signal_staging` key. Stores and counts nothing. A sample is a body as the sender sends it.",
    body: z.strictObject({ payload_template: signalTemplate, ...fromSamples }).meta({ id: "TemplatePreviewRequest" }),
    bodyExample: {
      payload_template: [
        { target: "event", path: "trigger" },
        { target: "email", path: "contact.mail" },
      ],
      samples: [{ body: { trigger: "form.filled", contact: { mail: "jane@example.com" } } }],
    },
    answers: { 200: "What the template makes of the samples." },
    schema: preview,
    async handle(c, { body: { payloadTemplate, samples, keyId } }) {
      const read = await samplesOf(c, samples, keyId);
      if (read === null || !read.ok) return read;
      const found = await previewSignalTemplate(contextOf(c), payloadTemplate, read.value, Date.now());
      const { signals, rejected, warnings } = found;
      return {
        signals: signals.map((signal) => shown(signal, mayRead(c, "read"))),
        rejected: rejected.map(({ sample, rejection: { code, detail } }) => ({ sample, code, detail })),
        warnings,
      };
    },
  }),
  operation("POST", "/workspaces/:workspace_id/templates/propose", {
    summary: "Propose a payload template for samples",
    scope: "keys",
    description: "By the names and values in the samples. Several samples give a better one. Stores nothing.",
    body: z.strictObject(fromSamples).meta({ id: "TemplateProposalRequest" }),
    bodyExample: { samples: [{ body: { trigger: "form.filled", contact: { mail: "jane@example.com" } } }] },
    answers: { 200: "A template that compiles." },
    schema: z.object({ payload_template: z.array(signalMapping) }),
    async handle(c, { body: { samples, keyId } }) {
      const read = await samplesOf(c, samples, keyId);
      if (read === null || !read.ok) return read;
      const template = await proposeTemplate(contextOf(c), read.value, Date.now());
      return { payloadTemplate: template.map((mapping) => ({ ...mapping, required: mapping.required ?? false })) };
    },
  }),
];

function presetForApi({ template, note, ...others }: Preset) {
  return {
    ...others,
    payloadTemplate: template.map((mapping) => ({ ...mapping, required: mapping.required ?? false })),
    setUp: [...others.setUp],
    note: note ?? null,
  };
}

interface Samples {
  samples: PreviewSample[];
  keyId: string | undefined;
}

/** Null: unknown key. */
async function samplesOf(
  c: Context<OperatorEnv>,
  sent: readonly FormSample[],
  keyId: string | undefined,
): Promise<Result<Samples, FieldError[]> | null> {
  if (keyId === undefined && sent.length === 0) {
    return reject([{ path: "samples", message: "send samples, or a key_id with stored signals" }]);
  }
  if (keyId !== undefined) {
    if (!mayRead(c, "read")) return reject([{ path: "key_id", message: "the API token lacks the scope read" }]);
    if ((await findKey(c.var.db, c.var.workspace.id, keyId)) === null) return null;
  }
  const samples: PreviewSample[] = [];
  for (const [index, { body, form, headers, source }] of sent.entries()) {
    const parsed = form === undefined ? ok(body) : parseFormBody(form);
    if (!parsed.ok) return reject([{ path: `samples.${index}.form`, message: parsed.rejection.detail }]);
    const named = Object.fromEntries(Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]));
    samples.push({ body: parsed.value, headers: named, source });
  }
  return ok({ samples, keyId });
}

function shown({ sample, signalId, outcome, values, rules }: PreviewResult["signals"][number], showRules: boolean) {
  const place = { sample, signalId, kind: outcome.kind, values, rules: showRules ? rules : null };
  const nothing = { event: null, source: null, email: null, userId: null, anonymousId: null, id: null };
  const empty = { ...place, ...nothing, occurredAt: null, traits: {}, problems: [], detail: null };
  if (outcome.kind === "misfit") return { ...empty, detail: outcome.misfit.detail };
  if (outcome.kind === "rejected") return { ...empty, detail: outcome.rejection.detail };
  if (outcome.kind === "call") return empty;
  const { normalised, occurred, id = null, problems = {} } = outcome.signal;
  const { event, source, email = null, userId = null, anonymousId = null, traits } = normalised;
  return {
    ...place,
    event,
    source,
    email,
    userId,
    anonymousId,
    id,
    occurredAt: occurred.from === "received" ? null : new Date(occurred.ms).toISOString(),
    traits: Object.fromEntries(Object.entries(traits).filter(([, value]) => value !== undefined)),
    problems: Object.values(problems),
    detail: null,
  };
}
