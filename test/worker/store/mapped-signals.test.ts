/** A line keeps what a signal template made of its payload, so nothing that evaluates it later reads the payload as a signal again. */
import { describe, expect, test } from "vitest";
import type { MappingRule } from "../../../src/domain/rules/mapping-rule.ts";
import type { SignalMapping } from "../../../src/domain/template/signal-template.ts";
import { findDeletion } from "../../../src/store/deletion/person-deletions.ts";
import { suggestForRule } from "../../../src/store/queries/event-groups.ts";
import { traceSignal } from "../../../src/store/queries/newest-signals.ts";
import { previewPart } from "../../../src/store/queries/rule-preview.ts";
import { startRuleJob, stepRuleJob } from "../../../src/store/rules/rule-jobs.ts";
import { updateGroups } from "../../../src/store/state/status-change.ts";
import { expectStateToAddUp } from "../../support/adds-up.ts";
import { identify, inStore, type Sent, type TestStore } from "../../support/store.ts";

const NOW = Date.now();
const DAY = 24 * 3_600_000;

/** What a sender says, in the service's own form or in the form of a vendor that nobody can change. */
interface Said {
  event: string;
  form: string;
  ago: number;
  email?: string;
  userId?: string;
  anonymousId?: string;
  name?: string;
}

const TEMPLATE: SignalMapping[] = [
  { target: "event", path: "kind" },
  { target: "source", text: "vendor" },
  { target: "email", path: "contact.mail" },
  { target: "user_id", path: "contact.id" },
  { target: "anonymous_id", path: "visitor" },
  { target: "name", path: "contact.full" },
  { target: "occurred_at", path: "when" },
];

type Write = (said: Said) => Sent;

/** `type` and `userId` make a call of a CDP of it, and `event` another event, for whoever reads the payload as a signal. */
const ofVendor: Write = ({ event, form, ago, email, userId, anonymousId, name }) => ({
  payload: {
    kind: event,
    type: "alias",
    event: "wrong",
    email: "wrong@example.com",
    userId: "wrong-user",
    previousId: "wrong-previous",
    contact: { mail: email, id: userId, full: name },
    visitor: anonymousId,
    when: new Date(NOW - ago).toISOString(),
    form,
  },
  template: TEMPLATE,
});
const ofService: Write = ({ form, ago, name, ...said }) => ({
  payload: {
    ...said,
    source: "vendor",
    traits: { name },
    occurred_at: new Date(NOW - ago).toISOString(),
    properties: { form },
  },
});

const RULE: MappingRule = {
  id: "rule_1",
  version: 1,
  event: "Form",
  match: "all",
  conditions: [{ path: "properties.form", operator: "equals", value: "demo" }],
  scoringSignal: "demo",
  points: 3,
};
const NEWER: MappingRule = {
  ...RULE,
  version: 2,
  conditions: [
    { path: "source", operator: "equals", value: "vendor" },
    { path: "email", operator: "contains", value: "example.com" },
    { path: "properties.form", operator: "in", value: ["demo", "trial"] },
  ],
  points: 5,
};

const WHEN = { periodStartMs: NOW - 10 * DAY, periodEndMs: NOW + 20 * DAY };

function record(store: TestStore, rules: readonly MappingRule[], write: Write, ...said: Said[]): void {
  store.mappingRules = rules;
  store.record(NOW, ...said.map((each) => ({ ...write(each), ...WHEN })));
}

/** What pages show of people and groups, and what a preview finds. */
async function look(store: TestStore) {
  store.seal();
  store.restart();
  const { sql } = store;
  const people = sql.exec("SELECT email, name, score, first_seen, last_seen FROM people ORDER BY email").toArray();
  updateGroups(store.state);
  const groups = sql
    .exec("SELECT event, source, count, held, anonymous FROM event_groups ORDER BY event, source")
    .toArray();
  const range = { sinceMs: 0, today: Math.floor(NOW / DAY), beforeSeq: Number.MAX_SAFE_INTEGER, limit: 100 };
  const { scanned, matches, people: found } = await previewPart(store.shown, NEWER, range);
  return { people, groups, preview: { scanned, matches, people: found.length } };
}

async function applyToPast(store: TestStore, rule: MappingRule): Promise<void> {
  updateGroups(store.state);
  startRuleJob(store.state, { ruleId: rule.id, rule, rulesVersion: rule.version }, NOW);
  store.state.signals.flush();
  // oxlint-disable-next-line no-await-in-loop -- each step continues the step before
  while (await stepRuleJob(store.state, store.storage));
}

/** Returns what is there after each step of a life. */
async function live(store: TestStore, write: Write) {
  const seen: Awaited<ReturnType<typeof look>>[] = [];
  const visit = { event: "Form", form: "demo", ago: 60_000 };
  store.rulesVersion = 1;
  record(store, [RULE], write, { ...visit, email: "ann@example.com", name: "Ann" });
  record(store, [RULE], write, { ...visit, form: "trial", email: "ann@example.com" });
  record(store, [RULE], write, { ...visit, anonymousId: "visitor-bob" });
  record(store, [RULE], write, { ...visit, form: "trial", anonymousId: "visitor-bob", ago: 2 * DAY });
  record(store, [RULE], write, { ...visit, userId: "user-carl" }, { ...visit, userId: "user-carl", ago: DAY });
  seen.push(await look(store));

  await applyToPast(store, NEWER);
  seen.push(await look(store));

  // Newer rules than those that evaluated the visitors' lines.
  store.rulesVersion = 3;
  store.mappingRules = [NEWER];
  store.record(NOW, identify("bob@example.com", { anonymousId: "visitor-bob" }, WHEN));
  store.record(NOW, identify("carl@example.com", { userId: "user-carl" }, WHEN));
  await store.linkAll();
  seen.push(await look(store));

  record(store, [NEWER], write, { ...visit, anonymousId: "visitor-dora" });
  const held = { ...WHEN, verdict: "held" as const };
  store.record(NOW, { ...write({ ...visit, userId: "user-carl", ago: 5 }), ...held });
  store.record(NOW, { ...write({ ...visit, event: "alias", userId: "user-carl" }), ...held });
  store.beginDeletion("carl@example.com", NOW);
  seen.push(await look(store));
  record(store, [NEWER], write, { ...visit, userId: "user-carl", ago: 7 });
  store.finishDeletions(NOW);
  seen.push(await look(store));
  expectStateToAddUp(store.state);
  const { identities, held: heldDeleted, signals } = findDeletion(store.sql, "carl@example.com") ?? {};
  return { seen, deletion: { identities, held: heldDeleted, signals } };
}

test("the same life with and without a template gives the same people, points, groups and previews", async () => {
  const [mapped, plain] = await Promise.all([
    inStore((store) => live(store, ofVendor)),
    inStore((store) => live(store, ofService)),
  ]);
  expect(mapped).toEqual(plain);
  expect(mapped.seen.map(({ people }) => people.map(({ score }) => score))).toEqual([
    [3],
    [10],
    [10, 10, 10],
    [10, 10],
    [10, 10],
  ]);
});

describe("a mapped signal", () => {
  const said = { event: "Form", form: "demo", ago: 0, email: "ann@example.com", name: "Ann" };

  test("has the result of its template in its trace", () =>
    inStore(async (store) => {
      const [id = ""] = store.record(NOW, { ...ofVendor(said), ...WHEN });
      expect(await traceSignal(() => store.shown, id)).toMatchObject({
        event: "Form",
        source: "vendor",
        email: "ann@example.com",
        traits: { name: "Ann" },
        mapped: true,
      });
    }));

  test("offers the fields of its payload to the rule editor", () =>
    inStore(async (store) => {
      record(store, [], ofVendor, said);
      updateGroups(store.state);
      const { paths } = await suggestForRule(store.shown, "Form");
      expect(paths).toContain("properties.contact.mail");
    }));
});
