/** Spec §6, design §8.1, with the payloads of real senders. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cdpCallType, emailProblemOf, idProblemOf, normalise } from "../../../../src/domain/signal/normalise.ts";
import type { JsonObject } from "../../../../src/domain/json/json-value.ts";

const normalised = (payload: JsonObject, pathSource?: string) => normalise(payload, pathSource);
const call = (type: string, more: JsonObject = {}) => ({ type, userId: "u-1", ...more });
const track = call("track", { event: "A" });

describe("§6 the type of a CDP's call", () => {
  test.each<[JsonObject, string | undefined]>([
    [{ type: "track", anonymousId: "a", messageId: "m" }, "track"],
    [{ type: "charge", anonymousId: "a", messageId: "m" }, "charge"],
    [{ type: "page", messageId: "m" }, "page"],
    [{ type: "screen", anonymousId: "a" }, "screen"],
    [{ type: "identify", userId: "u", anonymousId: null }, "identify"],
    [{ type: "group", userId: 17 }, "group"],
    [{ type: " Identify", userId: "u" }, "identify"],
    [{ type: "TRACK", anonymousId: "a", messageId: "m" }, "track"],
    [{ type: "Charge", anonymousId: "a", messageId: "m" }, "Charge"],
    [{ type: "track", event: "A" }, undefined],
    [{ type: "track", userId: null, anonymousId: null, messageId: "" }, undefined],
    [{ type: "webinar", messageId: "m" }, undefined],
    [{ type: "constructor", messageId: "m" }, undefined],
    [{ messageId: "m", anonymousId: "a", userId: "u" }, undefined],
    [{ type: 1, messageId: "m", anonymousId: "a" }, undefined],
    [{ type: " ", messageId: "m", anonymousId: "a" }, undefined],
  ])("of %j is %s", (payload, callType) => expect(cdpCallType(payload)).toBe(callType));
});

describe("§6 a call as a CDP delivers it", () => {
  test("becomes an identify with ids, email and traits", () => {
    const sent = `{"type":"identify","messageId":"022bb90c-bbac-11e4-8dfc-aa07a5b093db","anonymousId":"507f191e810c19729de860ea","userId":"97980cfea0067","traits":{"email":"peter@example.com","name":"Peter Gibbons","company":{"name":"Initech"},"title":"Engineer"},"context":{"ip":"8.8.8.8"},"timestamp":"2026-02-23T22:28:55.111Z","sentAt":"2026-02-23T22:28:55.111Z","receivedAt":"2026-02-23T22:28:55.387Z","version":"1.1"}`;
    expect(normalised(JSON.parse(sent) as JsonObject)).toEqual({
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

  test("becomes a page view with the name from the top level", () => {
    const sent = `{"type":"page","messageId":"022bb90d","anonymousId":"507f191e810c19729de860ea","name":"Home","properties":{"title":"Welcome","url":"https://example.com"},"timestamp":"2026-02-23T22:28:55.111Z"}`;
    expect(normalised(JSON.parse(sent) as JsonObject)).toEqual({
      kind: "signal",
      event: "Page Viewed",
      source: "segment",
      anonymousId: "507f191e810c19729de860ea",
      hasOwnId: true,
      properties: { title: "Welcome", url: "https://example.com", name: "Home" },
      traits: {},
    });
  });

  test("of an unknown type keeps the name of its event", () => {
    const sent = { type: "audiencelist", event: "Row Upserted", messageId: "m", anonymousId: "a" };
    expect(normalised(sent).event).toBe("Row Upserted");
    expect(normalised({ ...sent, event: "" }).event).toBe("audiencelist");
  });

  test("has one event and one source for names that look the same", () => {
    const [composed, decomposed] = ["Caf\u00e9", "Cafe\u0301"].map((event) => normalised({ event, source: event }));
    expect([decomposed?.event, decomposed?.source]).toEqual([composed?.event, composed?.source]);
  });

  test.each(["screen", "group", "alias"])("has the event %s", (event) =>
    expect(normalised(call(event, { event: "ignored" }))).toMatchObject({ kind: "signal", event }),
  );
});

describe("§8.1 the properties", () => {
  const context = { page: { url: "https://example.com/c" } };
  const sent = { name: "P", url: "https://example.com/p" };
  const blank = { name: null, url: " " };
  const filled = { name: "Top", url: "https://example.com/c" };
  test.each<[JsonObject, JsonObject]>([
    [call("page", { context }), { url: "https://example.com/c" }],
    [call("page", { name: "Top", context, properties: sent }), sent],
    [call("page", { name: "Top", context, properties: blank }), filled],
    [call("page", { category: "Docs", name: "Top" }), { category: "Docs", name: "Top" }],
    [call("screen", { category: "Docs", properties: { category: "Own" } }), { category: "Own" }],
    [call("page", { name: "", context: { page: null } }), {}],
    [call("page", { name: "Top", properties: ["x"] }), { name: "Top" }],
    [call("screen", { name: " Home " }), { name: "Home" }],
    [call("screen", { name: "Top", properties: { name: "P" } }), { name: "P" }],
    // The address belongs to the page before.
    [call("screen", { context }), {}],
    [call("screen", { properties: { a: 1 } }), { a: 1 }],
    ...["track", "group", "alias", "identify"].map((type): [JsonObject, JsonObject] => [
      call(type, { event: "A", name: "Top" }),
      {},
    ]),
    [{ event: "A", name: "Top" }, {}],
    ...[null, [], "x", 5].map((properties): [JsonObject, JsonObject] => [{ event: "A", properties }, {}]),
  ])("of %j are %j", (payload, properties) => {
    const before = structuredClone(payload);
    expect(normalised(payload).properties).toEqual(properties);
    expect(payload).toEqual(before);
  });

  test("keep hostile keys", () => {
    const properties = JSON.parse(`{"__proto__":{"url":"evil"}}`) as JsonObject;
    const found = normalised(call("page", { name: "Top", properties })).properties;
    expect(Object.keys(found).toSorted()).toEqual(["__proto__", "name"]);
    expect(Object.getPrototypeOf(found)).toBe(Object.prototype);
  });
});

describe("§8.1 the source", () => {
  const cdp = { ...track, source: "body" };
  const library = (name: string) => ({ ...cdp, context: { library: { name } } });
  const node = { ...library("analytics-node"), channel: "server", originalTimestamp: "2026-02-23T22:28:55.111Z" };
  const timestamp = "2026-02-20T00:00:00.000Z";
  const receivedAt = "2026-02-23T22:28:55.387Z";
  test.each<[JsonObject, pathSource: string | undefined, source: string]>([
    [{ event: "A", source: "body" }, "path", "path"],
    [cdp, "path", "path"],
    [{ event: "A", source: "body" }, " ", "body"],
    [cdp, undefined, "segment"],
    [library("RudderLabs JavaScript SDK"), undefined, "rudderstack"],
    [library("analytics-RUDDER"), undefined, "rudderstack"],
    // RudderStack's Node SDK does not name itself.
    [node, undefined, "rudderstack"],
    [{ ...node, timestamp }, undefined, "rudderstack"],
    [{ ...node, timestamp, receivedAt, rudderId: "r-1" }, undefined, "rudderstack"],
    [{ ...node, timestamp, receivedAt }, undefined, "segment"],
    [library("analytics.js"), undefined, "segment"],
    [{ event: "A", context: { library: { name: "rudder" } } }, undefined, "unknown"],
    [{ event: "A", source: " marketing-automation " }, undefined, "marketing-automation"],
    [{ event: "A", source: "" }, undefined, "unknown"],
    [{ event: "A", source: null }, undefined, "unknown"],
  ])("of %j on the path %s is %s", (payload, pathSource, source) =>
    expect(normalised(payload, pathSource).source).toBe(source),
  );
});

describe("§8.1 the email", () => {
  const identify = call("identify");
  const email = "jane@example.com";
  const secondEmail = { traits: { email: "other@example.com" } };
  const group = call("group", { groupId: "g-1", traits: { email, name: "Initech" } });
  test.each<[JsonObject, string | undefined]>([
    [{ ...identify, traits: { email } }, email],
    [{ ...identify, context: { traits: { email } } }, email],
    [{ ...identify, traits: { email }, context: secondEmail }, email],
    [{ ...identify, traits: { email: "" }, context: { traits: { email } } }, email],
    [{ ...identify, email, properties: { email } }, undefined],
    ...["track", "page", "screen", "alias"].flatMap((type): [JsonObject, string][] => [
      [call(type, { traits: { email } }), email],
      [call(type, { context: { traits: { email } } }), email],
      [call(type, { email }), email],
    ]),
    [{ ...track, properties: { email } }, undefined],
    [group, undefined],
    [{ ...group, context: secondEmail }, "other@example.com"],
    [{ event: "A", email: " Jane@Example.com " }, email],
    [{ event: "A", properties: { email } }, undefined],
    [{ event: "A", email: null }, undefined],
    [{ ...track, traits: { email: "jane" } }, undefined],
    [{ ...track, traits: { email: 5 } }, undefined],
  ])("of %j is %s", (payload, expected) => {
    const signal = normalised(payload);
    expect(signal.email).toBe(expected);
    expect(Object.hasOwn(signal, "email")).toBe(expected !== undefined);
  });
});

test.each<[unknown, boolean]>([
  [{ event: "A", email: "jane" }, true],
  [{ event: "A", email: "jane@example.com" }, false],
  [{ event: "A" }, false],
  [{ ...track, traits: { email: "jane" }, context: { traits: { email: 5 } } }, true],
  [{ ...track, traits: { email: "jane" }, email: "jane@example.com" }, false],
  // The email of an identify is a trait.
  [call("identify", { email: "jane" }), false],
  ["no object", false],
])("§8.1 %j has a problem with its email: %s", (payload, hasProblem) => {
  expect(emailProblemOf(payload)).toEqual(hasProblem ? "Its email is not an email address, so it names nobody." : null);
});

test("every id of a payload that names nobody is explained", () => {
  const sent = { userId: "null", anonymousId: "{}", previousId: "undefined" };
  const names = (payload: JsonObject) => [...(idProblemOf(payload) ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => name);
  expect(names({ event: "A", ...sent })).toEqual(["userId", "anonymousId"]);
  expect(names(call("alias", sent))).toEqual(["userId", "anonymousId", "previousId"]);
  expect(idProblemOf({ event: "A", userId: "u-1", anonymousId: null })).toBeNull();
});

describe("§8.3 ids", () => {
  test.each<[JsonObject, object]>([
    [
      { userId: "u-1", anonymousId: " a-1 " },
      { userId: "u-1", anonymousId: "a-1" },
    ],
    [
      { userId: 17, anonymousId: 42 },
      { userId: "17", anonymousId: "42" },
    ],
    [{ userId: null, anonymousId: null }, {}],
    [{ userId: "undefined", anonymousId: "[object Object]" }, {}],
    [{ properties: { lead_id: 17 } }, {}],
    [call("alias", { previousId: " a-1 " }), { userId: "u-1", previousId: "a-1" }],
    [call("alias", { previousId: 17 }), { userId: "u-1", previousId: "17" }],
    [call("alias", { previousId: "anonymous" }), { userId: "u-1" }],
    ...["identify", "track", "page", "screen", "group"].map((type): [JsonObject, object] => [
      call(type, { previousId: "a-1" }),
      { userId: "u-1" },
    ]),
  ])("of %j are %j", (payload, ids) => {
    const { userId, anonymousId, previousId } = normalised({ event: "A", ...payload });
    expect(JSON.parse(JSON.stringify({ userId, anonymousId, previousId }))).toEqual(ids);
  });

  test.each<[JsonObject, boolean]>([
    [{ messageId: "m" }, true],
    [{ id: "i" }, true],
    [{ id: 0 }, true],
    [{ messageId: null, id: null }, false],
    [{ messageId: "", id: " " }, false],
    [{ id: {} }, false],
    [{ userId: "u-1" }, false],
  ])("are the payload's own in %j: %s", (ids, hasOwnId) =>
    expect(normalised({ event: "A", ...ids }).hasOwnId).toBe(hasOwnId),
  );
});

describe("§6 the traits", () => {
  const email = "jane@example.com";
  const template = { lead_id: 7, first_name: "Jane", last_name: "Doe", company: "Initech", title: "CTO" };
  const context = { traits: { name: "Jane", title: "CTO" } };
  test.each<[JsonObject, object]>([
    [{ ...track, traits: { company: "Initech" } }, { company: "Initech" }],
    [{ ...track, traits: { company: { name: " Initech " } } }, { company: "Initech" }],
    [{ ...track, traits: { company: { id: 1 } } }, {}],
    [
      { ...track, context },
      { name: "Jane", title: "CTO" },
    ],
    [
      { ...track, traits: { name: "J.", title: "" }, context },
      { name: "J.", title: "CTO" },
    ],
    [{ ...track, traits: { firstName: "Jane", lastName: "Doe" } }, { name: "Jane Doe" }],
    [
      { ...track, traits: { firstname: "Jane", lastname: "Doe", jobtitle: "CTO" } },
      { name: "Jane Doe", title: "CTO" },
    ],
    [{ ...track, traits: { first_name: "Jane", last_name: "Doe" } }, { name: "Jane Doe" }],
    [
      { email, event: "A", properties: { firstname: "Jane", lastname: "Doe", jobtitle: "CTO" } },
      { name: "Jane Doe", title: "CTO" },
    ],
    [
      { email, event: "A", properties: { firstName: "Jane", lastName: "Doe", title: "CTO" } },
      { name: "Jane Doe", title: "CTO" },
    ],
    [{ ...track, traits: { name: null, company: " ", title: 5 } }, {}],
    [{ ...track, traits: "Jane", context: { traits: [] } }, {}],
    [call("group", { traits: { name: "Initech" } }), {}],
    [{ ...track, email, properties: { title: "Intro", company: "X" } }, {}],
    [
      { email, event: "A", properties: template },
      { name: "Jane Doe", company: "Initech", title: "CTO" },
    ],
    [{ email, event: "A", properties: { first_name: "Jane", last_name: null } }, { name: "Jane" }],
    [{ event: "A", userId: "u-1", email: "", properties: template }, {}],
    [{ email, event: "A", properties: { title: "Intro" } }, {}],
    ...["lead_id", "first_name", "last_name", "company"].map((field): [JsonObject, object] => [
      { email, event: "A", properties: { [field]: 7, title: "CTO" } },
      { title: "CTO" },
    ]),
  ])("of %j are %j", (payload, traits) => expect(normalised(payload).traits).toEqual(traits));
});

describe("§8.7 the account", () => {
  test.each<[JsonObject, object]>([
    [call("group", { groupId: "acme", traits: { plan: "pro" } }), { account: "acme", groupTraits: { plan: "pro" } }],
    [call("group", { groupId: "acme" }), { account: "acme" }],
    [call("group", { traits: { plan: "pro" } }), {}],
    [call("identify", { traits: { company: { id: 7 } } }), { account: "7" }],
    [call("identify", { context: { traits: { company: { id: "acme" } } } }), { account: "acme" }],
    [{ ...track, traits: { company: { id: "acme" } } }, {}],
  ])("of %j is %j", (payload, expected) => {
    const { traits, groupTraits } = normalised(payload);
    expect(JSON.parse(JSON.stringify({ account: traits.account, groupTraits }))).toEqual(expected);
  });
});

describe("any payload", () => {
  test("has its event trimmed", () => expect(normalised({ event: "  Filled  Form " }).event).toBe("Filled  Form"));

  test("becomes a signal with an event and a source, and stays unchanged", () => {
    const names =
      "type event email source userId anonymousId messageId id name properties traits context page url library company " +
      "title first_name __proto__ constructor toString";
    const key = fc.constantFrom(...names.split(" "));
    const leaf = fc.oneof(
      fc.jsonValue(),
      fc.constantFrom("identify", "track", "page", "group", "a@b.c", " ", "", "null", "__proto__", "\ud800"),
    );
    const { object } = fc.letrec((tie) => ({
      object: fc
        .array(fc.tuple(key, fc.oneof({ maxDepth: 4 }, leaf, tie("object"))), { maxLength: 12 })
        .map((members) => {
          const text = members.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",");
          return JSON.parse(`{${text}}`) as JsonObject;
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
