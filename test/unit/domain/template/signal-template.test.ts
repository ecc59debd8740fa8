/** A template of a key for webhooks: what it may say, and which mapping an error names (spec §2.2). */
import { describe, expect, test } from "vitest";
import {
  compileSignalTemplate,
  compileStoredTemplate,
  problemInWords,
  SIGNAL_TARGETS,
  type MappingProblem,
  type SignalMapping,
} from "../../../../src/domain/template/signal-template.ts";
import { signalTemplate } from "../../../../src/use-cases/signal-template-schema.ts";

function problemsOf(template: unknown): MappingProblem[] {
  const compiled = compileSignalTemplate(template as SignalMapping[]);
  return compiled.ok ? [] : compiled.rejection;
}

const EVENT: SignalMapping = { target: "event", path: "type" };

describe("a template", () => {
  test.each([
    [[{ target: "event", path: "type" }]],
    [[{ target: "event", text: "Form sent" }]],
    [[{ target: "event", text: "{object.type} {@header.x-github-event}" }]],
    [[{ target: "source", text: "crm}" }]],
    [SIGNAL_TARGETS.map((target) => ({ target, path: "a.b" }))],
    [[{ target: "items", paths: ["events", "data[].list[]", "*", "@body.events"], required: true }]],
    [[{ target: "event", paths: ["@key", "@source", "@header.X-Shopify-Topic", "@body.meta.type", `"@type".x`] }]],
    [
      [
        { target: "email", path: "values[name=email].value" },
        { target: "email", path: `"e.mail"` },
      ],
    ],
    [Array.from({ length: 100 }, () => EVENT)],
    [[{ ...EVENT, paths: undefined, text: undefined, path: "x".repeat(255) }]],
    [[{ target: "event", text: `{a}${"x".repeat(997)}` }]],
    [[{ target: "event", paths: Array.from({ length: 20 }, () => "a") }]],
  ])("is compiled: %j", (template) => {
    expect(problemsOf(template)).toEqual([]);
    expect(signalTemplate.safeParse(template).success).toBe(true);
  });

  test.each([
    [{ target: "mail", path: "a" }, "target", "there is no such target; one of items, event, email"],
    [{ target: "__proto__", path: "a" }, "target", "there is no such target"],
    [{ target: "event" }, null, "needs a `path`, `paths` or a `text`"],
    [{ target: "event", path: "a", text: "b" }, "path", "has `path` and `text`; send exactly one"],
    [{ target: "event", path: "a", paths: ["b"] }, "path", "has `path` and `paths`"],
    [{ target: "event", path: "" }, "path", "its path is empty"],
    [{ target: "event", path: "a..b" }, "path", "`a..b` is not a path"],
    [{ target: "event", path: "[0]" }, "path", "`[0]` is not a path"],
    [{ target: "event", path: "x".repeat(256) }, "path", "its path has 256 characters; at most 255"],
    [{ target: "event", paths: [] }, "paths", "has no path"],
    [{ target: "event", paths: ["a", "b."] }, "paths", "`b.` is not a path"],
    [{ target: "event", paths: Array.from({ length: 21 }, () => "a") }, "paths", "has 21 paths; at most 20"],
    [{ target: "event", path: "@keys" }, "path", "`@keys` is unknown; after @ comes"],
    [{ target: "event", path: "@body" }, "path", "`@body` is unknown"],
    [{ target: "event", path: "@body." }, "path", "`@body.` is not a path"],
    [{ target: "event", path: "@header." }, "path", "this is no name of a header"],
    [{ target: "event", path: "@header.a b" }, "path", "this is no name of a header"],
    [{ target: "event", path: `@header.${"x".repeat(65)}` }, "path", "this is no name of a header"],
    [{ target: "items", path: "@key" }, "path", "`@key` is no path of the body"],
    [{ target: "items", text: "a" }, "text", "takes a `path` or `paths`, not a text"],
    [{ target: "event", text: " " }, "text", "its text is blank"],
    [{ target: "event", text: "x".repeat(1_001) }, "text", "its text has 1,001 characters; at most 1,000"],
    [{ target: "event", text: "a {b} {c" }, "text", "its text has an open brace at position 7"],
    [{ target: "event", text: "{a}{" }, "text", "its text has an open brace at position 4"],
    [{ target: "event", text: "{}" }, "text", "its path is empty"],
    [{ target: "event", text: "a{b..c}" }, "text", "`b..c` is not a path"],
    [{ target: "event", text: "{@header.cookie}" }, "text", "`@header.cookie`: this header may hold a credential"],
    [{ target: "event", text: "a\u0007b" }, "text", "its text has the control character U+0007"],
    [{ target: "event", text: `sk_${"aB3".repeat(14).slice(0, 40)}` }, "text", "its text holds an API key or a secret"],
    [{ target: "event", path: `sk_${"aB3".repeat(14).slice(0, 40)}` }, "path", "its path holds an API key or a secret"],
    ...["email", "user_id", "anonymous_id", "id", "occurred_at"].map((target) => [
      { target, text: "same" },
      "text",
      "its text needs a placeholder",
    ]),
  ] as [object, string | null, string][])("names the mapping of %j", (mapping, field, message) => {
    expect(problemsOf([EVENT, mapping])).toEqual([
      {
        index: 1,
        target: (mapping as SignalMapping).target,
        field,
        message: expect.stringContaining(message) as string,
      },
    ]);
    const parsed = signalTemplate.safeParse([EVENT, mapping]);
    expect(parsed.error?.issues[0]?.path[0]).toBe(1);
  });

  test.each([
    "authorization",
    "Authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "X-Api-Secret",
    "cf-connecting-ip",
    "X-Forwarded-For",
    "x-hub-signature-256",
    "x-shopify-hmac-sha256",
    "x-gitlab-token",
    "x-my-secret-code",
  ])("may not read the header %s", (name) => {
    const [problem] = problemsOf([{ target: "event", path: `@header.${name}` }]);
    expect(problem).toMatchObject({ index: 0, target: "event", field: "path" });
    expect(problem?.message).toContain("may hold a credential or is set by the network");
  });

  test("names every bad mapping, and no other", () => {
    const template = [{ target: "event" }, EVENT, { target: "x", path: "a" }, { target: "email", path: "a.." }];
    expect(problemsOf(template).map(({ index }) => index)).toEqual([0, 2, 3]);
    const issues = signalTemplate.safeParse(template.filter(({ target }) => target !== "x")).error?.issues ?? [];
    expect(issues.map(({ path }) => path)).toEqual([[0], [2, "path"]]);
  });

  test("has 1 to 100 mappings", () => {
    expect(problemsOf([]).map(problemInWords)).toEqual(["The template has no mapping; map at least one target."]);
    const tooMany = Array.from({ length: 101 }, () => EVENT);
    expect(problemsOf(tooMany).map(problemInWords)).toEqual(["The template has 101 mappings; at most 100 are taken."]);
    expect(signalTemplate.safeParse(tooMany).success).toBe(false);
    expect(signalTemplate.safeParse([]).success).toBe(false);
  });

  test("has at most 65,536 bytes of JSON", () => {
    const mappingOf = (bytes: number): SignalMapping => ({
      target: "event",
      path: "x".repeat(bytes - Buffer.byteLength(`{"target":"event","path":""},`)),
    });
    // Characters of two bytes, because the limit counts bytes.
    const paths: SignalMapping = { target: "event", paths: Array.from({ length: 20 }, () => "é".repeat(100)) };
    const template = Array.from({ length: 15 }, () => paths);
    let room = 65_535 - Buffer.byteLength(JSON.stringify(template));
    while (room > 280) {
      template.push(mappingOf(200));
      room -= 200;
    }
    const fits = [...template, mappingOf(room + 1)];
    expect(Buffer.byteLength(JSON.stringify(fits))).toBe(65_536);
    expect(problemsOf(fits)).toEqual([]);
    expect(problemsOf([...template, mappingOf(room + 2)]).map(problemInWords)).toEqual([
      "The template has 65,537 bytes as JSON; at most 65,536 are taken.",
    ]);
  });

  test("names a mapping in words, and only the beginning of a long target", () => {
    const [problem] = problemsOf([EVENT, { target: "x".repeat(100), path: "a" }]);
    expect(problem && problemInWords(problem)).toMatch(/^Mapping 2 \(`x{40}…`\): there is no such target/);
  });

  test("knows the headers that it reads, each once, in lower case", () => {
    const compiled = compileStoredTemplate([
      { target: "event", paths: ["@header.X-Topic", "type"] },
      { target: "id", text: "{@header.x-topic}{@header.x-id}" },
    ]);
    expect(compiled.headers).toEqual(["x-topic", "x-id"]);
  });

  test("of a stored key throws where no key could have been saved with it", () => {
    expect(() => compileStoredTemplate([EVENT, { target: "email", path: "a." }])).toThrow(
      "Mapping 2 (`email`): `a.` is not a path such as data.items[0].name.",
    );
  });
});
