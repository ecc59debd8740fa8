/**
 * Two rules about texts of somebody else, over the sources. An expression that is tried at each character and repeats up to `$` takes
 * the square of the text's length. A schema's length that does not abort lets every later check run.
 */
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parseAst } from "vitest/node";

const ROOT = path.join(import.meta.dirname, "../..");

/** One part of an alternative, such as `\d+`, `(?:a|b)`, `^`. */
interface Term {
  text: string;
  /** Of a group. */
  alternatives?: Term[][];
  /** May match nothing. */
  isOptional: boolean;
  isUnbounded: boolean;
}

/** Parses an expression that the compiler accepts. */
function alternativesOf(pattern: string): Term[][] {
  let at = 0;
  const disjunction = (): Term[][] => {
    const alternatives: Term[][] = [[]];
    while (at < pattern.length && pattern[at] !== ")") {
      if (pattern[at] === "|") {
        at++;
        alternatives.push([]);
      } else alternatives.at(-1)?.push(term());
    }
    return alternatives;
  };
  const term = (): Term => {
    const start = at;
    let alternatives: Term[][] | undefined;
    if (pattern[at] === "(") {
      at += /^\((?:\?(?:[:=!]|<[=!]|<\w+>))?/.exec(pattern.slice(at))?.[0].length ?? 1;
      alternatives = disjunction();
      at++;
    } else if (pattern[at] === "[") {
      while (pattern[++at] !== "]") if (pattern[at] === "\\") at++;
      at++;
    } else
      at += pattern[at] === "\\" ? (/^\\(?:[pPu]\{[^}]*\}|k<\w+>|.)/s.exec(pattern.slice(at))?.[0].length ?? 2) : 1;
    const text = pattern.slice(start, at);
    const repeats = /^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/.exec(pattern.slice(at));
    at += repeats?.[0].length ?? 0;
    const [quantifier = "", least = "1", comma, most] = repeats ?? [];
    const isLookAround = /^\(\?(?:[=!]|<[=!])/.test(text);
    return {
      text,
      ...(alternatives !== undefined && { alternatives }),
      isOptional: isLookAround || /^[*?]/.test(quantifier) || least === "0",
      isUnbounded: /^[*+]/.test(quantifier) || (comma === "," && most === ""),
    };
  };
  return disjunction();
}

function endsUnbounded(terms: readonly Term[]): boolean {
  for (const { isUnbounded, isOptional, alternatives } of terms.toReversed()) {
    if (isUnbounded || alternatives?.some(endsUnbounded) === true) return true;
    if (!isOptional) return false;
  }
  return false;
}

/** Whether an alternative repeats without an end before `$`, and is tried at each character. */
function isSlow(pattern: string): boolean {
  const isSlowIn = (alternatives: readonly Term[][], isAnchored: boolean): boolean =>
    alternatives.some((terms) => {
      const anchored = isAnchored || terms[0]?.text === "^";
      const end = terms.findIndex(({ text }) => text === "$");
      if (end >= 0 && !anchored && endsUnbounded(terms.slice(0, end))) return true;
      return terms.some((inner) => isSlowIn(inner.alternatives ?? [], anchored));
    });
  return isSlowIn(alternativesOf(pattern), false);
}

describe("an expression is slow", () => {
  test.each([
    [String.raw`(?:\[\d*\])+$`],
    [String.raw`^\n+|\n+$`],
    [String.raw`\s*$`],
    ["(a|b+)$"],
    ["x(?:y{2,}$)"],
    ["a+b?$"],
    [String.raw`a[^.@]*(?=x)$`],
  ])("if it repeats up to its end: %s", (pattern) => {
    expect(isSlow(pattern)).toBe(true);
  });

  test.each([
    [String.raw`^\s+$`],
    [String.raw`\[\d*\]$`],
    [String.raw`^(?:a+|b*)$`],
    ["a{1,3}$"],
    [String.raw`[$+]$`],
    [String.raw`\++\$`],
    ["a+"],
    [String.raw`^a|\p{Lu}$`],
  ])("unless it begins at the beginning, or ends otherwise: %s", (pattern) => {
    expect(isSlow(pattern)).toBe(false);
  });
});

interface Node {
  type: string;
  [name: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as Node).type === "string";
}

function* nodesOf(value: unknown): Generator<Node> {
  if (typeof value !== "object" || value === null) return;
  if (isNode(value)) yield value;
  for (const inner of Object.values(value)) yield* nodesOf(inner);
}

/** The pattern of an expression: of a literal, or of the fixed parts of `new RegExp(…)`. */
function patternOf({ type, regex, callee, arguments: given }: Node): string | undefined {
  if (type === "Literal" && regex !== undefined && regex !== null) return (regex as { pattern: string }).pattern;
  if (type !== "NewExpression" || !isNode(callee) || callee["name"] !== "RegExp") return undefined;
  const parts = [...nodesOf(given)].filter((node) => node.type === "TemplateElement");
  return parts.map(({ value }) => (value as { raw: string }).raw).join("x") || "unknown+$";
}

/** Whether this is `.max(…)` of a schema that begins with `z.string()`, without `abort: true`. */
function isLengthWithoutAbort({ type, callee, arguments: given }: Node): boolean {
  if (type !== "CallExpression" || !isNode(callee) || !isNode(callee["property"])) return false;
  if (callee["property"]["name"] !== "max" || !beginsWithString(callee["object"])) return false;
  const aborts = [...nodesOf(given)].some(
    (node) => node.type === "Property" && isNode(node["key"]) && node["key"]["name"] === "abort",
  );
  return !aborts;
}

function beginsWithString(value: unknown): boolean {
  if (!isNode(value)) return false;
  const { callee, object, property } = value;
  if (isNode(object) && object["name"] === "z" && isNode(property)) return property["name"] === "string";
  return beginsWithString(value.type === "CallExpression" ? callee : object);
}

function sourceOf(code: string, isTsx = false): unknown {
  return parseAst(code, { lang: isTsx ? "tsx" : "ts" });
}

const SOURCES = globSync("src/**/*.{ts,tsx}", { cwd: ROOT })
  .filter((file) => !file.endsWith(".d.ts"))
  .map((file) => ({
    file,
    nodes: [...nodesOf(sourceOf(readFileSync(path.join(ROOT, file), "utf8"), file.endsWith("x")))],
  }));

test("no expression of the sources repeats up to its end and is tried at each character", () => {
  const patterns = SOURCES.flatMap(({ file, nodes }) =>
    nodes.flatMap((node) => {
      const pattern = patternOf(node);
      return pattern === undefined ? [] : [{ file, pattern }];
    }),
  );
  expect(patterns.length).toBeGreaterThan(100);
  expect(patterns.filter(({ pattern }) => isSlow(pattern)).map(({ file, pattern }) => `${file}: ${pattern}`)).toEqual(
    [],
  );
});

test("each length of a text in a schema aborts", () => {
  const nodesIn = (code: string): Node[] => [...nodesOf(sourceOf(code))];
  expect(nodesIn("const a = z.string().trim().max(255).optional()").some(isLengthWithoutAbort)).toBe(true);
  expect(nodesIn("const a = z.string().max(255, { abort: true })").some(isLengthWithoutAbort)).toBe(false);
  expect(nodesIn("const a = z.array(z.string()).max(255)").some(isLengthWithoutAbort)).toBe(false);
  const wrong = SOURCES.filter(({ nodes }) => nodes.some(isLengthWithoutAbort)).map(({ file }) => file);
  expect(wrong).toEqual([]);
});
