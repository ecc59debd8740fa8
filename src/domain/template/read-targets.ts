/** Reads the value of each target of a template from one signal: the first that the target can use. */
import { isAbsent, isExact, isJsonObject, kindInWords, presentText, WrittenNumber } from "../json/json-value.ts";
import { PathReading } from "../json/dot-path.ts";
import { InnerJson } from "../json/inner-json.ts";
import { emailProblem, idProblem, normaliseEmail, usableId } from "../signal/identity.ts";
import { occurredAt, timeProblemOf, type Occurred } from "../signal/occurred-at.ts";
import type {
  CompiledPath,
  CompiledSignalTemplate,
  CompiledSource,
  CompiledTarget,
  ValueTarget,
} from "./signal-template.ts";
import type { Surroundings } from "./surroundings.ts";

/** Step budget of a signal, about 4 ms, as of an account update. */
export const SIGNAL_MAX_STEPS = 100_000;
/** Elements and members that a path reads, the first ones: no order has more lines. */
const PATH_MAX_ELEMENTS = 1_000;
/** Characters of a text that take about as long as a step. */
const CHARACTERS_A_STEP = 16;
/** Characters of an address with a name around it, and of a time. Longer texts are neither. */
const SHORT_TEXT_CHARACTERS = 1_000;
/** Characters of a composed text. A longer one would be too long for each target. */
const COMPOSED_MAX_CHARACTERS = 4_000;

/** The value of a target. `problem`: a sentence that says why no value is usable; null: there is a usable value, or none was sent. */
export interface TargetReading<T> {
  value: T | undefined;
  problem: string | null;
}

const NOTHING: TargetReading<never> = { value: undefined, problem: null };

interface Use<T> {
  /** Undefined: of no use to the target. */
  read: (value: unknown) => T | undefined;
  problem: (value: unknown, path: string) => string | null;
  /** The text of a placeholder; undefined: it has none. */
  part: (value: unknown) => string | undefined;
}

/** A text or a number, as text; undefined: another value, a blank text, or a number that has lost digits. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === "number") return isExact(value) ? String(value) : undefined;
  return value instanceof WrittenNumber ? value.sent : presentText(value);
}

/** The address in a text, also in `Jane <jane@example.com>`. */
export function addressOf(value: unknown): string | undefined {
  if (typeof value !== "string" || value.length > SHORT_TEXT_CHARACTERS) return undefined;
  const email = normaliseEmail(value);
  if (email !== undefined) return email;
  const text = value.trim();
  return text.endsWith(">") ? normaliseEmail(text.slice(text.lastIndexOf("<") + 1, -1)) : undefined;
}

export const TEXT: Use<string> = {
  read: textOf,
  problem: (value, path) => {
    const kind = typeof value === "number" ? "a number with more digits than JSON numbers keep" : kindInWords(value);
    return `Its \`${path}\` is ${kind}, so it is not used.`;
  },
  part: textOf,
};
export const EMAIL: Use<string> = {
  read: addressOf,
  problem: (value, path) => emailProblem(value, `\`${path}\``),
  part: textOf,
};
/** A composed id names somebody only if each of its parts does: `crm:null` would be many people. */
export const ID: Use<string> = { read: usableId, problem: (value, path) => idProblem(path, value), part: usableId };
/** The id of the signal. A composed one must differ in each part, or different signals would be duplicates. */
export const SIGNAL_ID: Use<string> = {
  read: usableId,
  problem: (_, path) => `Its \`${path}\` does not distinguish this signal, so its content does.`,
  part: usableId,
};

/** @param receivedAtMs milliseconds since 1970. */
export function timeUse(receivedAtMs: number): Use<Occurred> {
  const isShort = (value: unknown): boolean => typeof value !== "string" || value.length <= SHORT_TEXT_CHARACTERS;
  return {
    read: (value) => {
      if (typeof value === "boolean" || isJsonObject(value) || !isShort(value)) return undefined;
      const occurred = occurredAt({ occurred_at: value }, receivedAtMs);
      return occurred.from === "received" ? undefined : occurred;
    },
    problem: (value, path) =>
      timeProblemOf({ occurred_at: isShort(value) ? value : "" }, receivedAtMs)?.replace("occurred_at", () => path) ??
      `Its \`${path}\` is too long for a time.`,
    part: textOf,
  };
}

/** Reads one signal. Counts steps, so that no template and no signal can make this slow. */
export class TargetsReader {
  readonly #targets: CompiledSignalTemplate["targets"];
  readonly #payload: unknown;
  readonly #around: Surroundings;
  readonly #pathSource: string | undefined;
  readonly #maxSteps: number;
  #innerJson: InnerJson | undefined;
  #steps = 0;

  constructor(
    targets: CompiledSignalTemplate["targets"],
    signal: { payload: unknown; around: Surroundings; source: string | undefined },
    maxSteps: number,
  ) {
    this.#targets = targets;
    this.#payload = signal.payload;
    this.#around = signal.around;
    this.#pathSource = signal.source;
    this.#maxSteps = Math.min(SIGNAL_MAX_STEPS, maxSteps);
  }

  get steps(): number {
    return this.#steps;
  }

  has(target: ValueTarget): boolean {
    return this.#targets[target] !== undefined;
  }

  /** @param otherwise sources of a target that the template does not map. */
  read<T>(target: ValueTarget, use: Use<T>, otherwise?: CompiledTarget): TargetReading<T> {
    const sources = (this.#targets[target] ?? otherwise)?.sources;
    if (sources === undefined) return NOTHING;
    let problem: string | null = null;
    for (const source of sources) {
      for (const value of this.#candidates(source, use.part)) {
        if (this.#isExceeded) break;
        const used = use.read(value);
        if (used !== undefined) return { value: used, problem: null };
        if (problem === null && !isAbsent(value)) problem = use.problem(value, textOfSource(source));
      }
      if (this.#isExceeded) {
        return {
          value: undefined,
          problem: `Its \`${textOfSource(source)}\` is behind more than a template may read.`,
        };
      }
    }
    return { value: undefined, problem };
  }

  get #isExceeded(): boolean {
    return this.#steps > this.#maxSteps;
  }

  #candidates(source: CompiledSource, part: (value: unknown) => string | undefined): readonly unknown[] {
    if ("path" in source) return this.#valuesAt(source.path);
    let composed = "";
    for (const piece of source.parts) {
      const text = typeof piece === "string" ? piece : this.#firstText(piece, part);
      if (text === undefined || composed.length + text.length > COMPOSED_MAX_CHARACTERS) return [];
      composed += text;
    }
    return [composed];
  }

  #firstText(path: CompiledPath, part: (value: unknown) => string | undefined): string | undefined {
    for (const value of this.#valuesAt(path)) {
      const text = part(value);
      if (text !== undefined) return text;
    }
    return undefined;
  }

  #valuesAt(path: CompiledPath): readonly unknown[] {
    this.#steps += 1;
    if (this.#isExceeded) return [];
    if (path.from === "key") return [this.#around.key];
    if (path.from === "source") return [this.#pathSource];
    if (path.from === "header") return [this.#around.headers?.[path.name]];
    const reading = new PathReading(path.path, {
      maxElements: PATH_MAX_ELEMENTS,
      maxSteps: this.#maxSteps - this.#steps,
      innerJson: (this.#innerJson ??= new InnerJson()),
    });
    reading.read(path.from === "body" ? (this.#around.body ?? this.#payload) : this.#payload);
    this.#steps += reading.steps;
    for (const value of reading.found) this.#steps += stepsToTry(value);
    return reading.found;
  }
}

/** To see whether a target can use a value takes longer than to find it. */
function stepsToTry(value: unknown): number {
  return 2 + (typeof value === "string" ? Math.floor(value.length / CHARACTERS_A_STEP) : 0);
}

function textOfSource(source: CompiledSource): string {
  return "path" in source ? source.path.text : source.text;
}
