/** What may happen in a life of the model run. To cover a new command of the store or the counter, add it here. */
import * as fc from "fast-check";
import { expect, vi } from "vitest";
import { startOfPeriod } from "./model.ts";
import type { Model } from "./model.ts";
import type { Rule, Said } from "./model-people.ts";
import { emailOf } from "./model-real.ts";
import type { Real } from "./model-real.ts";

/** Few, so that what is sent, linked and deleted meets. */
const PEOPLE = 2;

export type Command = fc.AsyncCommand<Model, Real>;

function command(says: string, run: (model: Model, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    run: async (model, real) => {
      real.tick();
      await run(model, real);
    },
    toString: () => says,
  };
}

const person = fc.nat(PEOPLE - 1);
const event = fc.constantFrom("opened", "clicked");
const hasId = fc.boolean();
const said: fc.Arbitrary<Said> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("signal" as const),
      person,
      names: fc.constantFrom<Said["names"][]>(
        ["email"],
        ["anonymous"],
        ["user"],
        ["email", "anonymous"],
        ["anonymous", "user"],
      ),
      event,
      hasId,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("identify" as const),
      person,
      names: fc.constantFrom<Said["names"][]>(
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
      person,
      names: fc.constant<Said["names"]>(["user"]),
      event: fc.constant("alias"),
      hasId,
    }),
  },
);
const saying = fc.record({ said, again: fc.option(fc.nat(3), { freq: 3 }) });
const call = fc.record({
  key: fc.constantFrom("key_a", "key_a", "key_b"),
  sayings: fc.array(saying, { minLength: 1, maxLength: 6 }),
});

async function admit(
  model: Model,
  real: Real,
  { key, sayings }: { key: string; sayings: readonly { said: Said; again: number | null }[] },
  dies: boolean,
): Promise<void> {
  const contents = sayings.map((one) => model.contentOf(one.said, one.again));
  const { ids, answer } = await real.admit(key, contents);
  expect(answer).toEqual(model.admit(key, ids, contents, Date.now(), dies));
}

const admitted: fc.Arbitrary<Command> = call.map((one) =>
  command(`admit ${JSON.stringify(one)}`, (model, real) => admit(model, real, one, false)),
);
const givenUp: fc.Arbitrary<Command> = call.map((one) =>
  command(`admit ${JSON.stringify(one)}, which the queue gives up`, async (model, real) => {
    await real.quiet();
    await admit(model, real, one, true);
    await real.giveUp();
  }),
);
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

const periodsEnd: fc.Arbitrary<Command> = fc
  .record({ periods: fc.integer({ min: 1, max: 3 }), rings: fc.nat(2) })
  .map(({ periods, rings }) =>
    command(`${periods} periods end, and the alarms ring ${rings} times`, async (model, real) => {
      for (let period = 0; period < periods; period++) endPeriod(model);
      for (let turn = 0; turn < rings; turn++) {
        await real.ringCounter();
        await real.ringStore();
      }
    }),
  );

function endPeriod(model: Model): void {
  model.endPeriod();
  vi.setSystemTime(startOfPeriod(model.period) + 60_000);
}

/** From then on, or in the past too. One that is switched off goes through the past at once, before it is switched on again. */
const changeRule: fc.Arbitrary<Command> = fc
  .record({
    event,
    rule: fc.record<Rule>({
      points: fc.integer({ min: -5, max: 20 }),
      frequency: fc.constantFrom("every_time", "once_per_day", "once_ever"),
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

/** Applies the rules that were changed to all that is there. */
export async function applyRules(model: Model, real: Real): Promise<void> {
  await real.quiet();
  for (const one of real.changed) {
    await real.applyRule(one);
    model.applyRule(one);
  }
  real.changed.clear();
  await real.quiet();
}

const replay: fc.Arbitrary<Command> = fc.option(fc.nat(2)).map((most) =>
  command(`replay ${most ?? "all"}`, async (model, real) => {
    await real.quiet();
    const ids = most === null ? null : model.dead.slice(0, most + 1).map(({ id }) => id);
    if (ids?.length === 0) return;
    const body = ids === null ? {} : { ids };
    expect(await real.workspace.operator("POST", "/dead-letters/replay", body)).toEqual(model.replay(ids));
  }),
);

const deletePerson: fc.Arbitrary<Command> = person.map((one) =>
  command(`delete ${emailOf(one)}`, async (model, real) => {
    await real.quiet();
    model.deletePerson(one);
    await real.deletePerson(one);
  }),
);

/** Each as likely as the next one; what happens most stands here several times. */
export const commands: fc.Arbitrary<Command>[] = [
  admitted,
  admitted,
  admitted,
  admitted,
  admitted,
  admitted,
  admitted,
  givenUp,
  givenUp,
  deliver,
  deliver,
  deliver,
  configure,
  configure,
  periodsEnd,
  changeRule,
  changeRule,
  fc.constant(
    command("release", async (model, real) => {
      await real.quiet();
      expect(await real.workspace.operator("POST", "/held/release")).toEqual(model.release());
    }),
  ),
  replay,
  replay,
  deletePerson,
  deletePerson,
  fc.constant(
    command("deactivate key_b", async (model, real) => {
      model.revoked.add("key_b");
      await real.workspace.counter.revoke("key_b");
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
  fc.constant(command("R2 refuses everything", (_, real) => real.loseCold())),
  fc.constant(command("the store has no room", (_, real) => real.fillStore())),
  fc
    .boolean()
    .map((wanted) => command(`somebody wants ${wanted ? "all" : "no"} events`, (_, real) => real.wantEvents(wanted))),
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
