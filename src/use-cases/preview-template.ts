/**
 * Previews and proposals of signal templates, from samples, from a stored signal, or from the latest signals of a key. Stores and counts
 * nothing.
 */
import { rulesOf } from "../d1/stored-rules.ts";
import { evaluate } from "../domain/rules/evaluate-rules.ts";
import { isJsonObject, readPayload } from "../domain/json/json-value.ts";
import {
  previewTemplate,
  type PreviewedSignal,
  type PreviewSample,
  type TemplatePreview,
} from "../domain/template/preview-template.ts";
import { proposeSignalTemplate, SAMPLES_MAX } from "../domain/template/propose-template.ts";
import type { SignalMapping } from "../domain/template/signal-template.ts";
import type { Surroundings } from "../domain/template/surroundings.ts";
import { CALL_TIMEOUT_MS, RULES_MAX_STEPS } from "../limits.ts";
import { within } from "../platform/time-limit.ts";
import type { SampleSignal } from "../store/protocol/stored-signals.ts";
import { signalStore, type WorkspaceContext } from "./objects.ts";

type Place = Pick<WorkspaceContext, "env" | "workspaceId">;

export interface MatchingRule {
  ruleId: string;
  scoringSignal: string;
  points: number;
}

export interface PreviewResult extends Omit<TemplatePreview, "signals"> {
  /** `rules`: those that would match now; null: that takes too long. `isExcluded`: they would score nothing. */
  signals: (PreviewedSignal & { signalId: string | null; rules: MatchingRule[] | null; isExcluded: boolean })[];
}

interface NamedSample extends PreviewSample {
  signalId: string | null;
}

/** Given samples come first, then the stored signal, then the latest signals of the key. */
export interface Samples {
  samples: readonly PreviewSample[];
  /** A stored signal, such as a misfit. */
  signalId?: string | undefined;
  keyId: string | undefined;
}

export async function previewSignalTemplate(
  place: Place,
  template: readonly SignalMapping[],
  wanted: Samples,
  nowMs: number,
): Promise<PreviewResult> {
  const [named, { rules }] = await Promise.all([
    allSamples(place, wanted),
    within(CALL_TIMEOUT_MS, rulesOf(place.env.DB, place.workspaceId)),
  ]);
  const { signals, ...preview } = previewTemplate(template, named, nowMs);
  const count = { steps: 0 };
  const matching = ({ payload, outcome }: PreviewedSignal) => {
    if (outcome.kind !== "mapped" || !isJsonObject(payload)) return { rules: [], isExcluded: false };
    if (count.steps > RULES_MAX_STEPS) return { rules: null, isExcluded: false };
    const { event, source, email, properties } = outcome.signal.normalised;
    const evaluation = evaluate(
      rules,
      { event, source, properties, payload, ...(email && { email }) },
      undefined,
      count,
    );
    const matches =
      evaluation && evaluation.matches.map(({ ruleId, scoringSignal, points }) => ({ ruleId, scoringSignal, points }));
    return { rules: matches, isExcluded: evaluation?.excludedBy !== undefined };
  };
  return {
    ...preview,
    signals: signals.map((signal) => {
      return { ...signal, signalId: named[signal.sample]?.signalId ?? null, ...matching(signal) };
    }),
  };
}

export async function proposeTemplate(place: Place, wanted: Samples, nowMs: number): Promise<SignalMapping[]> {
  return proposeSignalTemplate(await allSamples(place, wanted), nowMs);
}

/**
 * Adds proposed mappings for targets that have no value in some sample, unless the template reads their paths already. They come last, so
 * that a sample which is mapped already keeps its values.
 */
export async function completeTemplate(
  place: Place,
  template: readonly SignalMapping[],
  wanted: Samples,
  nowMs: number,
): Promise<SignalMapping[]> {
  const samples = await allSamples(place, wanted);
  const proposed = proposeSignalTemplate(samples, nowMs);
  if (template.length === 0) return proposed;
  const { signals } = previewTemplate(template, samples, nowMs);
  const isMapped = (target: string): boolean =>
    signals.every(({ values }) => values.some((value, at) => value !== null && template[at]?.target === target));
  const isNew = (mapping: SignalMapping): boolean => !template.some((known) => repeats(mapping, known));
  return [
    ...template,
    ...proposed.filter((mapping) => mapping.target !== "items" && !isMapped(mapping.target) && isNew(mapping)),
  ];
}

/** Whether a mapping reads its target only from where another one reads it already. */
function repeats({ target, text, path = "", paths = [path] }: SignalMapping, known: SignalMapping): boolean {
  if (target !== known.target || text !== known.text) return false;
  const knownPaths = known.paths ?? [known.path ?? ""];
  return paths.every((one) => knownPaths.includes(one));
}

async function allSamples({ env, workspaceId }: Place, { samples, signalId, keyId }: Samples): Promise<NamedSample[]> {
  const given = samples.map((sample) => ({ ...sample, signalId: null }));
  const store = signalStore(env, workspaceId);
  const left = SAMPLES_MAX - given.length;
  const [one, latest] = await within(
    CALL_TIMEOUT_MS,
    Promise.all([
      signalId === undefined ? null : store.sample(signalId),
      keyId === undefined || left <= 0 ? [] : store.samples(keyId, left),
    ]),
  );
  const stored = [...(one === null ? [] : [one]), ...latest.filter(({ id }) => id !== one?.id)];
  return [...given, ...stored.slice(0, left).flatMap(storedSample)];
}

function storedSample({ id, payload, source, around }: SampleSignal): NamedSample[] {
  const surroundings = around === null ? undefined : (JSON.parse(around) as Surroundings);
  try {
    const sample = { signalId: id, body: readPayload(payload), source: source ?? undefined, around: surroundings };
    return [surroundings?.headers === undefined ? sample : { ...sample, headers: surroundings.headers }];
  } catch {
    // Only a dead letter can have another payload than JSON.
    return [];
  }
}
