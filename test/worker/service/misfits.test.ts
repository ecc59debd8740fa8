/** Misfits: signals that the template of their key does not fit, rejected or kept (spec §2.2, §6.5). */
import { createExecutionContext, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/duration.ts";
import { MISFIT_KEPT_DAYS, MISFIT_NOTICE_DAYS, MISFITS_MAX } from "../../../src/limits.ts";
import { lookUpKey } from "../../../src/ingest/authenticate.ts";
import { deleteExpired, setRetention } from "../../../src/store/deletion/retention.ts";
import { nextMisfitsMs } from "../../../src/store/state/due.ts";
import type { StoreState } from "../../../src/store/state/store-state.ts";
import { stopClock } from "../../support/clock.ts";
import { TestCounter } from "../../support/counter.ts";
import { consumeMessages } from "../../support/deliver.ts";
import { newPlan, newWorkspace, type BatchAnswer, type TestWorkspace } from "../../support/workspace.ts";

const TEMPLATE = [
  { target: "event", paths: ["trigger", "kind"] },
  { target: "email", path: "contact.mail" },
];
/** It fits the payloads of `odd`. */
const CORRECTED = [{ target: "event", path: "what" }, ...TEMPLATE.slice(1)];
const odd = (n: number, more: object = {}) => ({
  what: "form.filled",
  n,
  contact: { mail: `p${n}@example.com` },
  ...more,
});
const fitting = (n: number) => ({ ...odd(n), trigger: "form.sent" });

const keeping = ({ key, ...more }: Parameters<typeof newWorkspace>[0] = {}) =>
  newWorkspace({ ...more, key: { payload_template: TEMPLATE, misfits: "keep", ...key } });

const send = async (workspace: TestWorkspace, body: unknown, options: Parameters<TestWorkspace["send"]>[1] = {}) => {
  const answer = await workspace.send(body, options);
  return [answer.status, await answer.json<{ id: string; status: string; misfit?: true }>()] as const;
};
const kept = async (workspace: TestWorkspace, body: unknown) => {
  const [status, answer] = await send(workspace, body);
  expect([status, answer]).toMatchObject([202, { misfit: true }]);
  return answer.id;
};
const change = (workspace: TestWorkspace, template: unknown) =>
  workspace.operator("PUT", `/keys/${workspace.key.id}/template`, { payload_template: template });
const replay = async (workspace: TestWorkspace) => {
  await workspace.operator("POST", "/dead-letters/replay", {});
  return workspace.settled();
};
/** The queue gives up all messages, or delivers them. */
const sendTo = (workspace: TestWorkspace, queue: "signals-dlq" | "signals") =>
  new TestCounter(workspace.id).sendTo((messages) =>
    consumeMessages(
      messages.map(({ body }) => body),
      { queue },
    ),
  );
const traceOf = (workspace: TestWorkspace, id: string) => workspace.operator("GET", `/signals/${id}`);
const refresh = (workspace: TestWorkspace) =>
  lookUpKey(env.DB, workspace.key.key, Date.now(), createExecutionContext());
const inStateOf = <T>(workspace: TestWorkspace, act: (state: StoreState) => T): Promise<T> =>
  runInDurableObject(workspace.store, (instance) => act((instance as unknown as { state: StoreState }).state));
/** The waiting misfits: the head counts what the table has. */
const waitingIn = (workspace: TestWorkspace) =>
  inStateOf(workspace, ({ head, sql }) => {
    const { waiting, bytes } = head.misfits;
    const query =
      "SELECT count(*) AS waiting, coalesce(sum(length(payload)), 0) AS bytes FROM dead_letters WHERE misfit_bytes IS NOT NULL";
    expect({ waiting, bytes }).toEqual(sql.exec(query).one());
    return waiting;
  });

describe("a misfit", () => {
  test("is rejected by a key that does not keep misfits, and counts nothing", async () => {
    const workspace = await newWorkspace({ key: { payload_template: TEMPLATE } });
    expect(await send(workspace, odd(1))).toMatchObject([422, { code: "event_missing" }]);
    expect(await workspace.settled()).toMatchObject({ accepted: 0, balanced: true });
  });

  test("is kept: answered as a misfit, counted, and a dead letter that names every path that was tried", async () => {
    const workspace = await keeping();
    const id = await kept(workspace, odd(1));
    expect(await workspace.settled()).toMatchObject({ accepted: 1, dead_lettered: 1, balanced: true });
    const [letter] = await workspace.list("/dead-letters");
    expect(letter).toMatchObject({ id, misfit: true, payload: odd(1) });
    expect(letter?.["reason"]).toContain("`trigger`, `kind`");
    expect(await traceOf(workspace, id)).toMatchObject({ status: "dead", misfit: true, payload: odd(1) });
    expect((await workspace.operator<{ accepted: number }>("GET", "/usage")).accepted).toBe(1);
  });

  test.each([
    ["without a value that is required", { trigger: "a" }, { required: true }],
    ["with other properties than an object", { trigger: "a", properties: 1 }, {}],
    ["that is no object", "5", {}],
  ])("%s is kept too", async (_, body, more) => {
    const workspace = await keeping({ key: { payload_template: [TEMPLATE[0], { ...TEMPLATE[1], ...more }] } });
    await kept(workspace, body);
    expect(await workspace.settled()).toMatchObject({ dead_lettered: 1, balanced: true });
  });

  test("without the list that its template requires is kept, although it has an event", async () => {
    const items = { target: "items", path: "rows", required: true };
    const workspace = await keeping({ key: { payload_template: [items, ...TEMPLATE] } });
    await kept(workspace, fitting(1));
    expect(await workspace.settled()).toMatchObject({ dead_lettered: 1, balanced: true });
    const [letter] = await workspace.list("/dead-letters");
    expect(letter).toMatchObject({ misfit: true, reason: expect.stringContaining("`rows`") });
  });

  test.each([
    ["no JSON", "{", 400, "body_not_json"],
    ["a credential as its event", { trigger: "sk_" + "a".repeat(40) }, 422, "event_invalid"],
    ["too long an event", { trigger: "a".repeat(300) }, 422, "event_invalid"],
    ["a call of a CDP without an event", { type: "track", messageId: "m", anonymousId: "a" }, 422, "event_missing"],
    ["too large", { ...odd(1), more: "x".repeat(70_000) }, 413, "signal_too_large"],
  ])("is not %s, which is always rejected", async (_, body, status, code) => {
    const workspace = await keeping();
    expect(await send(workspace, body)).toMatchObject([status, { code }]);
  });

  test("among others has its mark in the results", async () => {
    const workspace = await keeping();
    const answer = await workspace.send([fitting(1), odd(2), 7]);
    const { results, status } = await answer.json<BatchAnswer>();
    expect([answer.status, status, results.map(({ misfit }) => misfit)]).toEqual([
      202,
      "accepted",
      [undefined, true, true],
    ]);
    expect(await workspace.settled()).toMatchObject({ processed: 1, dead_lettered: 2, balanced: true });
  });

  test("becomes a signal when a replay finds a template that fits; another try has the newest reason", async () => {
    const workspace = await keeping();
    const id = await kept(workspace, odd(1));
    await workspace.settled();
    await change(workspace, [{ target: "event", path: "nothing" }]);
    expect(await replay(workspace)).toMatchObject({ accepted: 1, dead_lettered: 1, balanced: true });
    expect(await traceOf(workspace, id)).toMatchObject({ dead_reason: expect.stringContaining("`nothing`") });
    expect(await waitingIn(workspace)).toBe(1);
    await change(workspace, CORRECTED);
    expect(await replay(workspace)).toMatchObject({ accepted: 1, processed: 1, dead_lettered: 0, balanced: true });
    expect(await traceOf(workspace, id)).toMatchObject({ event: "form.filled", email: "p1@example.com", mapped: true });
    expect(await waitingIn(workspace)).toBe(0);
  });

  test.each([
    ["one signal is replayed as that signal", 1, { processed: 1, dead_lettered: 0 }],
    ["several signals stays, because a replay counts nothing", 2, { processed: 0, dead_lettered: 1 }],
  ])("in which a newer template finds a list of %s", async (_, signals, expected) => {
    const workspace = await keeping();
    const rows = Array.from({ length: signals }, (__, n) => odd(n, { big: 1 }));
    const id = await kept(workspace, { rows, topic: "crm" });
    await workspace.settled();
    await change(workspace, [
      { target: "items", path: "rows" },
      { target: "event", text: "{@body.topic} {what}" },
    ]);
    expect(await replay(workspace)).toMatchObject({ accepted: 1, ...expected, balanced: true });
    const event = signals === 1 ? "crm form.filled" : null;
    expect(await traceOf(workspace, id)).toMatchObject({ event, payload: signals === 1 ? rows[0] : { rows } });
  });

  test("that is held is judged at its release", async () => {
    const workspace = await keeping({ signalLimit: 1 });
    await send(workspace, fitting(1));
    const [, answer] = await send(workspace, odd(2));
    expect(answer).toMatchObject({ status: "held", misfit: true });
    expect(await workspace.settled()).toMatchObject({ processed: 1, held: 1, dead_lettered: 0, balanced: true });
    expect(await traceOf(workspace, answer.id)).toMatchObject({ status: "held", misfit: true, payload: odd(2) });
    await workspace.operator("PATCH", "", { plan: await newPlan(10) });
    await workspace.operator("POST", "/held/release");
    expect(await workspace.settled()).toMatchObject({ processed: 1, held: 0, dead_lettered: 1, balanced: true });
    await change(workspace, CORRECTED);
    expect(await replay(workspace)).toMatchObject({ accepted: 2, processed: 2, dead_lettered: 0, balanced: true });
  });

  test("that is held again after its replay is released with the template that fitted it", async () => {
    const workspace = await keeping({ signalLimit: 1 });
    await send(workspace, fitting(1));
    await workspace.settled();
    await sendTo(workspace, "signals-dlq");
    const [, { id }] = await send(workspace, odd(2));
    expect(await workspace.settled()).toMatchObject({ processed: 1, held: 0, dead_lettered: 1 });
    await change(workspace, CORRECTED);
    await sendTo(workspace, "signals");
    expect(await replay(workspace)).toMatchObject({ held: 1, dead_lettered: 0, balanced: true });
    expect(await traceOf(workspace, id)).toMatchObject({ status: "held", event: "form.filled" });
    await workspace.operator("PATCH", "", { plan: await newPlan(10) });
    await workspace.operator("POST", "/held/release");
    expect(await workspace.settled()).toMatchObject({ processed: 2, held: 0, dead_lettered: 0, balanced: true });
  });

  test("is one after the replay that finds it out, and none after one that finds another reason", async () => {
    const workspace = await keeping();
    await sendTo(workspace, "signals-dlq");
    const body = odd(1, { password: `sk_${"a".repeat(40)}` });
    const [, { id }] = await send(workspace, body);
    await workspace.settled();
    expect(await traceOf(workspace, id)).toMatchObject({ status: "dead", misfit: false, payload: body });
    await sendTo(workspace, "signals");
    // Its days as a misfit begin now, however long it has been dead.
    stopClock(Date.now() + (MISFIT_KEPT_DAYS + 1) * DAY_MS);
    await replay(workspace);
    await runDurableObjectAlarm(workspace.store);
    expect(await traceOf(workspace, id)).toMatchObject({ status: "dead", misfit: true, payload: body });
    expect(await waitingIn(workspace)).toBe(1);
    // An event that looks like a credential is rejected, whatever template finds it.
    await change(workspace, [{ target: "event", path: "password" }]);
    expect(await replay(workspace)).toMatchObject({ dead_lettered: 1, balanced: true });
    expect(await traceOf(workspace, id)).toMatchObject({ status: "dead", misfit: false, payload: body });
    expect(await waitingIn(workspace)).toBe(0);
  });

  test("leaves with the person whose name any of its texts is, also while it is held", async () => {
    const workspace = await keeping({ signalLimit: 2 });
    await send(workspace, fitting(1));
    const dead = await kept(workspace, { other: ["p1@example.com"] });
    const [, held] = await send(workspace, { deep: { mail: "P1@example.com" } });
    const [, others] = await send(workspace, { deep: { mail: "p2@example.com" } });
    await workspace.settled();
    const receipt = await workspace.operator("DELETE", "/people/p1@example.com");
    expect(receipt).toMatchObject({ held: 1, dead_letters: 1 });
    for (const id of [dead, held.id])
      expect(await traceOf(workspace, id)).toMatchObject({ status: "purged", payload: null });
    expect(await traceOf(workspace, others.id)).toMatchObject({ status: "held", payload: { deep: {} } });
    expect(await workspace.settled()).toMatchObject({ accepted: 4, purged: 2, held: 1, balanced: true });
    expect(await waitingIn(workspace)).toBe(0);
  });

  test.each([
    ["with a name around it", { from: "Jane <P1@example.com> " }],
    ["in a text that is JSON", { data: JSON.stringify([{ mail: "p1@example.com" }]) }],
    ["in JSON in such a text", { data: JSON.stringify({ user: JSON.stringify({ mail: "p1@example.com" }) }) }],
  ])("leaves with the person whose address it has %s, as templates read it", async (_, body) => {
    const workspace = await keeping();
    await send(workspace, fitting(1));
    const id = await kept(workspace, body);
    await workspace.settled();
    expect(await workspace.operator("DELETE", "/people/p1@example.com")).toMatchObject({ dead_letters: 1 });
    expect(await traceOf(workspace, id)).toMatchObject({ status: "purged", payload: null });
  });

  test("becomes a signal even if it is purged while its replay is on its way", async () => {
    const workspace = await keeping();
    const id = await kept(workspace, odd(1));
    await workspace.settled();
    await change(workspace, CORRECTED);
    const bodies: Uint8Array[] = [];
    await new TestCounter(workspace.id).sendTo((messages) => {
      bodies.push(...messages.map(({ body }) => body));
      return Promise.resolve();
    });
    stopClock(Date.now());
    await workspace.operator("POST", "/dead-letters/replay", {});
    await runDurableObjectAlarm(workspace.counter);
    stopClock(Date.now() + (MISFIT_KEPT_DAYS + 1) * DAY_MS);
    await runDurableObjectAlarm(workspace.store);
    expect(await traceOf(workspace, id)).toMatchObject({ status: "purged" });
    // The second delivery changes nothing.
    for (let deliveries = 0; deliveries < 2; deliveries++) await consumeMessages(bodies);
    expect(await traceOf(workspace, id)).toMatchObject({ status: "processed", email: "p1@example.com" });
    expect(await workspace.books()).toMatchObject({ accepted: 1, processed: 1, purged: 0, balanced: true });
    expect(await waitingIn(workspace)).toBe(0);
  });

  test("is purged after 90 days without a replay, and stays in the books", async () => {
    const workspace = await keeping();
    const id = await kept(workspace, odd(1));
    await workspace.settled();
    const sinceMs = Date.now();
    stopClock(sinceMs);
    const at = async (days: number) => {
      stopClock(sinceMs + days * DAY_MS);
      await runDurableObjectAlarm(workspace.store);
      return (await traceOf(workspace, id))["status"];
    };
    expect(await at(MISFIT_KEPT_DAYS - MISFIT_NOTICE_DAYS)).toBe("dead");
    const nextMs = await inStateOf(workspace, nextMisfitsMs);
    expect(nextMs, "a notice that nobody wants is done").toBeGreaterThan(Date.now() + DAY_MS);
    expect(await at(MISFIT_KEPT_DAYS - 1)).toBe("dead");
    expect(await at(MISFIT_KEPT_DAYS + 1)).toBe("purged");
    expect(await traceOf(workspace, id)).toMatchObject({ payload: null, misfit: false, deleted_at: null });
    expect(await workspace.books()).toMatchObject({ accepted: 1, purged: 1, dead_lettered: 0, balanced: true });
    expect(await waitingIn(workspace)).toBe(0);
  });

  test("waits no more once retention has dropped it", async () => {
    const workspace = await keeping();
    await kept(workspace, odd(1));
    await workspace.settled();
    expect(await waitingIn(workspace)).toBe(1);
    await inStateOf(workspace, (state) => {
      setRetention(state, { retentionDays: 31 }, Date.now());
      deleteExpired(state, Date.now() + 32 * DAY_MS);
    });
    expect(await waitingIn(workspace)).toBe(0);
  });
});

describe("when too many misfits wait", () => {
  const fill = (workspace: TestWorkspace, waiting: number) =>
    inStateOf(workspace, ({ head }) => {
      head.misfits.waiting = waiting;
    });

  test("the key rejects them, but one a minute, until there is room", async () => {
    const workspace = await keeping();
    const next = async (body: unknown) => {
      const [status] = await send(workspace, body);
      await workspace.settled();
      return status;
    };
    await next(odd(1));
    await fill(workspace, MISFITS_MAX);
    // The counter learns of it with the second, and the edge with the third.
    expect([await next(odd(2)), await next(odd(3))]).toEqual([202, 202]);
    expect(await send(workspace, odd(4))).toMatchObject([
      422,
      { detail: expect.stringContaining("too many such signals wait") },
    ]);
    expect([await next(fitting(5)), await next(odd(6))]).toEqual([202, 422]);
    stopClock(Date.now() + 61_000);
    expect([await next(odd(7)), await next(odd(8))]).toEqual([202, 422]);
    await fill(workspace, 4);
    expect([await next(fitting(9)), await next(fitting(10)), await next(odd(11))]).toEqual([202, 202, 202]);
    expect(await workspace.settled()).toMatchObject({ accepted: 8, dead_lettered: 5, processed: 3, balanced: true });
    expect(await waitingIn(workspace)).toBe(5);
  });
});

describe("the settings of a key", () => {
  test("change within the cache of the edge, in the audit log, and a successor has them", async () => {
    const workspace = await newWorkspace({ key: { payload_template: TEMPLATE } });
    const path = `/keys/${workspace.key.id}`;
    expect(await workspace.operator("PATCH", path, { misfits: "keep", answer: 200 })).toMatchObject({
      misfits: "keep",
      answer: 200,
    });
    await workspace.operator("PATCH", path, { misfits: "keep" });
    expect(await workspace.audit("key.webhook")).toEqual([
      { action: "key.webhook_changed", target: workspace.key.id, detail: { misfits: "keep", answer: 200 } },
    ]);
    await refresh(workspace);
    await kept(workspace, odd(1));
    const successor = await workspace.operator<{ key: string }>("POST", `${path}/rotate`, { overlap: "1h" });
    expect(successor).toMatchObject({ misfits: "keep", answer: 200 });
    expect(await send(workspace, odd(2), { key: successor.key })).toMatchObject([202, { misfit: true }]);
  });

  test.each([[{}], [{ misfits: "drop" }], [{ answer: 204 }], [{ answer: null }]])("are not %j", async (settings) => {
    const workspace = await newWorkspace();
    expect(await workspace.ask("PATCH", `/keys/${workspace.key.id}`, settings)).toMatchObject({ status: 422 });
  });

  test("answer 200 at the address with a source, and 202 elsewhere", async () => {
    const workspace = await keeping({ key: { answer: 200 } });
    const statusAt = async (path: string, body: unknown = fitting(1)) => (await workspace.send(body, { path })).status;
    const withSource = "/api/signal-staging/webhook/crm/{key}";
    expect(await statusAt(withSource)).toBe(200);
    expect(await statusAt(withSource, [fitting(2), odd(3)])).toBe(200);
    expect(await statusAt(withSource, "{")).toBe(400);
    expect(await statusAt("/api/signal-staging/webhook/{key}")).toBe(202);
    expect(await statusAt("/api/signal-staging/webhook/{key}/batch", [fitting(4)])).toBe(202);
    expect(await statusAt("/api/signal-staging/bulk/{key}")).toBe(202);
  });
});
