/** Spec §6, design §8.1, with the payloads of real senders. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cdpCallType, normalise } from "../../../../src/domain/signal/normalise.ts";
import type { JsonObject } from "../../../../src/domain/json/json-value.ts";
import type { Traits } from "../../../../src/domain/signal/traits.ts";

describe("§6 detection of CDP calls", () => {
  test.each([
    ["type, anonymousId and messageId", { type: "track", anonymousId: "a", messageId: "m" }, "track"],
    ["with an unknown type", { type: "charge", anonymousId: "a", messageId: "m" }, "charge"],
    ["messageId only", { type: "page", messageId: "m" }, "page"],
    ["anonymousId only", { type: "screen", anonymousId: "a" }, "screen"],
    ["userId only", { type: "identify", userId: "u", anonymousId: null }, "identify"],
    ["a number as userId", { type: "group", userId: 17 }, "group"],
    ["alias", { type: "alias", userId: "u" }, "alias"],
    ["no id", { type: "track", event: "A" }, undefined],
    ["null ids", { type: "track", userId: null, anonymousId: null, messageId: "" }, undefined],
    ["a type of the sender's own with one id", { type: "webinar", messageId: "m" }, undefined],
    ["a type that is a property of every object", { type: "constructor", messageId: "m" }, undefined],
    ["no type", { messageId: "m", anonymousId: "a", userId: "u" }, undefined],
    ["a type that is not a text", { type: 1, messageId: "m", anonymousId: "a" }, undefined],
    ["a blank type", { type: " ", messageId: "m", anonymousId: "a" }, undefined],
  ])("%s", (_, payload, callType) => expect(cdpCallType(payload)).toBe(callType));
});

describe("§6 payloads as a CDP delivers them", () => {
  test("an identify gives ids, email and traits", () => {
    const sent = `{"type":"identify","messageId":"022bb90c-bbac-11e4-8dfc-aa07a5b093db","anonymousId":"507f191e810c19729de860ea","userId":"97980cfea0067","traits":{"email":"peter@example.com","name":"Peter Gibbons","company":{"name":"Initech"},"title":"Engineer"},"context":{"ip":"8.8.8.8"},"timestamp":"2026-02-23T22:28:55.111Z","sentAt":"2026-02-23T22:28:55.111Z","receivedAt":"2026-02-23T22:28:55.387Z","version":"1.1"}`;
    expect(normalise(JSON.parse(sent), undefined)).toEqual({
      kind: "identify",
      event: "identify",
      source: "segment",
      email: "peter@example.com",
      userId: "97980cfea0067",
      anonymousId: "507f191e810c19729de860ea",
      hasOwnId: true,
      properties: {},
      traits: { name: "Peter Gibbons", company: "Initech", title: "Engineer" },
    });
  });
  test("a page gives a page view, with the name from the top level", () => {
    const sent = `{"type":"page","messageId":"022bb90d","anonymousId":"507f191e810c19729de860ea","name":"Home","properties":{"title":"Welcome","url":"https://example.com"},"timestamp":"2026-02-23T22:28:55.111Z"}`;
    expect(normalise(JSON.parse(sent), undefined)).toEqual({
      kind: "signal",
      event: "Page Viewed",
      source: "segment",
      anonymousId: "507f191e810c19729de860ea",
      hasOwnId: true,
      properties: { title: "Welcome", url: "https://example.com", name: "Home" },
      traits: {},
    });
  });
  test.each(["screen", "group", "alias"])("%s has its type as the event", (type) => {
    expect(normalise({ type, userId: "u-1", event: "ignored" }, undefined)).toMatchObject({
      kind: "signal",
      event: type,
    });
  });
});

function page(more: JsonObject): JsonObject {
  return normalise({ type: "page", userId: "u-1", ...more }, undefined).properties;
}

describe("§8.1 a page's name and address", () => {
  const context = { page: { url: "https://example.com/c" } };

  test.each([
    ["from the context", { context }, { url: "https://example.com/c" }],
    [
      "the values of the properties win",
      { name: "Top", context, properties: { name: "P", url: "https://example.com/p" } },
      { name: "P", url: "https://example.com/p" },
    ],
    [
      "null and empty properties are filled",
      { name: "Top", context, properties: { name: null, url: " " } },
      { name: "Top", url: "https://example.com/c" },
    ],
    ["nothing to fill in", { name: "", context: { page: null } }, {}],
    ["properties that are not an object", { name: "Top", properties: ["x"] }, { name: "Top" }],
  ])("%s", (_, more, properties) => expect(page(more)).toEqual(properties));

  test("leave the payload unchanged", () => {
    const payload = { type: "page", userId: "u-1", name: "Top", properties: { a: 1 } };
    normalise(payload, undefined);
    expect(payload.properties).toEqual({ a: 1 });
  });
  test("keep hostile keys as properties", () => {
    const properties = page({ name: "Top", properties: JSON.parse(`{"__proto__":{"url":"evil"}}`) });
    expect(Object.keys(properties).toSorted()).toEqual(["__proto__", "name"]);
    expect(Object.getPrototypeOf(properties)).toBe(Object.prototype);
  });
});

describe("§8.1 screen, group and alias", () => {
  test.each([
    ["takes its name from the top level", { name: " Home " }, { name: "Home" }],
    [
      "keeps the name that its properties have",
      { name: "Top", properties: { name: "Own", a: 1 } },
      { name: "Own", a: 1 },
    ],
    [
      "takes its name from the top level if the properties have a blank name",
      { name: "Top", properties: { name: "" } },
      { name: "Top" },
    ],
    [
      "has no address, because that belongs to the previous page",
      { context: { page: { url: "https://example.com" } } },
      {},
    ],
    ["nothing to fill in", { properties: { a: 1 } }, { a: 1 }],
  ])("a screen: %s", (_, more, properties) =>
    expect(normalise({ type: "screen", userId: "u-1", ...more }, undefined)).toMatchObject({
      event: "screen",
      properties,
    }),
  );
  test("any other call ignores the name at the top level", () => {
    for (const type of ["track", "group", "alias", "identify"]) {
      expect(normalise({ type, userId: "u-1", event: "A", name: "Top" }, undefined).properties).toEqual({});
    }
    expect(normalise({ event: "A", name: "Top" }, undefined).properties).toEqual({});
  });

  const traits = { email: "info@initech.com", name: "Initech", company: "Initech", title: "Ltd" };
  test("a group's traits never become the person's", () => {
    const signal = normalise({ type: "group", userId: "u-1", groupId: "g-1", traits }, undefined);
    expect(signal).toMatchObject({ event: "group", userId: "u-1", traits: {} });
    expect(signal).not.toHaveProperty("email");
  });
  test("the traits in a group's context become the person's", () => {
    const context = { traits: { email: "peter@example.com", name: "Peter Gibbons" } };
    expect(normalise({ type: "group", userId: "u-1", traits, context }, undefined)).toMatchObject({
      email: "peter@example.com",
      traits: { name: "Peter Gibbons" },
    });
  });
  test("the traits of every other call become the person's", () => {
    for (const type of ["identify", "track", "page", "screen", "alias"]) {
      expect(normalise({ type, userId: "u-1", traits }, undefined).email).toBe("info@initech.com");
    }
  });

  test.each([
    ["an id", " a-1 ", "a-1"],
    ["a number", 17, "17"],
    ["a worthless id", "anonymous", undefined],
    ["a rounded number", 2 ** 53, undefined],
    ["null", null, undefined],
    ["none", undefined, undefined],
  ])("an alias has the previous id: %s", (_, previousId, expected) => {
    const signal = normalise({ type: "alias", userId: "u-1", previousId }, undefined);
    expect(signal.previousId).toBe(expected);
    expect(Object.hasOwn(signal, "previousId")).toBe(expected !== undefined);
  });
  test("only an alias has a previous id", () => {
    for (const type of ["identify", "track", "page", "screen", "group", undefined]) {
      const signal = normalise({ type, event: "A", userId: "u-1", previousId: "a-1" }, undefined);
      expect(signal).not.toHaveProperty("previousId");
    }
  });
});

describe("§8.1 source", () => {
  const cdp = { type: "track", event: "A", userId: "u-1", source: "body" };
  const node = {
    ...cdp,
    channel: "server",
    context: { library: { name: "analytics-node", version: "3.0.13" } },
    originalTimestamp: "2026-02-23T22:28:55.111Z",
  };
  const timestamp = "2026-02-20T00:00:00.000Z";
  const receivedAt = "2026-02-23T22:28:55.387Z";
  test.each([
    ["the path's source wins", { event: "A", source: "body" }, "path", "path"],
    ["the path's source wins over the CDP's", cdp, "path", "path"],
    ["the CDP's source wins over the body's", cdp, undefined, "segment"],
    [
      "RudderStack's library",
      { ...cdp, context: { library: { name: "RudderLabs JavaScript SDK" } } },
      undefined,
      "rudderstack",
    ],
    [
      "RudderStack's library in any letter case",
      { ...cdp, context: { library: { name: "analytics-RUDDER" } } },
      undefined,
      "rudderstack",
    ],
    ["RudderStack's Node SDK, whose library does not name it", node, undefined, "rudderstack"],
    ["RudderStack's Node SDK, with a time from the caller", { ...node, timestamp }, undefined, "rudderstack"],
    [
      "RudderStack's Node SDK, forwarded",
      { ...node, timestamp, receivedAt, rudderId: "r-1" },
      undefined,
      "rudderstack",
    ],
    ["Segment's old Node SDK, forwarded", { ...node, timestamp, receivedAt }, undefined, "segment"],
    ["another library", { ...cdp, context: { library: { name: "analytics.js" } } }, undefined, "segment"],
    [
      "the library matters in CDP calls only",
      { event: "A", context: { library: { name: "rudder" } } },
      undefined,
      "unknown",
    ],
    ["the body's", { event: "A", source: " marketing-automation " }, undefined, "marketing-automation"],
    ["an empty body's", { event: "A", source: "" }, undefined, "unknown"],
    ["none", { event: "A", source: null }, undefined, "unknown"],
    ["a blank path counts as none", { event: "A", source: "body" }, " ", "body"],
  ])("%s", (_, payload, pathSource, source) => expect(normalise(payload, pathSource).source).toBe(source));
});

describe("§8.1 email", () => {
  const identify = { type: "identify", userId: "u-1" };
  const track = { type: "track", event: "A", userId: "u-1" };
  const email = "jane@example.com";
  test.each([
    ["of an identify: traits", { ...identify, traits: { email } }, email],
    ["of an identify: context.traits", { ...identify, context: { traits: { email } } }, email],
    ["traits win", { ...identify, traits: { email }, context: { traits: { email: "other@example.com" } } }, email],
    [
      "a blank email in traits does not hide it",
      { ...identify, traits: { email: "" }, context: { traits: { email } } },
      email,
    ],
    ["an identify without the trait has none", { ...identify, email, properties: { email } }, undefined],
    ["of a track: context.traits", { ...track, context: { traits: { email } } }, email],
    ["of a track: the top", { ...track, email }, email],
    ["of a track: not from the properties", { ...track, properties: { email } }, undefined],
    ["of a universal signal: the top", { event: "A", email }, email],
    ["of a universal signal: not from the properties", { event: "A", properties: { email } }, undefined],
    ["trimmed and lower-cased", { event: "A", email: " Jane@Example.com " }, email],
    ["null", { event: "A", email: null }, undefined],
    ["empty", { event: "A", email: "" }, undefined],
    ["not plausible", { ...track, traits: { email: "jane" } }, undefined],
    ["not a text", { ...track, traits: { email: 5 } }, undefined],
  ])("%s", (_, payload, expected) => expect(normalise(payload, undefined).email).toBe(expected));
});

describe("§8.3 ids", () => {
  test.each([
    ["texts", { userId: "u-1", anonymousId: " a-1 " }, { userId: "u-1", anonymousId: "a-1" }],
    ["numbers", { userId: 17, anonymousId: 42 }, { userId: "17", anonymousId: "42" }],
    ["null", { userId: null, anonymousId: null }, {}],
    ["worthless", { userId: "undefined", anonymousId: "[object Object]" }, {}],
    ["a lead id is a property, not a user id", { properties: { lead_id: 17 } }, {}],
  ])("%s", (_, ids, expected) => {
    const { userId, anonymousId } = normalise({ event: "A", ...ids }, undefined);
    expect({ userId, anonymousId }).toEqual({ userId: undefined, anonymousId: undefined, ...expected });
  });
  test("absent ids have no fields", () => {
    expect(Object.keys(normalise({ event: "A", email: "", userId: null }, undefined))).not.toEqual(
      expect.arrayContaining(["email"]),
    );
    expect("userId" in normalise({ event: "A", userId: null }, undefined)).toBe(false);
  });
  test.each([
    ["messageId", { messageId: "m" }, true],
    ["id", { id: "i" }, true],
    ["a number", { id: 0 }, true],
    ["null", { messageId: null, id: null }, false],
    ["blank", { messageId: "", id: " " }, false],
    ["an object", { id: {} }, false],
    ["another field", { userId: "u-1" }, false],
  ])("an id of the payload: %s", (_, ids, hasOwnId) =>
    expect(normalise({ event: "A", ...ids }, undefined).hasOwnId).toBe(hasOwnId),
  );
});

function traitsOf(payload: JsonObject): Traits {
  return normalise(payload, undefined).traits;
}

describe("§6 traits", () => {
  const cdp = { type: "track", event: "A", userId: "u-1" };
  test.each([
    ["company as a text", { ...cdp, traits: { company: "Initech" } }, { company: "Initech" }],
    ["company as an object", { ...cdp, traits: { company: { name: " Initech " } } }, { company: "Initech" }],
    ["company as an object without a name", { ...cdp, traits: { company: { id: 1 } } }, {}],
    [
      "only under context.traits",
      { ...cdp, context: { traits: { name: "Jane", title: "CTO" } } },
      { name: "Jane", title: "CTO" },
    ],
    [
      "field by field, traits first",
      { ...cdp, traits: { name: "Jane", title: "" }, context: { traits: { name: "J", title: "CTO" } } },
      { name: "Jane", title: "CTO" },
    ],
    ["a name in two parts", { ...cdp, traits: { firstName: "Jane", lastName: "Doe" } }, { name: "Jane Doe" }],
    ["null, blank and non-texts are absent", { ...cdp, traits: { name: null, company: " ", title: 5 } }, {}],
    ["traits that are not an object", { ...cdp, traits: "Jane", context: { traits: [] } }, {}],
    [
      "a CDP call's properties are not traits",
      { ...cdp, email: "j@example.com", properties: { title: "Intro", company: "X" } },
      {},
    ],
  ])("%s", (_, payload, traits) => expect(traitsOf(payload)).toEqual(traits));

  const properties = { lead_id: 7, first_name: "Jane", last_name: "Doe", company: "Initech", title: "CTO" };
  test("the marketing template's properties enrich the person", () => {
    expect(traitsOf({ email: "jane@example.com", event: "A", properties })).toEqual({
      name: "Jane Doe",
      company: "Initech",
      title: "CTO",
    });
    expect(
      traitsOf({ email: "jane@example.com", event: "A", properties: { first_name: "Jane", last_name: null } }),
    ).toEqual({
      name: "Jane",
    });
  });
  test("the marketing template's properties are ignored without an email", () => {
    expect(traitsOf({ event: "A", userId: "u-1", email: "", properties })).toEqual({});
  });
});

describe("any payload", () => {
  test("has its event trimmed", () =>
    expect(normalise({ event: "  Filled  Form " }, undefined).event).toBe("Filled  Form"));
  test("has empty properties if they are not an object", () => {
    for (const properties of [null, [], "x", 5, undefined]) {
      expect(normalise({ event: "A", properties }, undefined).properties).toEqual({});
    }
  });

  test("becomes a signal with an event and a source, and stays unchanged", () => {
    const key = fc.constantFrom(
      "type",
      "event",
      "email",
      "source",
      "userId",
      "anonymousId",
      "messageId",
      "id",
      "name",
      "properties",
      "traits",
      "context",
      "page",
      "url",
      "library",
      "company",
      "title",
      "first_name",
      "__proto__",
      "constructor",
      "toString",
    );
    const leaf = fc.oneof(
      fc.jsonValue(),
      fc.constantFrom("identify", "track", "page", "group", "a@b.c", " ", "", "null", "__proto__", "\ud800"),
    );
    const { object } = fc.letrec((tie) => ({
      object: fc
        .array(fc.tuple(key, fc.oneof({ maxDepth: 4 }, leaf, tie("object"))), { maxLength: 12 })
        .map((members) => {
          const text = members.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",");
          const parsed: JsonObject = JSON.parse(`{${text}}`);
          return parsed;
        }),
    }));
    fc.assert(
      fc.property(object, fc.option(fc.string(), { nil: undefined }), (payload, pathSource) => {
        const before = JSON.stringify(payload);
        const signal = normalise(payload, pathSource);
        expect(signal.event.trim()).not.toBe("");
        expect(signal.source.trim()).not.toBe("");
        expect(signal.properties).toBeTypeOf("object");
        for (const text of Object.values(signal.traits)) expect(text).toBeTypeOf("string");
        expect(JSON.stringify(payload)).toBe(before);
      }),
      { numRuns: 500 },
    );
  });
});
