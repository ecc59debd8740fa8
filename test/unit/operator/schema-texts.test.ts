/**
 * Each text of each schema of a request gets the largest text that its body lets through, in ten shapes. Its schema rejects the text,
 * because every text has a maximum, and takes at most 50 ms of CPU, and at most in proportion to the text. The texts are found from the
 * schemas of the operations.
 */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import * as fields from "../../../src/http/fields.ts";
import { OPERATIONS } from "../../../src/operator/operator-api.ts";
import { OPERATOR_BODY_MAX_BYTES } from "../../../src/operator/operation.ts";
import { complaintsAbout, SHAPE_NAMES, textsOf, type Shape } from "../../support/worst-text.ts";

type Schema = z.core.$ZodType;

/** A place in a schema where a caller writes a text. */
interface Leaf {
  /** Names and indices from the schema to the text; `*` is a name that the caller chooses. */
  path: readonly (string | 0)[];
  /** The names of the fields above the text, of an option of a union. */
  beside: readonly { at: number; schema: z.core.$ZodObject }[];
  isNameOfRecord: boolean;
}

const NO_TEXT = ["boolean", "number", "int", "enum", "literal", "null", "unknown", "never"];

/** Finds the texts of a schema. Fails on a kind of schema that it does not know. */
function leavesOf(schema: Schema, path: Leaf["path"] = [], beside: Leaf["beside"] = []): Leaf[] {
  const { def } = schema._zod as { def: z.core.$ZodTypes["_zod"]["def"] };
  const inside = (inner: Schema, ...names: (string | 0)[]) => leavesOf(inner, [...path, ...names], beside);
  switch (def.type) {
    case "string":
      return [{ path, beside, isNameOfRecord: false }];
    case "object": {
      const objects = [...beside, { at: path.length, schema: schema as z.core.$ZodObject }];
      return Object.entries(def.shape).flatMap(([name, field]) => leavesOf(field, [...path, name], objects));
    }
    case "array":
      return inside(def.element, 0);
    case "record":
      return [{ path: [...path, "*"], beside, isNameOfRecord: true }, ...inside(def.valueType, "*")];
    case "union":
      return def.options.flatMap((option) => inside(option));
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "readonly":
      return inside(def.innerType);
    case "pipe":
      return inside(def.in);
    default:
      if (NO_TEXT.includes(def.type)) return [];
      throw new Error(`a schema of the kind ${def.type}: say where its texts are`);
  }
}

/** A value for a schema, with examples for its texts. */
function exampleOf(schema: Schema): unknown {
  const { def } = schema._zod as { def: z.core.$ZodTypes["_zod"]["def"] };
  const example = z.globalRegistry.get(schema)?.["example"];
  if (example !== undefined) return example;
  switch (def.type) {
    case "object": {
      const required = Object.entries(def.shape).filter(([, field]) => field._zod.optin !== "optional");
      return Object.fromEntries(required.map(([name, field]) => [name, exampleOf(field)]));
    }
    case "array":
      return [exampleOf(def.element)];
    case "record":
      return {};
    case "union":
      return exampleOf(def.options[0] ?? z.null());
    case "enum":
      return Object.values(def.entries)[0];
    case "literal":
      return def.values[0];
    case "pipe":
      return exampleOf(def.in);
    case "default":
    case "prefault":
    case "readonly":
    case "optional":
    case "nullable":
      return exampleOf(def.innerType);
    case "boolean":
      return true;
    case "number":
      return 1;
    default:
      return "a";
  }
}

/** The valid example of the schema with this text in its place. */
function withText(schema: Schema, base: unknown, { path, beside, isNameOfRecord }: Leaf, text: string): unknown {
  const put = (value: unknown, at: number): unknown => {
    const name = path[at];
    if (name === undefined) return text;
    if (name === 0) return [put(Array.isArray(value) ? value[0] : undefined, at + 1)];
    if (isNameOfRecord && at === path.length - 1) return { [text]: 1 };
    const object = beside.find((one) => one.at === at)?.schema;
    const known = value ?? (object === undefined ? {} : exampleOf(object));
    return { ...(known as object), [name]: put((known as Record<string, unknown>)[name], at + 1) };
  };
  // An example of a union is of one of its options only.
  const ofOption = beside[0]?.schema === schema ? undefined : beside[0]?.schema;
  return put(ofOption === undefined ? (base ?? exampleOf(schema)) : exampleOf(ofOption), 0);
}

const REQUESTS = OPERATIONS.flatMap(({ method, path, body, query, bodyExample }) => [
  ...(body === undefined ? [] : [{ name: `${method} ${path}`, schema: body as Schema, base: bodyExample }]),
  ...(query === undefined ? [] : [{ name: `${method} ${path} ?`, schema: query as Schema, base: {} }]),
]);
const TEXTS = REQUESTS.flatMap(({ name, schema, base }) =>
  leavesOf(schema).map((leaf) => ({ title: `${name} ${leaf.path.join(".")}`, schema, base, leaf })),
);

/** What is wrong with a schema that gets the text in its place. */
function complaintsOf(title: string, parse: (text: string) => { success: boolean }): string[] {
  const accepted = SHAPE_NAMES.filter((shape) =>
    textsOf(shape, OPERATOR_BODY_MAX_BYTES).some((text) => parse(text).success),
  );
  return [
    ...(accepted.length > 0 ? [`${title}: a text of 1 MB is accepted`] : []),
    ...SHAPE_NAMES.flatMap((shape: Shape) =>
      complaintsAbout(`${title}, ${shape}`, (part) =>
        textsOf(shape, Math.floor(OPERATOR_BODY_MAX_BYTES * part)).map((text) => () => parse(text)),
      ),
    ),
  ];
}

/** The places of an issue that an option of another kind has not caused. That of a union has the issues of its options. */
function placesOf(issue: z.core.$ZodIssue, above: readonly PropertyKey[] = []): string[] {
  const path = [...above, ...issue.path];
  // A name has the place of its record.
  if (issue.code === "invalid_key") return issue.issues.flatMap((inner) => placesOf(inner, path.slice(0, -1)));
  if (issue.code === "invalid_union") return issue.errors.flat().flatMap((option) => placesOf(option, path));
  return issue.code === "invalid_value" || issue.code === "invalid_type" ? [] : [path.join(".")];
}

/** Too long, a key, and nothing that any field may be. */
const WRONG_IN_ALL = `sk_${"A1b2".repeat(10)} [].. `.repeat(OPERATOR_BODY_MAX_BYTES / 50);

describe("each text of a request", () => {
  test("is found", () => {
    const titles = TEXTS.map(({ title }) => title);
    expect(titles).toContain("POST /workspaces/:workspace_id/accounts/preview payload_template.0.path");
    expect(titles).toContain("POST /workspaces/:workspace_id/rules/import items.0.conditions.0.value.0");
    expect(titles).toContain("GET /workspaces/:workspace_id/people ? q");
    expect(titles.length).toBeGreaterThan(60);
  });

  test.each(TEXTS.map((text) => [text.title, text] as const))(
    "%s has a maximum that stops all other checks",
    (title, { schema, base, leaf }) => {
      const parsed = (text: string) => (schema as z.ZodType).safeParse(withText(schema, base, leaf, text));
      // One issue is at the text: the text was reached, and no check of it ran after that of its length.
      const issues = parsed(WRONG_IN_ALL).error?.issues ?? [];
      const place = leaf.path.slice(0, leaf.isNameOfRecord ? -1 : undefined).join(".");
      expect(issues.flatMap((issue) => placesOf(issue)).filter((at) => at === place)).toHaveLength(1);
      expect(complaintsOf(title, parsed)).toEqual([]);
    },
  );
});

/** The exports of http/fields.ts that make schemas of others, or look at a text after its length. */
const MAKERS = ["boundedText", "shortText", "textOption", "headersOf", "nameLength", "noCredential"];

describe("each schema of http/fields.ts", () => {
  const schemas = Object.entries(fields).filter(([, field]) => field instanceof z.ZodType);

  test("is known, and so is each function", () => {
    const others = Object.keys(fields).filter((name) => !schemas.some(([schema]) => schema === name));
    expect(MAKERS).toEqual(expect.arrayContaining(others));
    expect(schemas.length).toBeGreaterThan(4);
  });

  test.each(schemas)("%s has a maximum that stops all other checks", (name, field) => {
    const schema = field as z.ZodType;
    expect(complaintsOf(name, (text) => schema.safeParse(text))).toEqual([]);
  });

  test("a schema that one of its functions makes has one too", () => {
    const headers = fields.headersOf(z.object({ name: fields.headerName, value: fields.headerValue }));
    const inHeaders = (text: string) => headers.safeParse([{ name: text, value: text }]);
    expect(complaintsOf("headersOf", inHeaders)).toEqual([]);
  });
});
