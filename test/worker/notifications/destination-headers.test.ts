/** Custom headers of a webhook: who receives them, how they are changed, and that nothing shows their values. */
import { runInDurableObject } from "cloudflare:test";
import { expect, test, vi } from "vitest";
import {
  type DestinationHarness,
  Receiver,
  crossed,
  listen,
  newHarnessInEachTest,
} from "../../support/destination-harness.ts";
import { textsOfColumns } from "../../support/everything.ts";
import { until } from "../../support/until.ts";

const TOKEN = "tok-4711-aVerySecretToken";
const AUTHORIZATION = { name: "Authorization", value: `Bearer ${TOKEN}` };
const API_KEY = { name: "X-Api-Key", value: "key-0815-anotherSecret" };

let harness: DestinationHarness;
let receiver: Receiver;

newHarnessInEachTest((made) => {
  ({ harness, receiver } = made);
});

const patch = (id: string, change: object) => harness.workspace.ask("PATCH", `/destinations/${id}`, change);

/** The custom headers of the next delivery. */
async function sentBy(id: string, to = receiver): Promise<(string | null | undefined)[]> {
  const before = to.received.length;
  await harness.workspace.operator("POST", `/destinations/${id}/test`);
  await until(() => expect(to.received).toHaveLength(before + 1));
  return ["authorization", "x-api-key"].map((name) => to.received.at(-1)?.headers.get(name));
}

test("each attempt carries the headers, and the service's headers stay", async () => {
  receiver.answer = (nth) => new Response("", { status: nth === 1 ? 500 : 200 });
  const { id, secret = "" } = await harness.create(receiver, { headers: [AUTHORIZATION, API_KEY] });
  await harness.raise(crossed());
  const { id: delivery } = await harness.attempted(id, 1);
  await harness.workspace.operator("POST", `/destinations/${id}/deliveries/${delivery}/again`);
  await until(() => expect(receiver.received).toHaveLength(2));
  for (const { headers } of receiver.received) {
    expect(headers.get("authorization")).toBe(AUTHORIZATION.value);
    expect(headers.get("x-api-key")).toBe(API_KEY.value);
    expect(headers.get("content-type")).toBe("application/json");
    expect(headers.get("user-agent")).toBe("signal-ingestion/1");
  }
  expect(receiver.verify(secret)).toMatchObject({ type: "person.score_crossed" });
});

test("a value is in no answer, activity log entry, log line or stored answer of a receiver", async () => {
  const lines: unknown[] = [];
  for (const level of ["log", "warn", "error", "info"] as const)
    vi.spyOn(console, level).mockImplementation((...line: unknown[]) => void lines.push(...line));
  // Base64 and spaced letters: nothing could find the value in every encoding.
  receiver.answer = () => {
    const got = receiver.received.at(-1)?.headers.get("authorization") ?? "";
    return new Response(`${got} ${btoa(got)} ${got.split("").join(" ")}`);
  };
  const created = await harness.create(receiver, { headers: [AUTHORIZATION] });
  const { id } = created;
  const changed = await patch(id, { headers: [{ name: "Authorization" }, API_KEY] });
  const rejected = await patch(id, {
    target: "https://elsewhere.example.com/",
    headers: [AUTHORIZATION, { name: "Host", value: TOKEN }],
  });
  const { id: delivery } = await harness.workspace.operator<{ id: string }>("POST", `/destinations/${id}/test`);
  const { attempts } = await harness.attempted(id, 1);
  expect(attempts).toMatchObject([{ status: 200, answer: null }]);
  const results = await harness.workspace.audit();
  const shown = [
    created,
    changed.body,
    rejected.body,
    await harness.workspace.operator("GET", "/destinations"),
    await harness.destination(id),
    await harness.deliveries(id),
    await harness.workspace.operator("GET", `/destinations/${id}/deliveries/${delivery}`),
    results,
    lines,
  ];
  expect(created.headers).toEqual([{ name: "Authorization" }]);
  expect(JSON.stringify(results)).toContain("X-Api-Key");
  expect(JSON.stringify(shown)).not.toMatch(/4711|aVerySecret|0815|anotherSecret/);
  const texts = await runInDurableObject(harness.object, (_, { storage }) => textsOfColumns(storage.sql));
  const places = [...texts].filter(([, text]) => /4711|0815/.test(text)).map(([place]) => place);
  expect(places).toEqual(["destinations.headers"]);
});

test("a change keeps, replaces, adds and removes headers; a deletion leaves none", async () => {
  const { id } = await harness.create(receiver, { headers: [AUTHORIZATION] });
  expect(await sentBy(id)).toEqual([AUTHORIZATION.value, null]);
  await patch(id, { name: "Renamed" });
  expect(await sentBy(id)).toEqual([AUTHORIZATION.value, null]);
  const { body } = await patch(id, { headers: [{ name: "authorization" }, API_KEY] });
  expect(body).toMatchObject({ headers: [{ name: "authorization" }, { name: "X-Api-Key" }] });
  expect(await sentBy(id)).toEqual([AUTHORIZATION.value, API_KEY.value]);
  // The answer of the API can be sent back.
  await patch(id, { headers: (await harness.destination(id)).headers });
  expect(await sentBy(id)).toEqual([AUTHORIZATION.value, API_KEY.value]);
  await patch(id, { headers: [{ name: "X-Api-Key", value: "new" }] });
  expect(await sentBy(id)).toEqual([null, "new"]);
  await harness.workspace.operator("POST", `/destinations/${id}/rotate-secret`, { overlap: "1h" });
  expect(await sentBy(id)).toEqual([null, "new"]);
  await harness.workspace.operator("DELETE", `/destinations/${id}`);
  const left = await runInDurableObject(harness.object, (_, { storage: { sql } }) =>
    sql.exec("SELECT * FROM destinations").toArray(),
  );
  expect(left).toEqual([]);
});

test("another URL gets stored values only if they are sent again", async () => {
  const elsewhere = new Receiver();
  listen(receiver, elsewhere);
  const { id } = await harness.create(receiver, { headers: [AUTHORIZATION, API_KEY] });
  const errors = [{ path: "headers", message: "the target is another URL: send each value again, or no headers" }];
  const target = elsewhere.url;
  const sameHost = `${receiver.url}/other`;
  for (const change of [
    { target: sameHost },
    { target },
    { target, headers: [AUTHORIZATION, { name: "X-Api-Key" }] },
  ]) {
    expect(await patch(id, change)).toMatchObject({ status: 422, body: { errors } });
    expect(await harness.destination(id)).toMatchObject({ target: receiver.url });
  }
  expect(await patch(id, { target, headers: [AUTHORIZATION] })).toMatchObject({ status: 200 });
  expect(await sentBy(id, elsewhere)).toEqual([AUTHORIZATION.value, null]);
});

test("wrong headers are rejected with the field that is wrong", async () => {
  const { id } = await harness.create(receiver);
  const six = Array.from({ length: 6 }, (_, n) => ({ name: `X-${n}`, value: "v" }));
  for (const [headers, path, message] of [
    [[API_KEY, { name: "host", value: "v" }], "headers.1.name", "set by the service"],
    [[{ name: "X-Key", value: "v\r\nHost: x" }], "headers.0.value", "only visible ASCII"],
    [[API_KEY, { name: "x-api-key", value: "v" }], "headers", "the same name twice"],
    [six, "headers", "at most 5 headers"],
  ] as const) {
    const wanted = { name: "CRM", type: "webhook", target: receiver.url, notifications: ["usage.level"], headers };
    for (const answer of [await harness.workspace.ask("POST", "/destinations", wanted), await patch(id, { headers })]) {
      const error = { path, message: expect.stringContaining(message) };
      expect(answer).toMatchObject({ status: 422, body: { errors: [error] } });
    }
  }
  expect(await patch(id, { headers: [{ name: "X-New" }] })).toMatchObject({
    status: 422,
    body: { errors: [{ path: "headers", message: "a header that is not stored yet needs a value" }] },
  });
  expect(await harness.destination(id)).toMatchObject({ headers: [] });
  const slack = {
    name: "Ops",
    type: "slack",
    target: receiver.url,
    notifications: ["usage.level"],
    headers: [API_KEY],
  };
  expect(await harness.workspace.ask("POST", "/destinations", slack)).toMatchObject({
    status: 422,
    body: { errors: [{ path: "headers", message: "only a webhook has headers" }] },
  });
});
