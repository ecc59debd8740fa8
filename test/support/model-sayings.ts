/** What senders say in a life of the model run: signals, identify calls, aliases, account updates. */
import * as fc from "fast-check";
import { expect } from "vitest";
import { command, seldom } from "./model-command.ts";
import type { Command } from "./model-command.ts";
import type { Model } from "./model.ts";
import type { Said } from "./model-people.ts";
import type { Real } from "./model-real.ts";

/** Few, so that what is sent, linked and deleted meets. */
const PEOPLE = 2;

export const person = fc.nat(PEOPLE - 1);
export const event = fc.constantFrom("opened", "clicked");
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
const saying = fc.record({ said, again: seldom(fc.nat(3)) });
const call = fc.record({
  key: fc.constantFrom("key_a", "key_a", "key_b"),
  sayings: fc.array(saying, { minLength: 1, maxLength: 6 }),
});

interface Call {
  key: string;
  sayings: readonly { said: Said; again: number | null }[];
}

async function admit(model: Model, real: Real, { key, sayings }: Call, dies: boolean): Promise<void> {
  const contents = sayings.map((one) => model.contentOf(one.said, one.again));
  const { ids, answer } = await real.admit(key, contents);
  expect(answer).toEqual(model.admit(key, ids, contents, Date.now(), dies));
}

export const admitted: fc.Arbitrary<Command> = call.map((one) =>
  command(`admit ${JSON.stringify(one)}`, (model, real) => admit(model, real, one, false)),
);
export const givenUp: fc.Arbitrary<Command> = call.map((one) =>
  command(`admit ${JSON.stringify(one)}, which the queue gives up`, async (model, real) => {
    await real.quiet();
    await admit(model, real, one, true);
    await real.giveUp();
  }),
);

/** Few accounts and plans, so that updates meet. Which of twins is the later word depends on the order: they come one by one. */
export const accounts: fc.Arbitrary<Command> = fc
  .record({
    sayings: fc.array(
      fc.record({
        said: fc.record<Said>({
          kind: fc.constant("account"),
          person: fc.nat(1),
          names: fc.constant([]),
          event: fc.constantFrom("starter", "scale", ""),
          hasId: fc.boolean(),
        }),
        again: seldom(fc.nat(2)),
      }),
      { minLength: 1, maxLength: 4 },
    ),
    leaves: fc.constantFrom("later", "at once", "ahead of all"),
    dies: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  })
  .map(({ sayings, leaves, dies }) =>
    command(`admit accounts ${JSON.stringify({ sayings, leaves, dies })}`, async (model, real) => {
      if (dies || sayings.some(({ again }) => again !== null)) await real.quiet();
      await admit(model, real, { key: real.accountsKey, sayings }, dies);
      if (leaves !== "later") await real.ringCounter();
      if (dies) await real.giveUp();
      else if (leaves === "ahead of all") await real.deliverLast();
    }),
  );
