/** The commands of a model run. Add a new command of the store or the counter here. */
import * as fc from "fast-check";
import { expect, vi } from "vitest";
import type { PeopleQuery } from "../../src/store/protocol/people-and-accounts.ts";
import { expectKnownWork } from "./known-work.ts";
import {
  emailOf,
  lineOf,
  personLine,
  previewOf,
  type Line,
  type ModelPreview,
  type RuleDraft,
} from "./model-expected.ts";
import {
  byText,
  expectAccounts,
  expectPeople,
  expectScores,
  expectSignals,
  expectTrace,
  readFile,
  readPages,
} from "./model-reads.ts";
import { isPlain } from "./log.ts";
import { ruleBody, type Real } from "./model-real.ts";
import { linesOf as linesOfFile } from "./workspace-file.ts";
import { startOfPeriod, type Content, type Draft, type Model, type Rule, type Shape } from "./model.ts";

type Command = fc.AsyncCommand<Model, Real>;

export function command(says: string, run: (model: Model, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    run: async (model, real) => {
      real.tick();
      await run(model, real);
      expectKnownWork();
    },
    toString: () => says,
  };
}

/** Mostly null; `fc.option` would make null rare. */
function seldom<T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.oneof({ weight: 3, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: value });
}

/** Few, so that sent, linked and deleted data overlap. */
const PEOPLE = 2;

const anyPerson = fc.nat(PEOPLE - 1);
const anyEvent = fc.constantFrom("opened", "clicked");
const hasId = fc.boolean();
const anyDraft: fc.Arbitrary<Draft> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("signal" as const),
      person: anyPerson,
      names: fc.constantFrom<Draft["names"][]>(
        ["email"],
        ["anonymous"],
        ["user"],
        ["email", "anonymous"],
        ["anonymous", "user"],
      ),
      event: anyEvent,
      hasId,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("identify" as const),
      person: anyPerson,
      names: fc.constantFrom<Draft["names"][]>(
        ["email", "anonymous"],
        ["email", "user"],
        ["email", "anonymous", "user"],
        ["anonymous", "user"],
      ),
      event: fc.constant("identify"),
      hasId,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("alias" as const),
      person: anyPerson,
      names: fc.constant<Draft["names"]>(["user"]),
      event: fc.constant("alias"),
      hasId,
    }),
  },
);
const anyItem = fc.record({ draft: anyDraft, again: seldom(fc.nat(3)) });
const anyCall = fc.record({
  key: fc.constantFrom("key_a", "key_a", "key_b", "key_c"),
  items: fc.array(anyItem, { minLength: 1, maxLength: 6 }),
});

interface Call {
  key: string;
  items: readonly { draft: Draft; again: number | null }[];
}

async function admit(model: Model, real: Real, { key, items }: Call, dies: boolean): Promise<void> {
  const contents = items.map((item) => model.contentOf(item.draft, item.again));
  await admitContents(model, real, { key, contents }, dies);
}

async function admitContents(
  model: Model,
  real: Real,
  { key, contents, template = null }: { key: string; contents: readonly Content[]; template?: number | null },
  dies: boolean,
): Promise<void> {
  const { ids, answer } = await real.admit(key, contents, template);
  expect(answer).toEqual(model.admit(key, ids, contents, Date.now(), { dies, template }));
}

const admitted: fc.Arbitrary<Command> = anyCall.map((made) =>
  command(`admit ${JSON.stringify(made)}`, (model, real) => admit(model, real, made, false)),
);
const givenUp: fc.Arbitrary<Command> = anyCall.map((made) =>
  command(`admit ${JSON.stringify(made)}, which the queue gives up`, async (model, real) => {
    await real.quiet();
    await admit(model, real, made, true);
    await real.giveUp();
  }),
);

const mapped = fc.array(
  fc.record({
    draft: fc.record<Draft>({
      kind: fc.constant("signal"),
      person: anyPerson,
      names: fc.constantFrom<Draft["names"][]>(["email"], ["anonymous"], ["user"], ["email", "user"]),
      event: anyEvent,
      hasId,
      shape: fc.constantFrom("what", "deed"),
    }),
    again: seldom(fc.nat(2)),
  }),
  { minLength: 1, maxLength: 4 },
);

/** Signals of a sender with a body of its own. What the template does not fit is a misfit. The edge may know an older version. */
const misfits: fc.Arbitrary<Command> = fc
  .record({ items: mapped, isOld: fc.boolean(), dies: fc.constantFrom(false, false, true) })
  .map((made) =>
    command(`admit by template ${JSON.stringify(made)}`, async (model, real) => {
      const { items, isOld, dies } = made;
      if (dies) await real.quiet();
      const contents = items.map((item) => model.contentOf(item.draft, item.again));
      const versions = [...model.templates.keys()];
      const template = versions.at(isOld ? -2 : -1) ?? model.newestTemplate;
      real.underWay.mapped = true;
      await admitContents(model, real, { key: real.templateKey, contents, template }, dies);
      if (dies) await real.giveUp();
    }),
  );

const changeTemplate: fc.Arbitrary<Command> = fc.constantFrom<Shape[]>("what", "deed").map((shape) =>
  command(`the template reads the event from ${shape}`, async (model, real) => {
    // A replay under way reads the newest version: which one that is must be known.
    if (real.underWay.replays) await real.quiet();
    model.templates.set(await real.changeTemplate(shape), shape);
  }),
);

/** Few accounts and plans, so that updates overlap. */
const updates = fc.array(
  fc.record({
    draft: fc.record<Draft>({
      kind: fc.constant("account"),
      person: fc.nat(1),
      names: fc.constant([]),
      event: fc.constantFrom("starter", "scale", ""),
      hasId: fc.boolean(),
    }),
    again: seldom(fc.nat(2)),
  }),
  { minLength: 1, maxLength: 3 },
);

/** Calls in separate messages. The last message may overtake the others, or the queue gives all of them up. */
const accounts: fc.Arbitrary<Command> = fc
  .record({
    calls: fc.array(updates, { minLength: 1, maxLength: 3 }),
    fate: fc.constantFrom("arrive later", "arrive later", "the last overtakes", "the last overtakes", "die"),
  })
  .map(({ calls, fate }) =>
    command(`admit accounts ${JSON.stringify(calls)}, ${fate}`, async (model, real) => {
      if (fate === "die") await real.quiet();
      for (const items of calls) {
        const known = model.contents.length;
        const contents = items.map((item) => model.contentOf(item.draft, item.again));
        // Of twins known by an id the first recorded one counts, so that the calls are recorded one by one.
        if (fate !== "die" && contents.some((content) => content.hasId && content.n < known)) await real.quiet();
        await admitContents(model, real, { key: real.accountsKey, contents }, fate === "die");
        await real.ringCounter();
      }
      if (fate === "die") await real.giveUp();
      if (fate === "the last overtakes") await real.deliverLast();
    }),
  );

const scoring = {
  points: fc.integer({ min: -5, max: 20 }),
  frequency: fc.constantFrom<Rule["frequency"][]>("every_time", "once_per_day", "once_ever"),
  of: seldom(anyPerson),
};

/**
 * The rule changes for new signals, or for past ones too. A disabled rule is applied to the past at once, before it
 * is enabled again.
 */
const changeRule: fc.Arbitrary<Command> = fc
  .record({
    event: anyEvent,
    rule: fc.record<Rule>({
      ...scoring,
      enabled: fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
    }),
    apply: fc.boolean(),
  })
  .map(({ event: about, rule, apply }) =>
    command(`${about} ${JSON.stringify(rule)}${apply ? ", in the past too" : ""}`, async (model, real) => {
      model.rules.set(about, rule);
      await real.changeRule(about, rule);
      if (!apply) return;
      await real.applyRule(about);
      if (!rule.enabled) await real.quiet();
      model.applyRule(about);
    }),
  );

/** The exclusions change for new signals, or for past ones too. */
const changeExclusions: fc.Arbitrary<Command> = fc
  .record({
    people: fc.subarray([0, 1]),
    events: fc.subarray(["opened"]),
    apply: fc.boolean(),
  })
  .map(({ people, events, apply }) => {
    const exclusions = [...people.map((of) => ({ of })), ...events.map((one) => ({ event: one }))];
    const words = `exclude ${JSON.stringify(exclusions)}${apply ? ", in the past too" : ""}`;
    return command(words, async (model, real) => {
      model.exclusions = exclusions;
      await real.changeExclusions(exclusions);
      if (apply) await real.applyExclusions();
    });
  });

/** Applies the changed rules and exclusions to all stored signals. */
export async function applyRules(model: Model, real: Real): Promise<void> {
  await real.quiet();
  if (real.haveExclusionsChanged) await real.applyExclusions();
  for (const rule of real.changed) {
    await real.applyRule(rule);
    model.applyRule(rule);
  }
  real.changed.clear();
  await real.quiet();
}

const draft: fc.Arbitrary<RuleDraft> = fc.record({
  ...scoring,
  event: fc.constantFrom("opened", "clicked", "*", "*", "*ed", "alias"),
  days: fc.constantFrom(20, 3_650),
});

/** The preview equals the rule's effect if it covers all signals. */
export const preview: fc.Arbitrary<Command> = draft.map((tried) =>
  command(`try ${JSON.stringify(tried)}`, async (model, real) => {
    await real.quiet();
    // The preview of a rule leaves out what is excluded.
    if (real.haveExclusionsChanged) await real.applyExclusions();
    await real.quiet();
    const { days, ...rest } = tried;
    const body = { ...ruleBody(rest), name: "tried", scoring_signal: "tried" };
    type Answer = ModelPreview & { samples: { id: string }[]; scanned: number };
    const { samples, scanned, ...answer } = await real.workspace.operator<Answer>(
      "POST",
      `/rules/preview?days=${days}`,
      body,
    );
    const predicted = previewOf(model, tried, Date.now());
    // No rule of the model has points that lapse.
    expect(answer).toEqual({ ...predicted.answer, lapsed: 0 });
    expect(scanned).toBeGreaterThanOrEqual(answer.matches);
    const shown = samples.map(({ id }) => model.signals.find((signal) => signal.id === id)?.n);
    expect(shown.length).toBe(Math.min(predicted.contents.length, 10));
    expect(predicted.contents).toEqual(expect.arrayContaining(shown));
    if (days > 20 && real.rules.has(tried.event)) await expectToDoSo(model, real, tried, predicted.answer);
  }),
);

/** Saves the previewed rule for the event and applies it. */
async function expectToDoSo(
  model: Model,
  real: Real,
  { event: about, points, frequency, of }: RuleDraft,
  tried: ModelPreview,
) {
  const rule = { points, frequency, of, enabled: true };
  model.rules.set(about, rule);
  await real.changeRule(about, rule);
  await real.applyRule(about);
  model.applyRule(about);
  await real.quiet();
  const job = await real.workspace.operator("GET", `/rules/${real.rules.get(about)}/apply`);
  expect(job).toMatchObject({ status: "done", matched: tried.matches });
  // Scores of signals deleted by retention stay, and the preview does not include them.
  if (model.hasDropped) return;
  const scored = (await readFile(real, "scoring-signals", "ndjson")).filter((row) => row["scoring_signal"] === about);
  expect(scored.length).toBe(tried.scoring_signals);
  expect(scored.reduce((sum, row) => sum + Number(row["points"]), 0)).toBe(tried.points);
}

const format = fc.constantFrom("ndjson" as const, "csv" as const);
const limit = fc.constantFrom(1, 1, 2, 4);

const files: fc.Arbitrary<Command> = format.map((as) =>
  command(`signals and people as ${as}`, async (model, real) => {
    await real.quiet();
    await expectSignals(model, real, as);
    await expectPeople(model, real, as);
  }),
);

const accountList: fc.Arbitrary<Command> = limit.map((most) =>
  command(`accounts, ${most} a page`, async (model, real) => {
    await real.quiet();
    await expectAccounts(model, real, most);
  }),
);

const trace: fc.Arbitrary<Command> = fc.nat(40).map((back) =>
  command(`the trace of signal ${back}, counted from the end`, async (model, real) => {
    await real.quiet();
    const signal = model.signals.at(-1 - (back % Math.max(model.signals.length, 1)));
    if (signal !== undefined) await expectTrace(model, real, signal);
  }),
);

/** People by a part of their email, in any letter case, or by the whole email. */
const people: fc.Arbitrary<Command> = fc
  .record({ asked: fc.constantFrom("", "q=P1", "q=%40example", "q=p0@e", "q=nobody", "email=P0@example.com"), limit })
  .map(({ asked, limit: most }) =>
    command(`people ${asked}, ${most} a page`, async (model, real) => {
      await real.quiet();
      type Shown = { email: string; identities: { kind: string; value: string }[] };
      const shown = (await readPages<Shown>(real, `/people?${asked}`, most)).map(({ email, identities }) => ({
        email,
        anonymousIds: identities.filter(({ kind }) => kind === "anonymous_id").map(({ value }) => value),
        userIds: identities.flatMap(({ kind, value }) => (kind === "user_id" ? [value] : [])).toSorted(),
      }));
      const part = decodeURIComponent(asked.split("=")[1] ?? "").toLowerCase();
      const wanted = [...model.scores().keys()].filter((person) => emailOf(person).includes(part));
      expect(byText(shown)).toEqual(byText(wanted.map((person) => personLine(model, person))));
    }),
  );

/** Signals that share some fields of a given one. The counts do not depend on which twin has taken effect. */
const signals: fc.Arbitrary<Command> = fc
  .record({ back: fc.nat(40), by: fc.subarray(["event", "status", "email"] as const), limit })
  .map(({ back, by, limit: most }) =>
    command(`signals with the ${by.join(", ")} of signal ${back}, ${most} a page`, async (model, real) => {
      await real.quiet();
      const lines = linesOf(model);
      const like = lines.at(-1 - (back % Math.max(lines.length, 1)))?.line;
      const asked = by.flatMap((name) =>
        like === undefined || like[name] === "" ? [] : [[name, like[name]] as const],
      );
      const query = new URLSearchParams(asked.map(([name, value]) => [name, value]));
      const shown = await readPages<Record<string, string | null>>(real, `/signals?${query.toString()}`, most);
      const wanted = lines.filter(({ line }) => asked.every(([name, value]) => line[name] === value));
      // A dead letter is shown with what was sent, whatever it is worth.
      const parts = ({ status, kind, event, email }: Partial<Record<keyof Line, unknown>>) =>
        [status, kind, ...(status === "dead" ? [] : [event, email])].map((value) => value ?? "");
      const numberOf = (id: unknown) => model.signals.find((signal) => signal.id === id)?.n;
      expect(new Set(shown.map(({ id }) => id)).size).toBe(shown.length);
      expect(byText(shown.map(({ id, ...rest }) => [numberOf(id), ...parts(rest)]))).toEqual(
        byText(wanted.map(({ n, line }) => [n, ...parts(line)])),
      );
    }),
  );

function linesOf(model: Model): { n: number; line: Line }[] {
  return model.signals
    .filter(({ isGone }) => !isGone)
    .map((signal) => ({ n: signal.n, line: lineOf(model, signal, signal.place) }));
}

/** Scores, and people sorted by score, one person per page. */
const scores: fc.Arbitrary<Command> = fc
  .record({
    sort: fc.constantFrom<PeopleQuery["sort"][]>("score", "score_up", "email"),
    minScore: fc.option(fc.integer({ min: -5, max: 30 })),
    text: fc.constantFrom("", "p", "P1"),
    as: format,
  })
  .map(({ as, minScore, ...asked }) =>
    command(`scores as ${as}, people ${JSON.stringify({ ...asked, minScore })}`, async (model, real) => {
      await applyRules(model, real);
      await expectScores(model, real, as);
      const query: PeopleQuery = { ...asked, ...(minScore === null ? {} : { minScore }) };
      const wanted = [...model.scores()]
        .filter(([person, score]) => score >= (minScore ?? score) && emailOf(person).includes(asked.text.toLowerCase()))
        .map(([person, score]) => ({ email: emailOf(person), score }));
      const shown = await readOrdered(real, query);
      expect(byText(shown)).toEqual(byText(wanted));
      expect(shown).toEqual(inOrder(shown, asked.sort));
    }),
  );

async function readOrdered(real: Real, query: PeopleQuery): Promise<{ email: string; score: number }[]> {
  const shown: { email: string; score: number }[] = [];
  let cursor: string | null = null;
  do {
    const page = await real.workspace.store.findPeople(query, { cursor, limit: 1 });
    shown.push(...page.items.map(({ email, score }) => ({ email, score })));
    cursor = page.next;
  } while (cursor !== null && shown.length < 100);
  return shown;
}

function inOrder(shown: { email: string; score: number }[], sort: PeopleQuery["sort"]) {
  if (sort === "email") return shown.toSorted((a, b) => (a.email < b.email ? -1 : 1));
  return shown.toSorted((a, b) => (sort === "score" ? b.score - a.score : a.score - b.score));
}

/** One of these checks, each equally likely. A check first waits for every message, so that it must be rare. */
export const look: fc.Arbitrary<Command> = fc.oneof(files, accountList, trace, people, signals, scores);

const deliver: fc.Arbitrary<Command> = fc
  .record({ from: fc.nat(20), most: fc.integer({ min: 1, max: 6 }), again: fc.boolean() })
  .map((which) => command(`deliver ${JSON.stringify(which)}`, (_, real) => real.deliver(which)));
const configure: fc.Arbitrary<Command> = fc
  .record({ signalLimit: fc.oneof(fc.constant(5), fc.nat(8)), paid: fc.boolean(), overages: fc.boolean() })
  .map((plan) =>
    command(`configure ${JSON.stringify(plan)}`, async (model, real) => {
      model.plan = plan;
      await real.configure(plan);
    }),
  );

const limitKeys: fc.Arbitrary<Command> = fc
  .record({ key_a: fc.nat(6), key_b: fc.nat(6) }, { requiredKeys: [] })
  .map((limits) =>
    command(`limit keys ${JSON.stringify(limits)}`, async (model, real) => {
      model.limitKeys(limits);
      await real.limitKeys(model.plan, limits);
    }),
  );

const periodsEnd: fc.Arbitrary<Command> = fc
  .record({ periods: fc.integer({ min: 1, max: 3 }), rings: fc.nat(2) })
  .map(({ periods, rings }) =>
    command(`${periods} periods end, and the alarms ring ${rings} times`, async (model, real) => {
      // The period in which a misfit is recorded must be known.
      if (real.underWay.mapped) await real.quiet();
      for (let period = 0; period < periods; period++) endPeriod(model);
      for (let turn = 0; turn < rings; turn++) {
        await real.ringCounter();
        await real.ringStore();
      }
    }),
  );

/** A period begins so much later in the day than the one before, so that of what waits for days only whole days count. */
const LATER_EACH_PERIOD_MS = 600_000;

function endPeriod(model: Model): void {
  model.endPeriod();
  vi.setSystemTime(startOfPeriod(model.period) + model.period * LATER_EACH_PERIOD_MS);
}

const replay: fc.Arbitrary<Command> = fc.option(fc.nat(2)).map((most) =>
  command(`replay ${most ?? "all"}`, async (model, real) => {
    await real.quiet();
    const ids = most === null ? null : model.dead.slice(0, most + 1).map(({ id }) => id);
    if (ids?.length === 0) return;
    const body = ids === null ? {} : { ids };
    real.underWay = { mapped: true, replays: true };
    expect(await real.workspace.operator("POST", "/dead-letters/replay", body)).toEqual(model.replay(ids));
  }),
);

const deletePerson: fc.Arbitrary<Command> = anyPerson.map((number) =>
  command(`delete ${emailOf(number)}`, async (model, real) => {
    await real.quiet();
    model.deletePerson(number);
    await real.deletePerson(number);
  }),
);

/** The pause after a notification of dead letters ends by itself, when the next alarm finds that none waits. */
function withoutPause<T extends { row?: unknown }>(line: T): T {
  const { meta } = (line.row ?? {}) as { meta?: unknown };
  if (typeof meta !== "string") return line;
  const read = JSON.parse(meta) as { deadLetterNotification?: { waiting: unknown[] } | null };
  const isOver = read.deadLetterNotification?.waiting.length === 0;
  return {
    ...line,
    row: { ...(line.row as object), meta: { ...read, ...(isOver && { deadLetterNotification: null }) } },
  };
}

/** A quiet workspace is the same file again. */
const move: fc.Arbitrary<Command> = fc.boolean().map((isQuiet) =>
  command(`the workspace moves${isQuiet ? " when it is quiet" : ""}`, async (_, real) => {
    if (isQuiet) await real.quiet();
    const { before, after } = await real.move();
    if (isQuiet) expect(linesOfFile(await after()).map(withoutPause)).toEqual(linesOfFile(before).map(withoutPause));
  }),
);

const times = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);

/** Each entry is equally likely; frequent commands are listed several times. */
export const commands: fc.Arbitrary<Command>[] = [
  ...times(7, admitted),
  ...times(4, deliver),
  ...[
    givenUp,
    accounts,
    misfits,
    changeTemplate,
    configure,
    limitKeys,
    changeRule,
    changeExclusions,
    look,
    replay,
    deletePerson,
  ].flatMap((often) => times(2, often)),
  periodsEnd,
  preview,
  // The plain log has other tables than a file.
  ...(isPlain ? [] : [move]),
  fc.constant(
    command("release", async (model, real) => {
      await real.quiet();
      real.underWay.mapped = true;
      expect(await real.workspace.operator("POST", "/held/release")).toEqual(model.release());
    }),
  ),
  fc.constant(
    command("deactivate key_b", async (model, real) => {
      model.deactivated.add("key_b");
      await real.workspace.counter.deactivate("key_b");
    }),
  ),
  fc.constant(command("the counter's alarm", (_, real) => real.ringCounter())),
  fc.constant(command("the store's alarm", (_, real) => real.ringStore())),
  fc.constant(command("the counter starts again", (_, real) => real.restartCounter())),
  fc.constant(command("the store starts again", (_, real) => real.restartStore())),
  fc.constant(
    command("the queue loses all", (_, real) => {
      real.lose();
      return Promise.resolve();
    }),
  ),
  fc.constant(command("R2 rejects everything", (_, real) => real.loseCold())),
  fc.constant(command("the store has no room", (_, real) => real.fillStore())),
  fc
    .boolean()
    .map((wanted) =>
      command(`somebody wants ${wanted ? "all" : "no"} notifications`, (_, real) => real.wantNotifications(wanted)),
    ),
  fc.constant(
    command("a period ends, and retention deletes what was before", async (model, real) => {
      await applyRules(model, real);
      endPeriod(model);
      model.dropEarlier();
      await real.quiet();
      await real.dropEarlier();
    }),
  ),
];
