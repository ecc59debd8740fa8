/** Design §8.5, spec §6.3: mapping rules previewed on stored signals, applied to them, and proposed from a signal. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { PREVIEW_STEP_SIGNALS } from "../../../../src/limits.ts";
import { signalStore, type WorkspaceContext } from "../../../../src/use-cases/objects.ts";
import { applyExclusions } from "../../../../src/use-cases/exclusions-on-history.ts";
import { applyRule as applyRuleNow, previewRule } from "../../../../src/use-cases/rules-on-history.ts";
import { ring } from "../../../support/cold.ts";
import { intercept } from "../../../support/intercept.ts";
import { expectLogged } from "../../../support/logged.ts";
import { scoresOf } from "../../../support/read-store.ts";
import { applyRule } from "../../../support/rules.ts";
import { DAY, MINUTE, consumeMessages, deliver, messageOf, type Delivered } from "../../../support/deliver.ts";
import { call, newWorkspace, type TestWorkspace } from "../../../support/workspace.ts";

/** Answers of the operator API, which have its field names. */
type Answer = Record<string, unknown>;

const ANY_FORM = { name: "rule", event: "Form", match: "all", conditions: [], scoring_signal: "form", points: 3 };
type Rule = Omit<typeof ANY_FORM, "conditions"> & { conditions: { path: string; operator: string; value?: unknown }[] };

const START = Date.now() - 60 * MINUTE;

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});
afterEach(() => {
  vi.useRealTimers();
});

const aRule = (change: Partial<Rule> = {}): Rule => ({ ...ANY_FORM, ...change });

const create = (rule: object, target = workspace) => target.operator<{ id: string }>("POST", "/rules", rule);

const preview = (rule: object, query = "") =>
  workspace.operator<Answer & { samples: { id: string; email: string }[] }>("POST", `/rules/preview${query}`, rule);

const applyNow = (ruleId: string) => applyRule(workspace, ruleId);

function form(id: string, email: string | null, properties: object = {}, at = START): Delivered {
  const who = email === null ? {} : { email };
  return { id, at, payload: { ...who, event: "Form", properties, messageId: id }, head: { source: "site" } };
}

const scores = (target = workspace) => scoresOf(target.id);

const DEMO = aRule({
  event: "Form",
  conditions: [{ path: "properties.form", operator: "contains", value: "demo" }],
  points: 20,
});

/** Signals in every state; only `counting` belong to a person. */
const HISTORY: Delivered[] = [
  form("sig_1", "ann@example.com", { form: "Demo" }),
  form("sig_2", "ann@example.com", { form: "demo again" }),
  form("sig_3", "bob@example.com", { form: "Newsletter" }),
  form("sig_4", "bob@example.com", { form: "A demo" }),
  form("sig_5", null, { form: "demo" }),
  { id: "sig_6", at: START, payload: { event: "Form", userId: "u-1", properties: { form: "demo" } } },
  { id: "sig_7", at: START, payload: { event: "Form", userId: "u-unknown", properties: { form: "demo" } } },
  { id: "sig_8", at: START, payload: { type: "identify", userId: "u-1", traits: { email: "cyd@example.com" } } },
  { ...form("sig_9", "ann@example.com", { form: "demo 3" }), verdict: "held" },
  {
    ...form("sig_a", "ann@example.com", { form: "Demo" }),
    payload: form("sig_1", "ann@example.com", { form: "Demo" }).payload,
  },
  { id: "sig_b", at: START, payload: "{" },
  { id: "sig_c", at: START, payload: { event: "Format", email: "ann@example.com", properties: { form: "demo" } } },
  { id: "sig_d", at: START, payload: { event: "form", email: "ann@example.com", properties: { form: "demo" } } },
];

describe("a rule on stored signals", () => {
  test.each<[string, Rule]>([
    ["an event and a condition", DEMO],
    ["a wildcard", { ...DEMO, event: "F*m*" }],
    ["the person's email", aRule({ conditions: [{ path: "email", operator: "starts_with", value: "cyd" }] })],
    ["negative points", aRule({ event: "*", points: -7 })],
    ["an event that never came", aRule({ event: "Nothing" })],
  ])("with %s previews and scores what it would have scored from the beginning, once", async (_, rule) => {
    const ideal = await newWorkspace();
    await create(rule, ideal);
    await deliver(ideal.id, HISTORY);
    await deliver(workspace.id, HISTORY);
    const expected = await scores(ideal);
    const matches = expected.scoring.length;
    const found = await preview(rule);
    expect(found).toMatchObject({
      matches,
      people: new Set(expected.scoring.map(({ email }) => email)).size,
      points: expected.people.reduce((sum, { score }) => sum + score, 0),
      complete: true,
    });
    expect(found.samples.map(({ id, email }) => [id, email]).sort()).toEqual(
      expected.scoring.map(({ signal_id, email }) => [signal_id, email]),
    );
    expect((await scores()).scoring).toEqual([]);

    const { id } = await create(rule);
    expect(await applyNow(id)).toMatchObject({ added: matches, matched: matches, changed: 0, removed: 0 });
    expect(await scores()).toEqual(expected);
    expect(await applyNow(id)).toMatchObject({ added: 0, matched: matches, changed: 0, removed: 0 });
    expect(await scores()).toEqual(expected);
  });
});

test("a rule compares ids with all the digits that were sent: in a preview, on the past and as signals arrive", async () => {
  const sent = (n: number, id: string): Delivered => {
    const text = `{"event":"Form","email":"p${n}@example.com","messageId":"m${n}","properties":{"id":${id}}}`;
    return { id: `sig_${n}`, at: START, payload: text };
  };
  await deliver(workspace.id, [sent(1, "76159173374952512310"), sent(2, "76159173374952512311")]);
  const rule = aRule({ conditions: [{ path: "properties.id", operator: "equals", value: "76159173374952512310" }] });
  const found = await preview(rule);
  expect(found).toMatchObject({ matches: 1, samples: [{ id: "sig_1" }] });
  const { id } = await create(rule);
  expect(await applyNow(id)).toMatchObject({ matched: 1, added: 1 });
  await deliver(workspace.id, [sent(3, "76159173374952512311"), sent(4, '"76159173374952512310"')]);
  const scored = (await scores()).scoring.map(({ signal_id }) => signal_id);
  expect(scored.toSorted()).toEqual(["sig_1", "sig_4"]);
});

test("a rule's value that reading the request would round is rejected, and says to write it as a text", async () => {
  const body = JSON.stringify(aRule({ conditions: [{ path: "properties.id", operator: "equals", value: 0 }] }));
  const init = {
    method: "POST",
    headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}`, "content-type": "application/json" },
    body: body.replace('"value":0', '"value":76159173374952512310'),
  };
  const answer = await call(`/operator/workspaces/${workspace.id}/rules`, init);
  expect([answer.status, await answer.text()]).toEqual([422, expect.stringContaining("as a text")]);
});

test("a user id of twenty digits, sent as a number or as a text, is the same id", async () => {
  const call1 = `{"type":"track","event":"A","messageId":"m1","userId":76159173374952512310}`;
  const call2 = `{"type":"track","event":"A","messageId":"m2","userId":76159173374952512311}`;
  const identify = { type: "identify", userId: "76159173374952512310", traits: { email: "ann@example.com" } };
  await deliver(workspace.id, [
    { id: "sig_1", payload: call1 },
    { id: "sig_2", payload: call2 },
    { id: "sig_3", payload: identify },
  ]);
  const trace = (id: string) => workspace.operator("GET", `/signals/${id}`);
  const person = { email: "ann@example.com", by: "user_id" };
  expect(await trace("sig_1")).toMatchObject({ user_id: "76159173374952512310", person, id_problem: null });
  expect(await trace("sig_2")).toMatchObject({ user_id: "76159173374952512311", person: null, id_problem: null });
});

describe("a preview", () => {
  test("says how many matches have lapsed points, and leaves these points out", async () => {
    const today = Date.now() - (Date.now() % DAY);
    // Points of a signal count for the rest of its day and 30 days more.
    const times = [today - 31 * DAY - 1, today - 31 * DAY, today - 31 * DAY + 1, today - 30 * DAY, today];
    await deliver(workspace.id, [
      ...times.map((at, n) => form(`sig_${n}`, "ann@example.com", {}, at)),
      form("sig_bob", "bob@example.com", {}, today),
    ]);
    const tried = (more: object) => preview({ ...aRule({ points: 10 }), ...more }, "?days=100");
    const found = { matches: 6, people: 2, complete: true };
    for (const [frequency, scoring_signals, points] of [
      ["every_time", 6, 30],
      ["once_per_day", 5, 30],
      // Ann's points would have lapsed with her earliest match.
      ["once_ever", 2, 10],
    ] as const) {
      const scored = { ...found, scoring_signals };
      expect(await tried({ frequency, points_last_days: 30 })).toMatchObject({ ...scored, lapsed: 3, points });
      expect(await tried({ frequency })).toMatchObject({ ...scored, lapsed: 0, points: scoring_signals * 10 });
      expect(await tried({ frequency, points_last_days: 90 })).toMatchObject({
        lapsed: 0,
        points: scoring_signals * 10,
      });
    }
  });

  test("reads signals up to its limit, and says if there are more", async () => {
    const limit = PREVIEW_STEP_SIGNALS + 50;
    const draft = { event: "Form", match: "all" as const, conditions: [], scoringSignal: "form", points: 3 };
    const tried = () => previewRule(env, workspace.id, draft, 30, limit);
    const bobs = Array.from({ length: limit - 1 }, (_, n) => form(`sig_many_${n}`, "bob@example.com"));
    await deliver(workspace.id, [form("sig_first", "ann@example.com")]);
    await deliver(workspace.id, bobs);
    expect(await tried()).toMatchObject({ scanned: limit, people: 2, complete: true });
    await deliver(workspace.id, [form("sig_last", "bob@example.com")]);
    expect(await tried()).toMatchObject({ scanned: limit, matches: limit, people: 1, complete: false });
  });
});

describe("applying a rule", () => {
  test("updates points and names, adds missing scores, and removes scores that no longer match", async () => {
    const { id } = await create(DEMO);
    await deliver(workspace.id, HISTORY);
    const left = await scores();
    const change = {
      points: 5,
      scoring_signal: "any form",
      conditions: [{ path: "email", operator: "starts_with", value: "b" }],
    };
    await workspace.operator("PATCH", `/rules/${id}`, change);
    expect(await scores()).toEqual(left);

    expect(await applyNow(id)).toMatchObject({ rule_version: 2, matched: 2, added: 1, changed: 1, removed: 3 });
    expect((await scores()).scoring).toMatchObject([
      { signal_id: "sig_3", scoring_signal: "any form", points: 5 },
      { signal_id: "sig_4", scoring_signal: "any form", points: 5 },
    ]);
    expect((await scores()).people).toContainEqual({ email: "bob@example.com", score: 10 });
    const [person] = (
      await signalStore(env, workspace.id).people({ email: "bob@example.com" }, { cursor: null, limit: 1 })
    ).items;
    expect(person?.scoringSignals.map(({ ruleVersion }) => ruleVersion)).toEqual([2, 2]);
  });

  test("makes the consumer evaluate signals in flight again with the newer rules", async () => {
    expectLogged("batch_failed");
    const { id } = await create(aRule());
    const stored = workspace.store;
    let records = 0;
    const record = async (...args: Parameters<typeof stored.record>) => {
      if (records++ === 0) {
        await workspace.operator("PATCH", `/rules/${id}`, { points: 8 });
        await applyNow(id);
      }
      return stored.record(...args);
    };
    const slow = new Proxy(stored, {
      get: (target, name) => (name === "record" ? record : Reflect.get(target, name, target)),
    });
    const bindings = { ...env, SIGNAL_STORE: { getByName: () => slow } } as unknown as Env;
    const message = messageOf(workspace.id, [form("sig_1", "ann@example.com")]);
    expect((await consumeMessages([message], { bindings })).retryMessages).toHaveLength(1);
    expect((await scores()).scoring).toEqual([]);
    expect((await consumeMessages([message], { bindings })).retryMessages).toEqual([]);
    expect((await scores()).people).toEqual([{ email: "ann@example.com", score: 8 }]);
  });
});

describe("a late request to apply to the past, which was read before a change that a signal was recorded with, changes nothing", () => {
  type Late = "applyRule" | "applyExclusions";
  const NOTHING = {
    people: [{ email: "ann@example.com", score: 0 }],
    answer: expect.stringContaining("newer mapping rules") as string,
  };

  /** Makes the change, and records a signal with it, before the request arrives at the store. */
  async function applyLate(
    apply: (context: WorkspaceContext) => Promise<unknown>,
    method: Late,
    change: () => unknown,
  ) {
    const SIGNAL_STORE = intercept(env.SIGNAL_STORE, async (given) => {
      if (given.method === method) {
        await change();
        await deliver(workspace.id, [form("sig_1", "ann@example.com")]);
      }
      return given.make();
    });
    const answer = await apply(workspace.context({ env: { ...env, SIGNAL_STORE } as Env })).catch(String);
    await ring(workspace.id);
    return { answer, people: (await scores()).people };
  }

  test("if the rule does not match any more", async () => {
    const { id } = await create(aRule());
    const other = { conditions: [{ path: "properties.form", operator: "equals", value: "demo" }] };
    const change = () => workspace.operator("PATCH", `/rules/${id}`, other);
    expect(await applyLate((context) => applyRuleNow(context, id), "applyRule", change)).toEqual(NOTHING);
    expect(await applyNow(id)).toMatchObject({ scanned: 1, matched: 0, added: 0 });
  });

  test("if the signal is excluded", async () => {
    await create(aRule());
    const conditions = [{ path: "email", operator: "equals", value: "ann@example.com" }];
    const change = () => workspace.operator("PUT", "/exclusions", { items: [{ name: "Ann", conditions }] });
    expect(await applyLate(applyExclusions, "applyExclusions", change)).toEqual(NOTHING);
  });
});

describe("spec §6.3: a rule proposed from a signal of the queue", () => {
  test("has conditions from the payload, can be saved unchanged, and matches the signal", async () => {
    await deliver(workspace.id, [form("sig_1", "ann@example.com", { form_name: "Demo", id: "7f3a91c2" })]);
    const proposed = await workspace.operator<Rule>("GET", "/signals/sig_1/proposed-rule");
    expect(proposed).toEqual({
      name: "Form: Demo",
      event: "Form",
      match: "all",
      conditions: [{ path: "properties.form_name", operator: "equals", value: "Demo" }],
      scoring_signal: "Form",
      points: 1,
      frequency: "every_time",
      points_last_days: null,
    });
    expect(await preview(proposed)).toMatchObject({ matches: 1, points: 1 });
    const { id } = await create(proposed);
    expect(await applyNow(id)).toMatchObject({ added: 1 });
  });

  test("is offered for held and anonymous signals too, but for no signal that rules cannot score", async () => {
    await deliver(workspace.id, HISTORY);
    const status = async (path: string) => {
      const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}` };
      return (await call(`/operator/workspaces/${workspace.id}/signals/${path}`, { headers })).status;
    };
    const found = await Promise.all(
      ["sig_1", "sig_5", "sig_7", "sig_9", "sig_8", "sig_a", "sig_b", "sig_none"].map((id) =>
        status(`${id}/proposed-rule`),
      ),
    );
    expect(found).toEqual([200, 200, 200, 200, 404, 404, 404, 404]);
  });
});
