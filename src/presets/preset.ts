/**
 * The form of a preset: what a user would otherwise map by hand for a vendor whose webhooks have a fixed body. Presets are data, one file
 * each. A key made from one keeps a copy of its template, so a newer preset changes no key.
 */
import type { MisfitHandling, SuccessStatus } from "../domain/template/key-template.ts";
import type { SignalMapping } from "../domain/template/signal-template.ts";
import type { MappingCondition } from "../domain/rules/comparators.ts";

/** A rule that gives points, as a first example. Its other fields are those of a new rule. */
interface PresetRule {
  name: string;
  /** The event's name; `*` stands for any text. */
  event: string;
  conditions?: readonly MappingCondition[];
  scoringSignal: string;
  points: number;
}

/** A short body as the vendor sends it, for the preview. `form`: a form-encoded one. */
type PresetSample = { headers?: Readonly<Record<string, string>> } & ({ body: unknown } | { form: string });

export interface Preset {
  /** Unique, in lower case with hyphens. */
  id: string;
  /** The vendor's own name for what sends. */
  name: string;
  template: SignalMapping[];
  /** `keep`, because most vendors never send again after a 4xx. */
  misfits: MisfitHandling;
  /** 200 where the vendor sends again, or gives up, after any other answer. */
  answer: SuccessStatus;
  /** The path to give to the vendor. Its second part becomes the source of the signals. */
  address: `/webhook/${string}/{key}`;
  setUp: readonly [string, string, string];
  /** The vendor's page about these bodies. */
  documentation: string;
  /** `page`: the fields were read on that page. `examples`: it could not be read, so they come from bodies that were published. */
  fieldsFrom: "page" | "examples";
  /** The events that the vendor sends, for the table of docs/senders.md. */
  events: string;
  /** The place of the person in the body, for the table. */
  person: string;
  note?: string;
  rule: PresetRule;
  sample: PresetSample;
}
