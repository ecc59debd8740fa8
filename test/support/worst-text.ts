/** The worst texts that somebody else can send, and the limits of the time that they may take. */
import { amount } from "./amount.ts";
import { cpuMs } from "./cpu-ms.ts";
import { slowness } from "./slowness.ts";

/** Shapes of a text: what it repeats. */
export const SHAPES = {
  brackets: "[]",
  "line ends": "\n",
  spaces: " ",
  "at signs": "@",
  dots: ".",
  commas: ",",
  stars: "*",
  digits: "1",
  quotes: '"',
  "one long name above many leaves": "n",
} as const;
export type Shape = keyof typeof SHAPES;
export const SHAPE_NAMES = Object.keys(SHAPES) as Shape[];
const LEAVES: Shape = "one long name above many leaves";

const texts = new Map<string, string>();

/**
 * A text of this shape only. `within`: between two letters, so that no expression finds the shape at an end at once, and nothing is
 * trimmed. The last shape is a dot path: one long name, and many short names.
 */
export function textOf(shape: Shape, characters: number, where: "alone" | "within" = "within"): string {
  const key = `${where} ${characters} ${shape}`;
  const known = texts.get(key);
  if (known !== undefined) return known;
  const [unit, room] = [SHAPES[shape], where === "alone" ? characters : characters - 2];
  const repeated =
    shape === LEAVES
      ? "n".repeat(Math.ceil(room / 2)) + ".k".repeat(Math.floor(room / 4))
      : unit.repeat(Math.floor(room / unit.length));
  const text = flat(where === "alone" ? repeated : `x${repeated}x`);
  texts.set(key, text);
  return text;
}

export function textsOf(shape: Shape, characters: number): string[] {
  return [textOf(shape, characters, "alone"), textOf(shape, characters, "within")];
}

/** A repeated text is a tree of its parts. What arrives over the network is not. */
function flat(text: string): string {
  return Buffer.from(text).toString();
}

/** As many of the unit as JSON writes with this number of bytes. */
function inJson(shape: Shape, bytes: number): string {
  const [unit, inQuotes] = [SHAPES[shape], JSON.stringify(SHAPES[shape])];
  return textOf(shape, Math.floor((bytes * unit.length) / (inQuotes.length - 2)));
}

const FIELDS = ["event", "email", "source", "type", "userId", "anonymousId", "timestamp"];

const CALL = { messageId: "m", anonymousId: "a" };
const KNOWN = { event: "Viewed", email: "jane@example.com", source: "website" };

/** Payloads that take this number of bytes as JSON, with the shape as each field. */
export function textPayloads(shape: Shape, bytes: number): Record<string, unknown>[] {
  const text = inJson(shape, bytes - 200);
  return [
    ...FIELDS.map((field) => ({ ...KNOWN, ...(field === "type" && CALL), [field]: text })),
    { type: "identify", ...CALL, traits: { email: text } },
    { type: "identify", ...CALL, traits: { name: text } },
  ];
}

/** Payloads that take this number of bytes as JSON, with the shape as a property, and as names above and of leaves. */
export function leafPayloads(shape: Shape, bytes: number): Record<string, unknown>[] {
  const [room, half] = [bytes - 200, (bytes - 200) / 2];
  const known = KNOWN;
  return [
    { ...known, properties: { step: inJson(shape, room) } },
    { ...known, properties: { [inJson(shape, half)]: leaves(half) }, [inJson(shape, half / 8)]: leaves(half / 8) },
    { ...known, properties: { ["n".repeat(200)]: leaves(room) } },
    { ...known, properties: leaves(room, SHAPES[shape].repeat(4)) },
    { ...known, [inJson(shape, half)]: leaves(half) },
    { type: "group", ...CALL, groupId: "g", traits: leaves(room, SHAPES[shape]) },
  ];
}

/** As many properties as take this number of bytes; all names end with a word of which a rule may be proposed. */
export function leaves(bytes: number, value: unknown = 1): Record<string, unknown> {
  const perLeaf = `"k1000 step":${JSON.stringify(value)},`.length;
  const count = Math.floor(bytes / perLeaf);
  return Object.fromEntries(Array.from({ length: count }, (_, nth) => [`k${nth} step`, value]));
}

/** CPU time that the largest input may take, in milliseconds, on a machine that does nothing else. */
export const MAX_MS = 50;
const RUNS = 5;
/** After such a run, another one would only take as long. */
const GIVEN_UP_MS = 1_000;
/** Up to this time the growth of a run is not measured. */
const SHORT_MS = amount(10, 2);
const GROWTH = 8;
/** For eight times the input. Linear time gives 8, and up to 40 where memory is slow; the square gives 64. */
const GROWTH_MAX = 45;
const GROWTH_RUNS = 9;
/** The clock of a thread may step by some milliseconds. */
const MEASURED_MIN_MS = 10;

export type Run = () => unknown;

/**
 * Runs the largest input, and an eighth of it if that takes longer than a moment.
 *
 * @param runsOf makes the same runs for any part of the largest input. The part is from 0 to 1.
 * @returns what takes too long, or grows faster than its input.
 */
export function complaintsAbout(title: string, runsOf: (part: number) => readonly Run[]): string[] {
  const complaints: string[] = [];
  const runs = runsOf(1);
  let small: readonly Run[] | undefined;
  for (const [index, run] of runs.entries()) {
    let ms = cpuMs(run);
    for (let nth = 1; nth < RUNS && ms > MAX_MS && ms < GIVEN_UP_MS; nth++) ms = Math.min(ms, cpuMs(run));
    if (ms > MAX_MS && ms > MAX_MS * slowness()) {
      complaints.push(`${title}: ${Math.round(ms)} ms`);
      continue;
    }
    if (ms <= SHORT_MS) continue;
    small ??= runsOf(1 / GROWTH);
    const smallRun = small[index];
    if (smallRun === undefined) continue;
    const growth = growthOf(run, smallRun);
    if (growth > GROWTH_MAX) complaints.push(`${title}: ${growth.toFixed(0)} times as long for 8 times the input`);
  }
  return complaints;
}

/** How many times longer the run takes than the small one: the smallest of nine, because the machine is busy. */
function growthOf(run: Run, small: Run): number {
  let growth = Number.POSITIVE_INFINITY;
  for (let nth = 0; nth < GROWTH_RUNS && growth > GROWTH_MAX; nth++) {
    growth = Math.min(growth, msOf(run) / Math.max(0.01, msOf(small)));
  }
  return growth;
}

/** Milliseconds of one run, of as many as the clock can measure. */
function msOf(run: Run): number {
  let [runs, ms] = [0, 0];
  for (let count = 1; ms < MEASURED_MIN_MS; count *= 2) {
    runs += count;
    ms += cpuMs(() => {
      for (let nth = 0; nth < count; nth++) run();
    });
  }
  return ms / runs;
}
