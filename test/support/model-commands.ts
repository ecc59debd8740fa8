/** The commands of a model run. Add a new command of the store or the counter here. */
import * as fc from "fast-check";
import { expect, vi } from "vitest";
import { command } from "./model-command.ts";
import type { Command } from "./model-command.ts";
import { emailOf } from "./model-lines.ts";
import { look } from "./model-looks.ts";
import { startOfPeriod } from "./model.ts";
import type { Model } from "./model.ts";
import { applyRules, changeRule, preview } from "./model-rule-commands.ts";
import { accounts, admitted, givenUp, person } from "./model-calls.ts";

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

const replay: fc.Arbitrary<Command> = fc.option(fc.nat(2)).map((most) =>
  command(`replay ${most ?? "all"}`, async (model, real) => {
    await real.quiet();
    const ids = most === null ? null : model.dead.slice(0, most + 1).map(({ id }) => id);
    if (ids?.length === 0) return;
    const body = ids === null ? {} : { ids };
    expect(await real.workspace.operator("POST", "/dead-letters/replay", body)).toEqual(model.replay(ids));
  }),
);

const deletePerson: fc.Arbitrary<Command> = person.map((number) =>
  command(`delete ${emailOf(number)}`, async (model, real) => {
    await real.quiet();
    model.deletePerson(number);
    await real.deletePerson(number);
  }),
);

/** Each entry is equally likely; frequent commands are listed several times. */
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
  accounts,
  accounts,
  deliver,
  deliver,
  deliver,
  deliver,
  configure,
  configure,
  periodsEnd,
  changeRule,
  changeRule,
  preview,
  look,
  look,
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
