/** Any webhook as a source: a template maps a body to signals (spec §2.2, §4, §6.5). */
import { describe, expect, test } from "vitest";
import { readPayload, WrittenNumber } from "../../../../src/domain/json/json-value.ts";
import {
  applyTemplate,
  isCdpCall,
  mapSignal,
  type AppliedItem,
  type MappedSignal,
  type Misfit,
  type TemplateContext,
} from "../../../../src/domain/template/apply.ts";
import {
  compileStoredTemplate,
  type SignalMapping,
  type SignalTarget,
} from "../../../../src/domain/template/signal-template.ts";

const NOW = Date.parse("2026-11-27T12:00:00Z");
const EVENT: SignalMapping = { target: "event", path: "type" };

function apply(template: SignalMapping[], body: unknown, context: Partial<TemplateContext> = {}) {
  const applied = applyTemplate(compileStoredTemplate(template), body, { receivedAtMs: NOW, ...context });
  if (!applied.ok) throw new Error(applied.rejection.detail);
  return applied.value;
}
function outcomes(template: SignalMapping[], body: unknown, context: Partial<TemplateContext> = {}) {
  return apply(template, body, context).items.map(({ outcome }) => outcome);
}
function mapped(template: SignalMapping[], body: unknown, context: Partial<TemplateContext> = {}): MappedSignal {
  const [outcome] = outcomes(template, body, context);
  if (outcome?.kind !== "mapped") throw new Error(JSON.stringify(outcome));
  return outcome.signal;
}
function misfit(template: SignalMapping[], body: unknown, context: Partial<TemplateContext> = {}): Misfit {
  const [outcome] = outcomes(template, body, context);
  if (outcome?.kind !== "misfit") throw new Error(JSON.stringify(outcome));
  return outcome.misfit;
}
/** The signal of a template with this mapping, whose event is `x`. */
function withTarget(
  target: SignalTarget,
  source: Partial<SignalMapping>,
  body: object,
  context: Partial<TemplateContext> = {},
) {
  return mapped([EVENT, { target, ...source }], { type: "x", ...body }, context);
}
function events(items: readonly AppliedItem[]): (string | undefined)[] {
  return items.map(({ outcome }) => (outcome.kind === "mapped" ? outcome.signal.normalised.event : undefined));
}

describe("a mapped signal", () => {
  test("has each target's value", () => {
    const template: SignalMapping[] = [
      { target: "event", path: "meta.kind" },
      { target: "email", path: "who.mail" },
      { target: "user_id", text: "crm:{who.id}" },
      { target: "anonymous_id", path: "who.cookie" },
      { target: "id", text: "{meta.kind}:{meta.id}" },
      { target: "occurred_at", path: "meta.at" },
      { target: "first_name", path: "who.first" },
      { target: "last_name", path: "who.last" },
      { target: "company", path: "org.name" },
      { target: "title", path: "who.role" },
      { target: "account", path: "org.id" },
      { target: "source", text: "crm" },
    ];
    const body = {
      meta: { kind: " Deal won ", id: "m-17", at: "2026-11-27T11:00:00+01:00" },
      who: { mail: "Jane Doe <Jane@Example.com>", id: 42, cookie: "c-1", first: "Jane", last: "Doe", role: "CEO" },
      org: { name: "Initech", id: "acme-1" },
    };
    expect(mapped(template, body, { source: "path" })).toEqual({
      normalised: {
        kind: "signal",
        event: "Deal won",
        source: "crm",
        email: "jane@example.com",
        userId: "crm:42",
        anonymousId: "c-1",
        hasOwnId: true,
        properties: body,
        traits: { name: "Jane Doe", company: "Initech", title: "CEO", account: "acme-1" },
      },
      occurred: { ms: Date.parse("2026-11-27T10:00:00Z"), from: "occurred_at" },
      id: "Deal won:m-17",
    });
  });

  test.each([
    ["a text", "x y", "x y"],
    ["a number", 7, "7"],
    ["a decomposed accent, in one form", "Zu\u0308rich", "Zürich"],
    ["a number of many digits, as sent", new WrittenNumber("9007199254740993"), "9007199254740993"],
  ])("has %s as its event", (_, value, event) => {
    expect(mapped([EVENT], { type: value }).normalised.event).toBe(event);
  });

  test("takes the first path that its target can use", () => {
    const paths = ["none", "blank", "object", "flag", "lossy", "text"];
    const body = { blank: " ", object: {}, flag: true, lossy: 2 ** 60, text: "Opened" };
    expect(mapped([{ target: "event", paths }], body).normalised.event).toBe("Opened");
    const list = { list: [{ e: null }, { e: "no" }, { e: "a@x.co" }, { e: "b@x.co" }] };
    expect(withTarget("email", { path: "list[].e" }, list).normalised.email).toBe("a@x.co");
  });

  test("takes the first of several mappings with a value, in their order", () => {
    const template: SignalMapping[] = [
      { target: "event", path: "a" },
      { target: "event", text: "{b}!" },
      { target: "event", text: "Otherwise" },
    ];
    expect(mapped(template, { a: "A", b: "B" }).normalised.event).toBe("A");
    expect(mapped(template, { a: {}, b: "B" }).normalised.event).toBe("B!");
    expect(mapped(template, {}).normalised.event).toBe("Otherwise");
  });

  test.each([
    ["Jane@X.co", "jane@x.co"],
    [" 'jane@x.co', ", "jane@x.co"],
    ["Jane <jane@x.co>", "jane@x.co"],
    ["<jane@x.co>", "jane@x.co"],
    [`"Doe, Jane" <jane@x.co>`, "jane@x.co"],
    ["jane at x.co", undefined],
    ["Jane <jane>", undefined],
    [{ email: "jane@x.co" }, undefined],
    [`${"x".repeat(1_000)} <jane@x.co>`, undefined],
  ])("reads the address in %j", (sent, email) => {
    const signal = withTarget("email", { path: "e" }, { e: sent });
    expect(signal.normalised.email).toBe(email);
    if (email === undefined) expect(signal.problems?.email).toContain("`e`");
  });

  test.each([
    ["null", undefined],
    [0, undefined],
    [true, undefined],
    [2 ** 60, undefined],
    ["u-1", "u-1"],
    [17, "17"],
    [new WrittenNumber("12345678901234567890"), "12345678901234567890"],
  ])("has the user id %j only if it names somebody", (sent, userId) => {
    const signal = withTarget("user_id", { path: "u" }, { u: sent });
    expect(signal.normalised.userId).toBe(userId);
    expect(signal.problems === undefined).toBe(userId !== undefined);
    if (userId === undefined) expect(signal.problems?.id).toContain("`u`");
  });

  test("has no composed id of a part that names nobody", () => {
    for (const target of ["user_id", "anonymous_id", "account", "id"] as const) {
      const composed = (id: unknown) => withTarget(target, { text: "crm:{u}" }, { u: id });
      const value = ({ id, normalised }: MappedSignal) =>
        id ?? normalised.userId ?? normalised.anonymousId ?? normalised.traits.account;
      expect(value(composed("5"))).toBe("crm:5");
      for (const nobody of ["null", "", null, {}, 0, "{{id}}"]) expect(value(composed(nobody))).toBeUndefined();
    }
  });

  test("has no text with a placeholder without value", () => {
    const name = (body: object) => withTarget("name", { text: "{a} {b}" }, body).normalised.traits.name;
    expect(name({ a: "A", b: 2 })).toBe("A 2");
    for (const body of [{ a: "A" }, { a: "A", b: null }, { a: "A", b: " " }, { a: "A", b: [] }]) {
      expect(name(body)).toBeUndefined();
    }
    expect(name({ a: "x".repeat(3_000), b: "y".repeat(3_000) })).toBeUndefined();
  });

  test.each([
    ["2026-11-27T11:00:00Z", Date.parse("2026-11-27T11:00:00Z")],
    [1_795_773_600, 1_795_773_600_000],
    [1_795_773_600_123, 1_795_773_600_123],
    ["2026-11-27 11:00:00", Date.parse("2026-11-27T11:00:00Z")],
    ["2026-11-27T12:05:00Z", NOW],
  ])("occurred at %j", (sent, ms) => {
    const { occurred, problems } = withTarget("occurred_at", { path: "at" }, { at: sent, timestamp: 1 });
    expect([occurred, problems]).toEqual([{ ms, from: "occurred_at" }, undefined]);
  });

  test.each([
    ["yesterday", "Its `at` cannot be read"],
    ["1999-01-01", "Its `at` is before the year 2000"],
    ["2026-11-28", "Its `at` is more than ten minutes after the receipt"],
    [{ a: 1 }, "Its `at` cannot be read"],
    ["1".repeat(2_000), "`at`"],
  ])("counts as received where the time is %j, and says so", (sent, problem) => {
    const { occurred, problems } = withTarget("occurred_at", { path: "at" }, { at: sent });
    expect(occurred).toEqual({ ms: NOW, from: "received" });
    expect(problems?.time).toContain(problem);
  });

  test("notes a useless value only where the target got none", () => {
    expect(withTarget("email", { paths: ["a", "b"] }, { a: "no", b: "b@x.co" }).problems).toBeUndefined();
    expect(withTarget("company", { path: "c" }, { c: {} }).problems).toEqual({
      traits: "Its `c` is an object, so it is not used.",
    });
    expect(withTarget("company", { path: "c" }, { c: null }).problems).toBeUndefined();
  });

  test("repeats no value in its problems", () => {
    const template: SignalMapping[] = (["email", "user_id", "occurred_at", "company", "account", "id"] as const).map(
      (target) => ({ target, path: "v" }),
    );
    const { problems } = mapped([EVENT, ...template], { type: "x", v: { "secret-value": 1 } });
    expect(JSON.stringify(problems)).not.toContain("secret-value");
    const texts = mapped([EVENT, ...template.slice(0, 3)], { type: "x", v: "secret value" });
    expect(JSON.stringify(texts.problems)).not.toContain("secret value");
  });

  test("reads targets without a mapping from the fields of a universal signal", () => {
    const body = {
      type: "x",
      email: "jane@x.co",
      userId: "u1",
      anonymousId: "a1",
      source: "shop",
      timestamp: "2026-11-27T10:00:00Z",
      properties: { firstName: "Jane", company: "Initech" },
    };
    expect(mapped([EVENT], body)).toMatchObject({
      normalised: {
        email: "jane@x.co",
        userId: "u1",
        anonymousId: "a1",
        source: "shop",
        traits: { name: "Jane", company: "Initech" },
      },
      occurred: { from: "timestamp" },
    });
    const template: SignalMapping[] = [
      EVENT,
      ...(["email", "user_id"] as const).map((target) => ({ target, path: "none" })),
    ];
    const other = mapped(template, body).normalised;
    expect([other.email, other.userId]).toEqual([undefined, undefined]);
    expect(mapped([{ target: "email", path: "e" }], { event: "x", e: "j@x.co" }).normalised.event).toBe("x");
  });

  test.each([
    [{ text: "fixed" }, { source: "body" }, "path", "fixed"],
    [{ path: "none" }, { source: "body" }, "path", "path"],
    [{ paths: ["@source", "s"] }, { s: "own" }, undefined, "own"],
    [{ text: "{@source}-eu" }, {}, "crm", "crm-eu"],
    [undefined, { source: "body" }, "path", "path"],
    [undefined, { source: "body" }, undefined, "body"],
    [undefined, { source: {} }, undefined, "unknown"],
  ])("with the source %j of %j under %j is of %j", (source, body, pathSource, expected) => {
    const template = source === undefined ? [EVENT] : [EVENT, { target: "source" as const, ...source }];
    expect(mapped(template, { type: "x", ...body }, { source: pathSource }).normalised.source).toBe(expected);
  });

  test("reads named headers, and no other", () => {
    const template: SignalMapping[] = [{ target: "event", paths: ["@header.X-Topic"] }];
    const headers = { "x-topic": "orders/create", "x-other": "no" };
    const { items } = apply(template, {}, { headers });
    expect(events(items)).toEqual(["orders/create"]);
    expect(items[0]?.around).toEqual({ headers: { "x-topic": "orders/create" } });
    expect(misfit(template, {}, { headers: { __proto__: null } as never }).tried).toEqual(["@header.X-Topic"]);
  });

  test("reads JSON inside a text", () => {
    const body = { type: "x", payload: JSON.stringify({ user: { mail: "j@x.co" } }) };
    expect(mapped([EVENT, { target: "email", path: "payload.user.mail" }], body).normalised.email).toBe("j@x.co");
  });

  test("reads own properties only", () => {
    const paths = ["constructor.name", "__proto__.x", "toString.name", "a.length"];
    expect(misfit([{ target: "event", paths }], { a: "text" }).tried).toEqual(paths);
    const sent = readPayload(`{"__proto__":{"x":"sent"}}`);
    expect(mapped([{ target: "event", paths }], sent).normalised.event).toBe("sent");
  });

  test("keeps the digits of a composed id", () => {
    const body = readPayload(`{"type":"x","id":12345678901234567890}`);
    expect(mapped([EVENT, { target: "id", text: "{type}-{id}x" }], { ...(body as object), type: "xy" }).id).toBe(
      "xy-12345678901234567890x",
    );
  });
});

describe("a misfit", () => {
  test("without an event names each path that was tried, and the fields that may name it", () => {
    const template: SignalMapping[] = [
      { target: "event", paths: ["a", "b.c"] },
      { target: "event", text: "{d}-{e}" },
    ];
    const found = misfit(template, { eventName: "Secret", Type: 1, other: "x", b: { c: {} } });
    expect(found.code).toBe("event_missing");
    expect(found.tried).toEqual(["a", "b.c", "d", "e"]);
    expect(found.detail).toBe(
      "A signal needs an `event`, but there is no value for it at `a`, `b.c`, `d`, `e`. Its `b.c` is an object, so it is not used. " +
        "The body has `eventName` and `Type`.",
    );
  });

  test("lacks a required value, and names all of them", () => {
    const template: SignalMapping[] = [
      EVENT,
      { target: "email", path: "a", required: true },
      { target: "company", paths: ["b", "a"], required: true },
      { target: "title", path: "c" },
    ];
    const found = misfit(template, { type: "x", a: {} });
    expect([found.code, found.tried]).toEqual(["template_mismatch", ["a", "b"]]);
    expect(found.detail).toContain("`email` is required, but there is no value for it at `a`.");
    expect(outcomes(template, { type: "x", a: "j@x.co", b: "B" })[0]?.kind).toBe("mapped");
  });

  test.each([[1], ["text"], [null], [true], [[[1]]]])("is a signal of a wrong type: %j", (sent) => {
    expect(misfit([EVENT], [sent]).code).toBe("signal_not_object");
  });

  test("has properties of a wrong type", () => {
    expect(misfit([EVENT], { type: "x", properties: "a" }).code).toBe("properties_invalid");
    for (const properties of [{}, [], null])
      expect(outcomes([EVENT], { type: "x", properties })[0]?.kind).toBe("mapped");
  });

  test("with long paths has a short detail", () => {
    const paths = Array.from({ length: 20 }, (_, nth) => `${"x".repeat(250)}${nth}`);
    const found = misfit([{ target: "event", paths }], {});
    expect(found.tried).toHaveLength(20);
    expect(found.detail.length).toBeLessThan(1_500);
    expect(found.detail).toContain("and 17 more");
  });

  test.each([
    ["event", "x".repeat(256), "event_invalid"],
    ["event", `sk_${"aB3".repeat(14).slice(0, 40)}`, "event_invalid"],
    ["source", "x".repeat(256), "source_invalid"],
  ] as const)("is none where the %s is too long or holds a credential: that is rejected", (target, value, code) => {
    const [outcome] = outcomes([EVENT, { target, path: "v" }].toReversed() as SignalMapping[], { type: "x", v: value });
    expect(outcome).toMatchObject({ kind: "rejected", rejection: { code } });
  });
});

describe("the items of a body", () => {
  const ITEMS: SignalMapping = { target: "items", path: "events" };

  test.each([
    ["events", { events: [{ type: "a" }, { type: "b" }] }],
    ["events[]", { events: [{ type: "a" }, { type: "b" }] }],
    ["data.*", { data: { x: { type: "a" }, y: { type: "b" } } }],
    ["entry[].changes[]", { entry: [{ changes: [{ type: "a" }] }, { changes: [{ type: "b" }] }] }],
    ["list", { list: JSON.stringify([{ type: "a" }, { type: "b" }]) }],
    ["events[kind=yes]", { events: [{ type: "a", kind: "yes" }, { type: "c" }, { type: "b", kind: "YES" }] }],
  ])("stand at %s", (path, body) => {
    const applied = apply([{ target: "items", path }, EVENT], body);
    expect([applied.isList, events(applied.items)]).toEqual([true, ["a", "b"]]);
  });

  test("are one where an object stands in place of the list", () => {
    expect(events(apply([ITEMS, EVENT], { events: { type: "a" } }).items)).toEqual(["a"]);
  });

  test("have the name of their member as @key, and members that are no object stand around them", () => {
    const body = { "mautic.form": [{ a: 1 }, { a: 2 }], "mautic.mail": { a: 3 }, timestamp: "now" };
    const template: SignalMapping[] = [
      { target: "items", path: "*" },
      { target: "event", path: "@key" },
      { target: "title", path: "@body.timestamp" },
    ];
    const { items } = apply(template, body);
    expect(events(items)).toEqual(["mautic.form", "mautic.form", "mautic.mail"]);
    expect(items.map(({ around }) => around)).toEqual(
      ["mautic.form", "mautic.form", "mautic.mail"].map((key) => ({ key, body: { timestamp: "now" } })),
    );
  });

  test("read what stands around them with @body., and not themselves", () => {
    const template: SignalMapping[] = [ITEMS, { target: "event", paths: ["@body.type", "type"] }];
    const around = { type: "outer", events: [{ type: "a" }] };
    expect(events(apply(template, around).items)).toEqual(["outer"]);
    expect(events(apply(template, { events: [{ type: "a" }] }).items)).toEqual(["a"]);
    expect(events(apply([{ target: "event", path: "@body.type" }], { type: "whole" }).items)).toEqual(["whole"]);
  });

  test.each([
    ["events", { events: [] }],
    ["events[]", { events: [] }],
    ["events[].list", { events: [] }],
    ["events[kind=yes]", { events: [{ type: "a" }] }],
  ])("are none in an empty list at %s of %j", (path, body) => {
    expect(apply([{ target: "items", path }, EVENT], body)).toEqual({ isList: true, items: [] });
    expect(apply([{ target: "items", path, required: true }, EVENT], body).items).toEqual([]);
  });

  test("are the body where the list is missing, or a misfit if it is required", () => {
    expect(apply([ITEMS, EVENT], { type: "a" })).toMatchObject({ isList: false, items: [{ payload: { type: "a" } }] });
    const found = misfit([{ ...ITEMS, required: true }, EVENT], { type: "a" });
    expect([found.code, found.tried]).toEqual(["template_mismatch", ["events"]]);
    const second: SignalMapping = { target: "items", paths: ["list", "data[].x"] };
    expect(events(apply([ITEMS, second, EVENT], { data: [{ x: { type: "b" } }] }).items)).toEqual(["b"]);
  });

  test("without a mapping are an array's elements, or the batch of the SDKs", () => {
    expect(events(apply([EVENT], [{ type: "a" }, { type: "b" }]).items)).toEqual(["a", "b"]);
    expect(events(apply([EVENT], { batch: [{ type: "a" }], sentAt: "now" }).items)).toEqual(["a"]);
    expect(events(apply([EVENT], { batch: [{ type: "a" }], type: "b" }).items)).toEqual(["b"]);
    expect(apply([EVENT], [])).toEqual({ isList: true, items: [] });
  });

  test("stand in each body of an array", () => {
    const { items } = apply([ITEMS, EVENT], [{ events: [{ type: "a" }, { type: "b" }] }, { type: "c" }]);
    expect(events(items)).toEqual(["a", "b", "c"]);
  });

  test("are at most 10,000, and none is left out silently", () => {
    const list = Array.from({ length: 10_000 }, () => ({ type: "a" }));
    for (const path of ["events", "events[]"]) {
      const template = compileStoredTemplate([{ target: "items", path }, EVENT]);
      expect(applyTemplate(template, { events: list }, { receivedAtMs: NOW }).ok).toBe(true);
      const beyond = applyTemplate(template, { events: [...list, {}] }, { receivedAtMs: NOW });
      expect(beyond).toMatchObject({ ok: false, rejection: { code: "batch_too_long" } });
    }
    const template = compileStoredTemplate([{ target: "items", path: "events[][]" }, EVENT]);
    const nested = applyTemplate(template, { events: list.map(() => [{ type: "a" }, {}]) }, { receivedAtMs: NOW });
    expect(nested.ok).toBe(false);
  });

  test("map the same way from their payload and surroundings alone", () => {
    const template: SignalMapping[] = [
      { target: "items", path: "data.*[]" },
      { target: "event", text: "{@body.meta.action} {@key} {@header.x-kind}" },
      { target: "company", path: "@body.org[0].name" },
    ];
    const body = {
      meta: { action: "add" },
      org: [{ name: "Initech" }],
      data: { leads: [{ a: 1 }], deals: [{ b: 1 }] },
    };
    const context = { source: "crm", headers: { "x-kind": "k" }, receivedAtMs: NOW };
    const { items } = apply(template, body, context);
    expect(events(items)).toEqual(["add leads k", "add deals k"]);
    for (const { payload, around, outcome } of items) {
      const stored = JSON.parse(JSON.stringify({ payload, around })) as { payload: object; around: object };
      const again = mapSignal(compileStoredTemplate(template), stored.payload, stored.around, {
        source: "crm",
        receivedAtMs: NOW,
      });
      expect(again).toEqual(outcome);
    }
  });
});

describe("the call of a CDP", () => {
  const CALL = { type: "track", event: "x", messageId: "m", anonymousId: "a" };

  test.each([
    [CALL, true, true, true],
    [{ ...CALL, type: "Identify" }, true, true, true],
    [{ ...CALL, anonymousId: null }, false, true, true],
    [{ type: "track", userId: "u", event: "x" }, false, true, true],
    [{ ...CALL, type: "lead.created" }, false, true, true],
    [{ type: "lead.created", messageId: "m" }, false, false, false],
    [{ event: "x" }, false, false, false],
    ["text", false, false, false],
  ])("%j is one: %s with a mapped event, %s with another template, %s without", (payload, mapsEvent, other, none) => {
    const withEvent = compileStoredTemplate([EVENT]);
    const withoutEvent = compileStoredTemplate([{ target: "email", path: "mail" }]);
    expect([withEvent, withoutEvent, null].map((template) => isCdpCall(payload, template))).toEqual([
      mapsEvent,
      other,
      none,
    ]);
  });

  test("ignores the template, also as an item, in a batch, and where items are required", () => {
    const required: SignalMapping[] = [{ target: "items", path: "events", required: true }, EVENT];
    expect(outcomes(required, CALL)).toEqual([{ kind: "call" }]);
    expect(outcomes(required, { events: [CALL] })).toEqual([{ kind: "call" }]);
    expect(outcomes([EVENT], { batch: [CALL, { type: "mine" }] }).map(({ kind }) => kind)).toEqual(["call", "mapped"]);
    expect(outcomes([{ target: "items", path: "events" }, EVENT], { ...CALL, events: [{ type: "a" }] })).toEqual([
      { kind: "call" },
    ]);
  });
});

describe("the step budget", () => {
  test("ends a search behind too many elements, and the signal keeps what was found before", () => {
    const paths = Array.from({ length: 20 }, (_, nth) => `list[].list[].x${nth}`);
    const template: SignalMapping[] = [
      EVENT,
      ...Array.from({ length: 8 }, () => ({ target: "company" as const, paths })),
    ];
    const list = Array.from({ length: 31 }, () => ({ list: Array.from({ length: 32 }, () => ({})) }));
    const { normalised, problems } = mapped(template, { type: "x", list });
    expect(normalised.event).toBe("x");
    expect(problems?.traits).toMatch(/^Its `list\[\]\.list\[\]\.x\d+` is behind more than a template may read\.$/);
  });

  test("is shared by the signals of a request", () => {
    const budget = { stepsLeft: 2_000 };
    const template: SignalMapping[] = [EVENT, { target: "company", path: "list[].x" }];
    const body = Array.from({ length: 10 }, () => ({ type: "x", list: Array.from({ length: 900 }, () => ({})) }));
    const kinds = outcomes(template, body, { budget }).map(({ kind }) => kind);
    expect(kinds.slice(0, 2)).toEqual(["mapped", "mapped"]);
    expect(kinds.at(-1)).toBe("misfit");
    expect(budget.stepsLeft).toBeLessThan(0);
  });
});
