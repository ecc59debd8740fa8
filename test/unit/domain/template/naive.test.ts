/** Paths and templates do what a second evaluator says, which was written from their definition, without limits and without speed. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { InnerJson } from "../../../../src/domain/json/inner-json.ts";
import { parseDotPath, PathReading } from "../../../../src/domain/json/dot-path.ts";
import { mapSignal } from "../../../../src/domain/template/apply.ts";
import { compileStoredTemplate, type SignalMapping } from "../../../../src/domain/template/signal-template.ts";
import { amount } from "../../../support/amount.ts";

type Bracket = "any" | number | { inner: Segment[]; value: string; isBeginning: boolean };
/** `name` is null in a condition on the value itself. */
interface Segment {
  name: string | null;
  kind: "bare" | "quoted" | "star";
  brackets: Bracket[];
}

// Text of a path.

function textOfBracket(bracket: Bracket): string {
  if (bracket === "any") return "[]";
  if (typeof bracket === "number") return `[${bracket}]`;
  return `[${textOfPath(bracket.inner)}=${bracket.value}${bracket.isBeginning ? "*" : ""}]`;
}
function textOfName({ name, kind }: Segment): string {
  return kind === "quoted" ? `"${name}"` : kind === "star" ? "*" : (name ?? "");
}
function textOfPath(path: Segment[]): string {
  return path.map((segment) => textOfName(segment) + segment.brackets.map(textOfBracket).join("")).join(".");
}

// The naive evaluator.

type Json = Record<string, unknown>;

/** Text that writes an object or array is one. */
function inside(value: unknown): unknown {
  if (typeof value !== "string" || !/^[{[]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function valuesAt(sent: unknown, path: Segment[]): unknown[] {
  const [segment, ...rest] = path;
  if (segment === undefined) return sent === undefined ? [] : [sent];
  const value = inside(sent);
  if (!isObject(value)) return [];
  const exact = textOfPath(path);
  if (Object.hasOwn(value, exact)) return valuesAt(value[exact], []);
  const lastSelector = segment.brackets.findLastIndex((bracket) => typeof bracket === "object");
  if (lastSelector >= 0 || segment.kind !== "bare") {
    const written =
      textOfName(segment) +
      segment.brackets
        .slice(0, lastSelector + 1)
        .map(textOfBracket)
        .join("");
    if (Object.hasOwn(value, written)) return within(value[written], segment.brackets.slice(lastSelector + 1), rest);
  }
  if (segment.name === null) return within(value, segment.brackets, rest);
  if (segment.kind === "star") {
    return Object.values(value).flatMap((member) => within(member, segment.brackets, rest));
  }
  return Object.hasOwn(value, segment.name) ? within(value[segment.name], segment.brackets, rest) : [];
}

function within(sent: unknown, brackets: Bracket[], rest: Segment[]): unknown[] {
  const [bracket, ...others] = brackets;
  if (bracket === undefined) return valuesAt(sent, rest);
  const value = inside(sent);
  const next = (element: unknown): unknown[] => within(element, others, rest);
  if (typeof bracket === "number") return Array.isArray(value) ? next(value[bracket]) : [];
  if (bracket === "any") return Array.isArray(value) ? value.flatMap(next) : [];
  if (Array.isArray(value)) return value.filter((element) => holds(element, bracket)).flatMap(next);
  return isObject(value) && holds(value, bracket) ? next(value) : [];
}

function holds(value: unknown, { inner, value: wanted, isBeginning }: Exclude<Bracket, string | number>): boolean {
  return valuesAt(value, inner).some((found) => {
    if (found === null || typeof found === "object") return false;
    const text = String(found as string | number | boolean).toLowerCase();
    return isBeginning ? text.startsWith(wanted.toLowerCase()) : text === wanted.toLowerCase();
  });
}

// Paths and payloads that often meet.

const BARE = ["a", "b", "x[y]", "_"];
const QUOTED = [...BARE, "c.d", "*", ""];
const KEYS = [...QUOTED, `"a"`, "a.b", "a[0]", "a[b=1]", "a[b=1].b", "[b=1]", "*[0]", "__proto__", "constructor"];
const VALUES = ["1", "v", "V1", "true"];

const index = fc.nat(2);
const innerPath: fc.Arbitrary<Segment[]> = fc.array(
  fc.record({
    name: fc.constantFrom("a", "b"),
    kind: fc.constant("bare" as const),
    brackets: fc.array(fc.oneof(fc.constant("any" as const), index), { maxLength: 1 }),
  }),
  { minLength: 1, maxLength: 2 },
);
const selector = fc.record({ inner: innerPath, value: fc.constantFrom(...VALUES), isBeginning: fc.boolean() });
const anyBracket: fc.Arbitrary<Bracket> = fc.oneof(fc.constant("any" as const), index, selector);
const brackets = fc.array(anyBracket, { maxLength: 2 });
const segment: fc.Arbitrary<Segment> = fc.oneof(
  fc.record({ name: fc.constantFrom(...BARE), kind: fc.constant("bare" as const), brackets }),
  fc.record({ name: fc.constantFrom(...QUOTED), kind: fc.constant("quoted" as const), brackets }),
  fc.record({ name: fc.constant("*"), kind: fc.constant("star" as const), brackets }),
);
const self: fc.Arbitrary<Segment> = fc
  .tuple(selector, brackets)
  .map(([first, more]) => ({ name: null, kind: "bare", brackets: [first, ...more] }));
const anyPath: fc.Arbitrary<Segment[]> = fc
  .tuple(fc.option(self), fc.array(segment, { minLength: 1, maxLength: 4 }))
  .map(([first, segments]) => (first === null ? segments : [first, ...segments]));

const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constantFrom(null, true, 1, 12, ...VALUES, "A@x.co", "Jane <jane@x.co>", "{broken", " "),
    fc.dictionary(fc.constantFrom(...KEYS), tie("json"), { maxKeys: 4, noNullPrototype: true }),
    fc.dictionary(fc.constantFrom("a", "b"), tie("json"), { minKeys: 1, maxKeys: 2, noNullPrototype: true }),
    fc.array(tie("json"), { maxLength: 3 }),
    tie("json").map((value) => JSON.stringify(value)),
  ),
}));
const payload = fc
  .dictionary(fc.constantFrom(...KEYS), json, { minKeys: 1, maxKeys: 5, noNullPrototype: true })
  // As it arrives, with own properties of every name.
  .map((value) => JSON.parse(JSON.stringify(value)) as Json);

/** A payload in which a path mostly finds this value. */
function seeded(segments: Segment[], value: unknown): unknown {
  const [first, ...rest] = segments;
  if (first === undefined) return value;
  const { name, kind } = first;
  const inner = first.brackets.reduceRight<unknown>(around, seeded(rest, value));
  if (name === null) return inner;
  return kind === "star" ? { a: inner, b: value } : Object.fromEntries([[name, inner]]);
}
function around(inner: unknown, outer: Bracket): unknown {
  if (outer === "any") return [inner, inner];
  if (typeof outer === "number") return Array.from({ length: outer + 1 }, () => inner);
  const condition = seeded(outer.inner, outer.value);
  return isObject(inner) && isObject(condition) ? { ...inner, ...condition } : condition;
}
const pathWithPayload = fc
  .tuple(anyPath, payload, json, fc.boolean())
  .map(([segments, other, value, isSeeded]): [Segment[], Json] => {
    const own = isSeeded ? (JSON.parse(JSON.stringify(seeded(segments, value))) as unknown) : {};
    return [segments, isObject(own) ? { ...other, ...own } : other];
  });

test("a path reads what the naive evaluator reads, in the same order", () => {
  let found = 0;
  fc.assert(
    fc.property(pathWithPayload, ([segments, value]) => {
      const reading = new PathReading(parseDotPath(textOfPath(segments)) ?? [], { innerJson: new InnerJson() });
      reading.read(value);
      expect(reading.found, textOfPath(segments)).toEqual(valuesAt(value, segments));
      found += reading.found.length;
    }),
    { numRuns: amount(3_000, 100_000) },
  );
  expect(found).toBeGreaterThan(500);
});

// Templates.

type Source = { paths: Segment[][] } | { parts: (string | Segment[])[] };
const source: fc.Arbitrary<Source> = fc.oneof(
  fc.record({ paths: fc.array(anyPath, { minLength: 1, maxLength: 3 }) }),
  fc.record({ parts: fc.tuple(anyPath, fc.constant("-"), anyPath) }),
);
const sources = fc.array(source, { minLength: 1, maxLength: 3 });

function mappingsOf(target: SignalMapping["target"], all: Source[]): SignalMapping[] {
  return all.map((one) => {
    if ("paths" in one) return { target, paths: one.paths.map(textOfPath) };
    return {
      target,
      text: one.parts.map((part) => (typeof part === "string" ? part : `{${textOfPath(part)}}`)).join(""),
    };
  });
}

function naiveText(value: unknown): string | undefined {
  return typeof value === "number"
    ? String(value)
    : typeof value === "string" && value.trim() !== ""
      ? value.trim()
      : undefined;
}
function naiveAddress(value: unknown): string | undefined {
  const [, inBrackets, alone] =
    /^(?:.*<(\w+@x\.co)>|"?(\w+@x\.co)"?)$/.exec(typeof value === "string" ? value : "") ?? [];
  return (inBrackets ?? alone)?.toLowerCase();
}
function firstOf(value: Json, all: Source[], use: (found: unknown) => string | undefined): string | undefined {
  for (const one of all) {
    const candidates =
      "paths" in one ? one.paths.flatMap((each) => valuesAt(value, each)) : [composed(value, one.parts)];
    const used = candidates.map(use).find((text) => text !== undefined);
    if (used !== undefined) return used;
  }
  return undefined;
}
function composed(value: Json, parts: (string | Segment[])[]): string | undefined {
  const texts = parts.map((part) =>
    typeof part === "string"
      ? part
      : valuesAt(value, part)
          .map(naiveText)
          .find((text) => text !== undefined),
  );
  return texts.includes(undefined) ? undefined : texts.join("");
}

test("a target gets what the naive evaluator gives it", () => {
  let found = 0;
  fc.assert(
    fc.property(sources, sources, pathWithPayload, (some, ofEmail, [segments, value]) => {
      const ofCompany = [...some, { paths: [segments] }];
      const template = compileStoredTemplate([
        { target: "event", text: "x" },
        ...mappingsOf("company", ofCompany),
        ...mappingsOf("email", ofEmail),
      ]);
      const outcome = mapSignal(template, value, undefined, { receivedAtMs: 0 });
      if (outcome.kind !== "mapped") throw new Error(JSON.stringify(outcome));
      const { traits, email } = outcome.signal.normalised;
      expect([traits.company, email]).toEqual([
        firstOf(value, ofCompany, naiveText),
        firstOf(value, ofEmail, naiveAddress),
      ]);
      found += traits.company === undefined ? 0 : 1;
    }),
    { numRuns: amount(1_500, 50_000) },
  );
  expect(found).toBeGreaterThan(50);
});
