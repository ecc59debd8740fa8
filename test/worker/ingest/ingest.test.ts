/** Spec §2.2, §4, §6, §7, §8.9 and design §9: accepted calls in all forms, and their answers. */
import { describe, expect, test } from "vitest";
import { readStore } from "../../support/read-store.ts";
import { call, gzip, newWorkspace, problemOf, type BatchAnswer, type TestWorkspace } from "../../support/workspace.ts";

const WEBHOOK = "/api/signal-staging/webhook/{key}";
const FROM_SOURCE = "/api/signal-staging/webhook/web/{key}";
const BATCH = "/api/signal-staging/webhook/{key}/batch";
const BULK = "/api/signal-staging/bulk/{key}";
const PRODUCT_ORGS = "/api/product-orgs/webhook/{key}";
const SIGNAL_ID = /^sig_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const MB = 1024 * 1024;
const TEMPLATE = [{ target: "external_id", path: "id", type: "string" }];

/** Bodies of docs/senders.md, as the senders write them. */
const IDENTIFY = `{"type":"identify","messageId":"022bb90c-bbac-11e4-8dfc-aa07a5b093db","anonymousId":"507f191e810c19729de860ea","userId":"97980cfea0067","traits":{"email":"peter@example.com","name":"Peter Gibbons","company":{"name":"Initech"},"title":"Engineer"},"context":{"ip":"8.8.8.8"},"timestamp":"2026-02-23T22:28:55.111Z","sentAt":"2026-02-23T22:28:55.111Z","receivedAt":"2026-02-23T22:28:55.387Z","version":"1.1"}`;
const TRACK = `{"type":"track","messageId":"ajs-f8ca1e4de5024d9430b3928bd8ac6b96","anonymousId":"23adfd82-aa0f-45a7-a756-24f2a7a4c895","event":"Course Clicked","properties":{"title":"Intro to Analytics"},"context":{"page":{"path":"/academy/","url":"https://example.com/academy/"}},"originalTimestamp":"2026-02-12T19:11:01.152Z","timestamp":"2026-02-12T19:11:01.249Z"}`;
const PAGE = `{"type":"page","messageId":"022bb90d","anonymousId":"507f191e810c19729de860ea","name":"Home","properties":{"title":"Welcome","url":"https://example.com"},"timestamp":"2026-02-23T22:28:55.111Z"}`;
const FORM = `{ "email": "jane@example.com", "event": "Filled Out Form", "source": "marketing-automation",
  "properties": { "lead_id": 1042, "first_name": "Jane", "company": "Acme & Sons", "title": null } }`;

const signal = (event: unknown = "x", more: object = {}) => ({ event, ...more });
const utf8 = (text: string) => new TextEncoder().encode(text);

async function rejectionOf(response: Response): Promise<[number, string]> {
  const { type, status, code } = await problemOf(response);
  expect(response.status).toBe(status);
  expect(type).toBe(`/docs/senders/codes#${code}`);
  return [status, code];
}

async function idOf(response: Response): Promise<string> {
  expect(response.status).toBe(202);
  const { id } = await response.json<{ id: string }>();
  return id;
}

/** Payload texts in the store by signal id, byte for byte. */
async function storedTexts(workspace: TestWorkspace): Promise<Map<string, string | null>> {
  await workspace.settled();
  return readStore(workspace.id, ({ signals }) => {
    const texts = new Map<string, string | null>();
    for (const portion of signals.walk({ after: 0 })) {
      const payloads = signals.payloadsOf(portion) ?? [];
      for (const [index, payload] of payloads.entries()) {
        texts.set(portion.facts(portion.firstSeq + index).admission.id, payload);
      }
    }
    return texts;
  });
}

const accepted = async (workspace: TestWorkspace) =>
  (await workspace.operator<{ accepted: number }>("GET", "/usage")).accepted;

describe("§4: the five endpoints", () => {
  test.each([
    ["the universal webhook", WEBHOOK],
    ["a source's webhook", FROM_SOURCE],
    ["the batch endpoint", BATCH],
    ["the bulk endpoint", BULK],
  ])("%s takes a signal, an array and an envelope, and answers with ids that lead to them", async (_name, path) => {
    const workspace = await newWorkspace();
    const response = await workspace.send(FORM, { path });
    expect([response.status, response.headers.get("content-type")]).toEqual([202, "application/json"]);
    const body = await response.json<{ status: string; id: string }>();
    expect(body).toEqual({ status: "accepted", id: expect.stringMatching(SIGNAL_ID) });

    const ids = [body.id];
    for (const several of [`[${TRACK},${PAGE}]`, `{"batch":[${IDENTIFY},${signalText("y")}],"sentAt":"2026"}`]) {
      const answer = await workspace.send(several, { path });
      expect(answer.status).toBe(202);
      const { results, ...counts } = await answer.json<BatchAnswer>();
      expect(counts).toEqual({ status: "accepted", accepted: 2, held: 0, rejected: 0 });
      expect(results).toEqual([
        { index: 0, status: "accepted", id: expect.stringMatching(SIGNAL_ID) },
        { index: 1, status: "accepted", id: expect.stringMatching(SIGNAL_ID) },
      ]);
      ids.push(...results.map((result) => result.id ?? ""));
    }
    const stored = await storedTexts(workspace);
    expect(ids.map((id) => stored.get(id))).toEqual([FORM, TRACK, PAGE, IDENTIFY, signalText("y")]);
    expect(await workspace.books()).toMatchObject({ accepted: 5, processed: 5, balanced: true });
  });

  test("store product org calls with the sent body and count them", async () => {
    const workspace = await newWorkspace({ key: { endpoint_type: "product_org", payload_template: TEMPLATE } });
    const update = `{"id":"acme","plan":"pro","seats":9007199254740993, "flags":{"beta":true}}`;
    const id = await idOf(await workspace.send(update, { path: PRODUCT_ORGS }));
    const several = await workspace.send([{ id: "a1" }, { id: "b1" }], { path: PRODUCT_ORGS });
    expect(await several.json()).toMatchObject({ status: "accepted", accepted: 2 });
    expect((await storedTexts(workspace)).get(id)).toBe(update);
    expect(await workspace.operator("GET", `/signals/${id}`)).toMatchObject({ endpoint: "product_org" });
    expect(await accepted(workspace)).toBe(3);
    expect(await rejectionOf(await workspace.send("7", { path: PRODUCT_ORGS }))).toEqual([422, "signal_not_object"]);
  });

  test("accept a trailing slash", async () => {
    const workspace = await newWorkspace();
    for (const path of [WEBHOOK, FROM_SOURCE, BATCH, BULK]) {
      expect((await workspace.send(signal(), { path: `${path}/` })).status, path).toBe(202);
    }
    expect((await workspace.send(signal(), { path: `${PRODUCT_ORGS}/` })).status).toBe(403);
  });

  test("treat `batch` after a key as the batch endpoint and text before a key as the source", async () => {
    const workspace = await newWorkspace();
    const viaBatch = await idOf(await workspace.send(signal("a"), { path: BATCH }));
    const viaSource = await idOf(
      await workspace.send(signal("b"), { path: "/api/signal-staging/webhook/batch/{key}" }),
    );
    await workspace.settled();
    expect(await workspace.operator("GET", `/signals/${viaBatch}`)).toMatchObject({ source: "unknown" });
    expect(await workspace.operator("GET", `/signals/${viaSource}`)).toMatchObject({ source: "batch" });
  });
});

test("§1: turns a signal into points of a person", async () => {
  const workspace = await newWorkspace();
  const conditions = [{ path: "properties.company", operator: "contains", value: "acme" }];
  const rule = { name: "forms", event: "Filled Out Form", conditions, scoring_signal: "form", points: 15 };
  await workspace.operator("POST", "/rules", rule);
  const id = await idOf(await workspace.send(FORM));
  expect(await workspace.settled()).toMatchObject({ accepted: 1, processed: 1, balanced: true });
  const items = await workspace.list("/people?email=jane@example.com");
  expect(items).toMatchObject([{ email: "jane@example.com", score: 15, scoring_signals: [{ signal_id: id }] }]);
});

describe("§4: {source}", () => {
  test("is rejected if it is empty, too long, or an API key", async () => {
    const workspace = await newWorkspace();
    const otherKey = await workspace.newKey();
    const from = (source: string) => workspace.send(signal(), { path: `/api/signal-staging/webhook/${source}/{key}` });
    expect((await from("ü".repeat(255))).status).toBe(202);
    for (const source of ["%20", "x".repeat(256), workspace.key.key, otherKey.key, `%20${otherKey.key}x`]) {
      expect(await rejectionOf(await from(source)), source).toEqual([422, "source_invalid"]);
    }
    const { detail } = await problemOf(await from("a%1Fb"));
    expect(detail).toBe("The source in the path has the control character U+001F at position 2. Remove it.");
    expect(await accepted(workspace)).toBe(1);
  });

  test("is decoded; without it the body's source or the CDP's name counts", async () => {
    const workspace = await newWorkspace();
    const sourceOf = async (body: unknown, path = WEBHOOK) => {
      const id = await idOf(await workspace.send(body, { path }));
      await workspace.settled();
      return (await workspace.operator<{ source: string }>("GET", `/signals/${id}`)).source;
    };
    const path = "/api/signal-staging/webhook/Acme%20Forms%20%26%20S%C3%B6hne%2F%092/{key}";
    expect(await sourceOf(signal("x", { source: "body" }), path)).toBe("Acme Forms & Söhne/\t2");
    expect(await sourceOf(FORM)).toBe("marketing-automation");
    expect(await sourceOf(TRACK)).toBe("segment");
    expect(await sourceOf({ ...JSON.parse(PAGE), context: { library: { name: "RudderLabs" } } })).toBe("rudderstack");
  });
});

describe("§4, design §9: several signals in one call", () => {
  test("accept thousands of events of a CDP at the single-signal URL", async () => {
    const workspace = await newWorkspace();
    const events = Array.from({ length: 4_000 }, (_, n) => ({ ...JSON.parse(TRACK), messageId: `m-${n}`, n }));
    const response = await workspace.send(events);
    expect(response.status).toBe(202);
    const { results, ...counts } = await response.json<BatchAnswer>();
    expect(counts).toEqual({ status: "accepted", accepted: 4_000, held: 0, rejected: 0 });
    expect(results.map((result) => result.index)).toEqual(events.map((_, n) => n));
    const stored = await storedTexts(workspace);
    expect(results.map(({ id }) => JSON.parse(stored.get(id ?? "") ?? "{}").n)).toEqual(events.map((_, n) => n));
    expect(await workspace.books()).toMatchObject({ accepted: 4_000, processed: 4_000, balanced: true });
  });

  test("accept a line per signal in bulk only, and reject only the broken line", async () => {
    const workspace = await newWorkspace();
    const lines = [TRACK, "", PAGE.replace("}", ""), '{"event":"a","properties":{"id":9007199254740993}}\r', "  "];
    const response = await workspace.send(lines.join("\n"), {
      path: BULK,
      headers: { "content-type": "application/x-ndjson" },
    });
    expect(response.status).toBe(202);
    const { results, ...counts } = await response.json<BatchAnswer>();
    expect(counts).toEqual({ status: "partial", accepted: 2, held: 0, rejected: 1 });
    expect(results.map(({ index, status }) => [index, status])).toEqual([
      [0, "accepted"],
      [1, "rejected"],
      [2, "accepted"],
    ]);
    expect(results[1]).toMatchObject({
      code: "signal_not_json",
      detail: expect.stringContaining("at line 3, column "),
    });
    const stored = await storedTexts(workspace);
    expect(stored.get(results[0]?.id ?? "")).toBe(TRACK);
    expect(JSON.stringify([...stored.values()])).toContain("9007199254740993");
    const detail = expect.stringMatching(/line 2, column 1 .*bulk endpoint/);
    const elsewhere = await problemOf(await workspace.send(`${TRACK}\n${PAGE}`, { path: BATCH }));
    expect(elsewhere).toMatchObject({ status: 400, code: "body_not_json", detail });
  });

  test("keep good items beside bad ones and report each", async () => {
    const workspace = await newWorkspace();
    const bad: [unknown, string][] = [
      [signal(" "), "event_missing"],
      [signal("x", { email: "jane@" }), "email_invalid"],
      [{ type: "track", messageId: "m" }, "event_missing"],
      [null, "signal_not_object"],
      [signal("x", { properties: nested(32) }), "signal_too_deep"],
      [signal("x", { properties: { a: "x".repeat(65_536) } }), "signal_too_large"],
    ];
    const items = [signal("first"), ...bad.map(([item]) => item), signal("last")];
    const response = await workspace.send(items, { path: BATCH });
    expect(response.status).toBe(202);
    const { results, ...counts } = await response.json<BatchAnswer>();
    expect(counts).toEqual({ status: "partial", accepted: 2, held: 0, rejected: bad.length });
    expect(results.map((result) => result.index)).toEqual(items.map((_, index) => index));
    expect(results.map((result) => result.code ?? result.status)).toEqual([
      "accepted",
      ...bad.map(([, code]) => code),
      "accepted",
    ]);
    for (const { detail } of results.slice(1, -1)) expect(detail).toMatch(/^.{20,}[.]$/s);
    expect([...(await storedTexts(workspace)).values()]).toEqual(['{"event":"first"}', '{"event":"last"}']);
  });

  test("have the status of the first item if no item is kept", async () => {
    const workspace = await newWorkspace();
    const large = signal("x", { properties: { a: "x".repeat(65_536) } });
    const first = await workspace.send([signal(""), large], { path: BATCH });
    expect(await problemOf(first)).toMatchObject({
      status: 422,
      code: "event_missing",
      accepted: 0,
      held: 0,
      rejected: 2,
      results: [
        { index: 0, status: "rejected", code: "event_missing" },
        { index: 1, status: "rejected", code: "signal_too_large" },
      ],
    });
    expect(await rejectionOf(await workspace.send([large, signal("")], { path: BATCH }))).toEqual([
      413,
      "signal_too_large",
    ]);
    expect(await accepted(workspace)).toBe(0);
  });

  test("have status 429 if no item is kept and any was rejected for quota", async () => {
    const workspace = await newWorkspace({ signalLimit: 1 });
    await workspace.send([signal("a"), signal("b")]);
    const response = await workspace.send([signal(""), signal("c")]);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await problemOf(response)).toMatchObject({
      status: 429,
      code: "extra_room_exceeded",
      results: [
        { index: 0, code: "event_missing" },
        { index: 1, code: "extra_room_exceeded" },
      ],
    });
  });

  test("return results for an array of one, and treat an object with an event name as one signal", async () => {
    const workspace = await newWorkspace();
    expect(await (await workspace.send([signal()])).json()).toMatchObject({ accepted: 1, results: [{ index: 0 }] });
    const carrying = await workspace.send(signal("x", { batch: [1, 2] }));
    expect(await carrying.json()).toEqual({ status: "accepted", id: expect.any(String) });
  });
});

describe("design §9: the body decides, not its label", () => {
  test("accepts JSON with any label", async () => {
    const workspace = await newWorkspace();
    for (const type of [
      "application/json; charset=utf-8",
      "text/plain;charset=utf-16",
      "application/octet-stream",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "no type at all",
    ]) {
      expect((await workspace.send(FORM, { headers: { "content-type": type } })).status, type).toBe(202);
    }
  });

  test("accepts JSON without a label, with and without a length, and after a byte order mark", async () => {
    const workspace = await newWorkspace();
    const path = WEBHOOK.replace("{key}", workspace.key.key);
    const post = (body: BodyInit, headers: Record<string, string> = {}) =>
      call(path, { method: "POST", body, headers });
    expect((await post(utf8(FORM))).status).toBe(202);
    expect((await post(utf8(FORM), { "content-length": String(utf8(FORM).length) })).status).toBe(202);
    expect((await post(new Blob([FORM]).stream())).status).toBe(202);
    expect((await post(utf8(`\ufeff${FORM}`))).status).toBe(202);
    expect((await post(utf8(`\ufeff${FORM}`), { "content-length": "9999" })).status).toBe(202);
    await workspace.settled();
  });

  test("answers 415 for labelled text that is not JSON, otherwise 400", async () => {
    const workspace = await newWorkspace();
    const form = "email=jane%40example.com&event=x";
    const labelled = (type: string) => workspace.send(form, { headers: { "content-type": type } });
    for (const type of ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/xml"]) {
      expect(await problemOf(await labelled(type)), type).toMatchObject({
        status: 415,
        code: "media_type_unsupported",
        detail: expect.stringContaining("form-encoded"),
      });
    }
    for (const type of ["application/json", "text/plain", "application/octet-stream", "application/vnd.api+json"]) {
      expect(await rejectionOf(await labelled(type)), type).toEqual([400, "body_not_json"]);
    }
    const path = WEBHOOK.replace("{key}", workspace.key.key);
    expect(await rejectionOf(await call(path, { method: "POST", body: utf8(form) }))).toEqual([400, "body_not_json"]);
  });

  test("unpacks gzip, and answers 415 for other encodings", async () => {
    const workspace = await newWorkspace();
    for (const encoding of ["gzip", "x-gzip", "GZIP", " gzip "]) {
      const text = signalText(encoding);
      const id = await idOf(await workspace.send(await gzip(text), { headers: { "content-encoding": encoding } }));
      expect((await storedTexts(workspace)).get(id), encoding).toBe(text);
    }
    for (const encoding of ["br", "deflate", "zstd", "gzip, gzip"]) {
      const response = await workspace.send(FORM, { headers: { "content-encoding": encoding } });
      expect(response.headers.get("accept-encoding")).toBe("gzip");
      expect(await rejectionOf(response), encoding).toEqual([415, "content_encoding_unsupported"]);
    }
  });

  test("reads gzip of several members as one body and adds up their sizes", async () => {
    const workspace = await newWorkspace();
    const headers = { "content-encoding": "gzip" };
    const members = await Promise.all([TRACK.slice(0, 40), TRACK.slice(40), ""].map(gzip));
    const joined = new Uint8Array(await new Blob(members).arrayBuffer());
    const id = await idOf(await workspace.send(joined, { headers }));
    expect((await storedTexts(workspace)).get(id)).toBe(TRACK);
    // The last one, which is charged first, is less than what the workspace may send beside others.
    const third = await gzip(" ".repeat(3 * MB));
    const tooLarge = new Uint8Array(await new Blob([third, third, third]).arrayBuffer());
    expect(await rejectionOf(await workspace.send(tooLarge, { headers }))).toEqual([413, "body_too_large"]);
  });

  /** A signal of this many bytes. */
  const sized = (bytes: number) => `{"event":"x","padding":"${"x".repeat(bytes - 26)}"}`;

  test("does not count a byte order mark", async () => {
    const workspace = await newWorkspace();
    const largest = sized(65_536);
    for (const body of [`\ufeff${largest}`, `\ufeff${largest.replace("xx", "é")}`]) {
      expect((await workspace.send(utf8(body))).status).toBe(202);
      expect((await workspace.send(await gzip(body), { headers: { "content-encoding": "gzip" } })).status).toBe(202);
    }
    const { detail } = await problemOf(await workspace.send(utf8(`\ufeff${sized(65_537)}`)));
    expect(detail).toContain("65537 bytes");
  });

  test("answers 400 for a broken or truncated gzip body", async () => {
    const workspace = await newWorkspace();
    const headers = { "content-encoding": "gzip" };
    for (const body of [utf8(FORM), (await gzip(FORM)).slice(0, 60)]) {
      expect(await rejectionOf(await workspace.send(body, { headers }))).toEqual([400, "body_unreadable"]);
    }
    expect((await workspace.send("", { headers: { "content-encoding": "identity" } })).status).toBe(400);
  });
});

test("design §9: explains invalid JSON, and has separate codes for bodies without signals", async () => {
  const workspace = await newWorkspace();
  expect(await problemOf(await workspace.send(`{ "event": "x",\n  "company": Acme & Sons }`))).toMatchObject({
    status: 400,
    code: "body_not_json",
    detail: expect.stringMatching(/line 2, column 14 \(character 30\).*Request Token Encoding/s),
  });
  const path = WEBHOOK.replace("{key}", workspace.key.key);
  expect(await rejectionOf(await call(path, { method: "POST" }))).toEqual([400, "body_empty"]);
  for (const body of ["", " \n\t "]) expect(await rejectionOf(await workspace.send(body))).toEqual([400, "body_empty"]);
  for (const body of ["[]", '{"batch":[]}']) {
    expect(await rejectionOf(await workspace.send(body))).toEqual([422, "batch_empty"]);
  }
  expect(await rejectionOf(await workspace.send("null"))).toEqual([422, "signal_not_object"]);
});

describe("§8.9: limits", () => {
  test("allow a signal of 65,536 bytes, with any characters", async () => {
    const workspace = await newWorkspace();
    const sized = (bytes: number, character: string) => {
      const width = utf8(character).length;
      const [head, tail] = ['{"event":"x","properties":{"a":"', '"}}'];
      const fill = bytes - head.length - tail.length;
      return head + character.repeat(Math.floor(fill / width)) + "x".repeat(fill % width) + tail;
    };
    for (const character of ["x", "é", "€", "𝒳"]) {
      const [fits, exceeds] = [sized(65_536, character), sized(65_537, character)];
      expect(utf8(fits)).toHaveLength(65_536);
      for (const path of [WEBHOOK, BULK]) expect((await workspace.send(fits, { path })).status, character).toBe(202);
      expect(await rejectionOf(await workspace.send(exceeds)), character).toEqual([413, "signal_too_large"]);
      const both = await workspace.send(`[${exceeds}, ${fits}]`);
      expect((await both.json<BatchAnswer>()).results.map((result) => result.status)).toEqual(["rejected", "accepted"]);
    }
    await workspace.settled();
  });

  test("are UTF-8, so that two signals of another encoding do not become one", async () => {
    const workspace = await newWorkspace();
    const cityOf = (byte: number) => {
      const [head, tail] = [utf8('{"event":"x","properties":{"city":"M'), utf8('nchen"}}')];
      return Uint8Array.from([...head, byte, ...tail]);
    };
    for (const byte of [0xfc, 0xf6]) {
      expect(await rejectionOf(await workspace.send(cityOf(byte)))).toEqual([400, "signal_not_utf8"]);
    }
    const both = Uint8Array.from([...utf8("["), ...cityOf(0xfc), ...utf8(',{"event":"Sent itself: \ufffd"}]')]);
    const answer = await workspace.send(both);
    expect((await answer.json<BatchAnswer>()).results.map(({ status }) => status)).toEqual(["rejected", "accepted"]);
    expect([...(await storedTexts(workspace)).values()]).toEqual(['{"event":"Sent itself: \ufffd"}']);
  });

  test("allow 10,000 signals in a body", async () => {
    const workspace = await newWorkspace();
    const items = (count: number) => `[${Array.from({ length: count }, () => '{"event":"x"}').join(",")}]`;
    for (const path of [WEBHOOK, FROM_SOURCE, BATCH, BULK]) {
      expect(await rejectionOf(await workspace.send(items(10_001), { path }))).toEqual([413, "batch_too_long"]);
    }
    const lines = Array.from({ length: 10_001 }, () => '{"event":"x"}').join("\n");
    expect(await rejectionOf(await workspace.send(lines, { path: BULK }))).toEqual([413, "batch_too_long"]);
    expect(await accepted(workspace)).toBe(0);
    expect((await workspace.send(items(10_000))).status).toBe(202);
    expect(await accepted(workspace)).toBe(10_000);
    await workspace.settled();
  });

  test("limit an answer to a megabyte: the last rejected signals have a code without detail", async () => {
    const workspace = await newWorkspace();
    const answer = await workspace.send(`[${Array(10_000).fill('{"event":7}').join(",")}]`, { path: BULK });
    const text = await answer.text();
    expect(text.length).toBeLessThan(1_000_000);
    const { rejected, results } = JSON.parse(text) as { rejected: number; results: object[] };
    expect([answer.status, rejected, results.length]).toEqual([422, 10_000, 10_000]);
    const result = { status: "rejected", code: "event_invalid" };
    expect(results[0]).toEqual({ index: 0, ...result, detail: expect.stringContaining("`event`") });
    expect(results[9_999]).toEqual({ index: 9_999, ...result });
  });

  test("allow 8 MB in a body: declared, streamed and unpacked", async () => {
    const padded = (bytes: number) => `${" ".repeat(bytes - 13)}{"event":"x"}`;
    const asStream = (text: string) => new Blob([text]).stream();
    // Each body has a workspace of its own, because two of them are more than a workspace may send at once.
    const post = async (path: string, body: BodyInit, headers: Record<string, string> = {}) =>
      call(path.replace("{key}", (await newWorkspace()).key.key), { method: "POST", body, headers });
    const compressed = { "content-encoding": "gzip" };
    const tooLarge = [413, "body_too_large"];

    for (const path of [WEBHOOK, FROM_SOURCE, BATCH, BULK]) {
      expect(await rejectionOf(await post(path, padded(8 * MB + 1)))).toEqual(tooLarge);
    }
    expect(await rejectionOf(await post(WEBHOOK, "{}", { "content-length": String(8 * MB + 1) }))).toEqual(tooLarge);
    expect(await rejectionOf(await post(WEBHOOK, asStream(padded(8 * MB + 1))))).toEqual(tooLarge);
    const bomb = await gzip(padded(8 * MB + 1));
    expect(bomb.length).toBeLessThan(20_000);
    expect(await rejectionOf(await post(WEBHOOK, bomb, compressed))).toEqual(tooLarge);

    // A body of exactly the maximum is read. Alone, its signal is too large; in an array it is accepted.
    expect(await rejectionOf(await post(WEBHOOK, padded(8 * MB)))).toEqual([413, "signal_too_large"]);
    expect((await post(WEBHOOK, await gzip(`[${padded(8 * MB - 2)}]`), compressed)).status).toBe(202);
    expect((await post(BULK, `[${padded(8 * MB - 2)}]`)).status).toBe(202);
  });
});

describe("§2.2: a signal that is sent alone", () => {
  test("is rejected with a 422 that names the invalid field, and is listed without the sent text", async () => {
    const workspace = await newWorkspace();
    const { results, detail, request_id, ...problem } = await problemOf(
      await workspace.send(signal("x", { email: "nobody" })),
    );
    expect([results, problem]).toMatchObject([undefined, { status: 422, code: "email_invalid" }]);
    expect(detail).toMatch(/`email`.* You sent "nobody"/s);
    expect(await workspace.list("/rejections")).toMatchObject([
      {
        status: 422,
        code: "email_invalid",
        detail: detail.replace(/ You sent .*$/, ""),
        request_id,
        key_id: workspace.key.id,
        signals: 1,
      },
    ]);
  });
});

describe("design §9: stores a payload as sent", () => {
  test.each([
    ["integers above 2^53", '{"event":"x","properties":{"id":12345678901234567890,"n":1.0e3}}'],
    ["spaces, line breaks and the order of names", '{ "properties" : {"b":1,\r\n\t"a":2}, "event":"x" }'],
    ["names that stand twice", '{"event":"first","event":"second","properties":{"a":1,"a":2}}'],
    ["half of a surrogate pair", '{"event":"\\ud800 x","properties":{"\\udc00":"\\ud83d"},"messageId":"\\ud800"}'],
    ["names of Object.prototype", '{"event":"x","__proto__":{"email":"a@b.co"},"constructor":{"prototype":{"p":1}}}'],
    ["Unicode", '{"event":"Formulář 📝 \\t\\n.","properties":{"名":"值\u2028\u200d \\u0000\\u001e"}}'],
    ["values of every kind", '{"event":"x","properties":{"a":[true,false,null,-0,"\\"",[],{}]}}'],
  ])("with %s", async (_name, text) => {
    const workspace = await newWorkspace();
    const alone = await idOf(await workspace.send(text));
    const inArray = await workspace.send(`[ ${text} ,${TRACK}]`, { headers: { "idempotency-key": "1" } });
    const inBatch = await workspace.send(`{"sentAt":"]","batch":[${text}\n]}`, { headers: { "idempotency-key": "2" } });
    const [{ results: ofArray }, { results: ofBatch }] = [
      await inArray.json<BatchAnswer>(),
      await inBatch.json<BatchAnswer>(),
    ];
    const stored = await storedTexts(workspace);
    for (const id of [alone, ofArray[0]?.id, ofBatch[0]?.id]) expect(stored.get(id ?? "")).toBe(text);
    expect(await workspace.books()).toMatchObject({ accepted: 4, dead_lettered: 0, balanced: true });
    expect(({} as Record<string, unknown>)["p"]).toBeUndefined();
  });
});

describe("design §8.2: Idempotency-Key", () => {
  test("makes a second call a duplicate even with another content, but not the items of one call", async () => {
    const workspace = await newWorkspace();
    const headers = { "idempotency-key": "order 1" };
    expect((await workspace.send([signal("a"), signal("a")], { headers })).status).toBe(202);
    expect((await workspace.send([signal("b"), signal("c")], { headers })).status).toBe(202);
    expect((await workspace.send([signal("a")], { headers: { "idempotency-key": "order 2" } })).status).toBe(202);
    expect(await workspace.settled()).toMatchObject({ accepted: 5, processed: 3, duplicates: 2 });
  });

  test("allows 1 to 255 printable ASCII characters", async () => {
    const workspace = await newWorkspace();
    const post = (key: string) => workspace.send(signal(), { headers: { "idempotency-key": key } });
    expect((await post("~".repeat(255))).status).toBe(202);
    for (const key of ["", "x".repeat(256), "ü", "a\tb"]) {
      expect(await rejectionOf(await post(key)), key).toEqual([400, "idempotency_key_invalid"]);
    }
    // Stored with the signal, it would reveal the key.
    expect(await rejectionOf(await post(workspace.key.key))).toEqual([400, "idempotency_key_invalid"]);
    expect(await accepted(workspace)).toBe(1);
  });
});

describe("design §9: errors", () => {
  test("have exactly the documented members, and an id that is also in the header", async () => {
    const workspace = await newWorkspace();
    const rejected = await workspace.send({ event: 7 });
    const problem = await problemOf(rejected);
    expect(problem).toEqual({
      type: "/docs/senders/codes#event_invalid",
      title: expect.any(String),
      status: 422,
      detail: expect.any(String),
      code: "event_invalid",
      request_id: expect.stringMatching(/^req_[0-9a-f-]{36}$/),
    });
    expect(rejected.headers.get("x-request-id")).toBe(problem.request_id);
    const taken = await workspace.send(signal(), { headers: { "x-request-id": "mine" } });
    expect(taken.headers.get("x-request-id")).toMatch(/^req_[0-9a-f-]{36}$/);
  });

  test("answer 404 for an unknown path", async () => {
    const workspace = await newWorkspace();
    for (const path of [
      "/api",
      "/api/signal-staging/{key}",
      "/api/signal-staging/webhook",
      "/api/signal-staging/webhook/a/b/{key}",
      "/api/signal-staging/webhook/{key}/batch/x",
      "/api/signal-staging/bulk/web/{key}",
      "/api/product-orgs/bulk/{key}",
      "/{key}",
    ]) {
      const response = await workspace.send(signal(), { path });
      const text = await response.clone().text();
      expect(await rejectionOf(response), path).toEqual([404, "not_found"]);
      expect(text).not.toContain(workspace.key.key);
      if (path.startsWith("/api/")) expect(text).toContain("the key stands in its path");
    }
  });

  test("answer 405 with POST as the allowed method", async () => {
    const workspace = await newWorkspace();
    for (const method of ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      for (const path of [WEBHOOK, FROM_SOURCE, BATCH, BULK, PRODUCT_ORGS, `${WEBHOOK}/`]) {
        const response = await call(path.replace("{key}", workspace.key.key), { method });
        expect([response.status, response.headers.get("allow")], `${method} ${path}`).toEqual([405, "POST"]);
        if (method === "HEAD") expect(await response.text()).toBe("");
        else expect(await rejectionOf(response)).toEqual([405, "method_not_allowed"]);
      }
    }
  });
});

function signalText(event: string): string {
  return JSON.stringify(signal(event));
}

function nested(levels: number): unknown {
  return levels === 1 ? {} : { a: nested(levels - 1) };
}
