/** Shows what a template makes of samples before it is saved: of each signal the fields, and the value of each mapping. */
import { canonicalJson } from "../signal/canonical-form.ts";
import type { Result } from "../result.ts";
import type { BodyRejection } from "../keys/rejection.ts";
import { applyTemplate, mapSignal, type AppliedItem, type Outcome, type TemplateContext } from "./apply.ts";
import type { TemplateSample } from "./propose-template.ts";
import { EMAIL, ID, SIGNAL_ID, TargetsReader, TEXT, timeUse } from "./read-targets.ts";
import {
  compileStoredTemplate,
  type CompiledSignalTemplate,
  type SignalMapping,
  type ValueTarget,
} from "./signal-template.ts";
import type { Surroundings } from "./surroundings.ts";

/** A sample is a body, or a stored signal with what stood around it. */
export interface PreviewSample extends TemplateSample {
  around?: Surroundings | undefined;
}

export interface PreviewedSignal {
  /** Index of its sample. */
  sample: number;
  payload: unknown;
  outcome: Outcome;
  /** The value of each mapping; null: it has none, or maps `items`. */
  values: (string | null)[];
}

export interface PreviewWarning {
  /** Index of the mapping. */
  mapping: number;
  message: string;
}

export interface TemplatePreview {
  signals: PreviewedSignal[];
  /** Why a sample is no body of signals, by its index. */
  rejected: { sample: number; rejection: BodyRejection }[];
  warnings: PreviewWarning[];
}

/** Signals of a sample that are shown, the first ones. */
export const PREVIEWED_SIGNALS = 5;
/** Steps of the mappings of all samples, about 0.1 s. Beyond, no values are read. */
const PREVIEW_MAX_STEPS = 2_000_000;

export const NO_VALUE = "finds a value in no sample";
const SAME_ID =
  "two samples have the same event and id, but not the same content: the second would be a duplicate of the first";

/** @param template compiles. */
export function previewTemplate(
  template: readonly SignalMapping[],
  samples: readonly PreviewSample[],
  receivedAtMs: number,
): TemplatePreview {
  const compiled = compileStoredTemplate(template);
  const mappings = template.map((mapping) => (mapping.target === "items" ? null : singleTarget(mapping)));
  const budget = { stepsLeft: PREVIEW_MAX_STEPS };
  const preview: TemplatePreview = { signals: [], rejected: [], warnings: [] };
  let areItemsFound = false;
  for (const [index, sample] of samples.entries()) {
    const { source } = sample;
    const context = { source, headers: sample.headers, receivedAtMs, budget };
    const applied = appliedTo(compiled, sample, context);
    if (!applied.ok) {
      preview.rejected.push({ sample: index, rejection: applied.rejection });
      continue;
    }
    for (const { payload, around, outcome } of applied.value) {
      areItemsFound ||= around?.body !== undefined;
      const signal = { payload, around: around ?? {}, source };
      const values = mappings.map((mapping) => mapping && valueOf(mapping, signal, receivedAtMs, budget));
      preview.signals.push({ sample: index, payload, outcome, values });
    }
  }
  preview.warnings = [
    ...uselessMappings(template, preview.signals, areItemsFound),
    ...sameIds(template, preview.signals),
  ];
  return preview;
}

function appliedTo(
  compiled: CompiledSignalTemplate,
  { body, around }: PreviewSample,
  context: TemplateContext,
): Result<AppliedItem[], BodyRejection> {
  if (around?.body !== undefined) {
    return { ok: true, value: [{ payload: body, around, outcome: mapSignal(compiled, body, around, context) }] };
  }
  const headers = around?.headers ?? context.headers;
  const applied = applyTemplate(compiled, body, { ...context, headers });
  return applied.ok ? { ok: true, value: applied.value.items.slice(0, PREVIEWED_SIGNALS) } : applied;
}

interface SingleTarget {
  target: ValueTarget;
  targets: CompiledSignalTemplate["targets"];
}

function singleTarget(mapping: SignalMapping): SingleTarget {
  return { target: mapping.target as ValueTarget, targets: compileStoredTemplate([mapping]).targets };
}

function valueOf(
  { target, targets }: SingleTarget,
  signal: { payload: unknown; around: Surroundings; source: string | undefined },
  receivedAtMs: number,
  budget: { stepsLeft: number },
): string | null {
  if (budget.stepsLeft <= 0) return null;
  const reader = new TargetsReader(targets, signal, budget.stepsLeft);
  const value = readTarget(reader, target, receivedAtMs);
  budget.stepsLeft -= reader.steps;
  return value ?? null;
}

function readTarget(reader: TargetsReader, target: ValueTarget, receivedAtMs: number): string | undefined {
  switch (target) {
    case "email":
      return reader.read(target, EMAIL).value;
    case "user_id":
    case "anonymous_id":
    case "account":
      return reader.read(target, ID).value;
    case "id":
      return reader.read(target, SIGNAL_ID).value;
    case "occurred_at": {
      const occurred = reader.read(target, timeUse(receivedAtMs)).value;
      return occurred && new Date(occurred.ms).toISOString();
    }
    default:
      return reader.read(target, TEXT).value;
  }
}

/** A sample of one event need not have the fields of others, so this is no error. */
function uselessMappings(
  template: readonly SignalMapping[],
  signals: readonly PreviewedSignal[],
  areItemsFound: boolean,
): PreviewWarning[] {
  const read = signals.filter(({ outcome }) => outcome.kind !== "call");
  if (read.length === 0) return [];
  return template.flatMap(({ target }, mapping) => {
    const isUsed = target === "items" ? areItemsFound : read.some(({ values }) => values[mapping] !== null);
    return isUsed ? [] : [{ mapping, message: NO_VALUE }];
  });
}

function sameIds(template: readonly SignalMapping[], signals: readonly PreviewedSignal[]): PreviewWarning[] {
  const mapping = template.findIndex(({ target }) => target === "id");
  const contents = new Map<string, string>();
  for (const { outcome, payload } of signals) {
    if (outcome.kind !== "mapped" || outcome.signal.id === undefined) continue;
    const { id, normalised } = outcome.signal;
    const name = JSON.stringify([normalised.source, normalised.event, id]);
    const content = canonicalJson(payload);
    if ((contents.get(name) ?? content) !== content) return [{ mapping, message: SAME_ID }];
    contents.set(name, content);
  }
  return [];
}
