/** The calls of senders in a run of the model: signals, identify calls, aliases, account updates. */
import * as fc from "fast-check";
import { expect } from "vitest";
import { command, seldom } from "./model-command.ts";
import type { Command } from "./model-command.ts";
import type { Content, Model } from "./model.ts";
import type { Draft } from "./model-people.ts";
import type { Real } from "./model-real.ts";

/** Few, so that sent, linked and deleted data overlap. */
const PEOPLE = 2;

export const person = fc.nat(PEOPLE - 1);
export const event = fc.constantFrom("opened", "clicked");
const hasId = fc.boolean();
const anyDraft: fc.Arbitrary<Draft> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("signal" as const),
      person,
      names: fc.constantFrom<Draft["names"][]>(
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
      person,
      names: fc.constant<Draft["names"]>(["user"]),
      event: fc.constant("alias"),
      hasId,
    }),
  },
);
const anyItem = fc.record({ draft: anyDraft, again: seldom(fc.nat(3)) });
const anyCall = fc.record({
  key: fc.constantFrom("key_a", "key_a", "key_b"),
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
  { key, contents }: { key: string; contents: readonly Content[] },
  dies: boolean,
): Promise<void> {
  const { ids, answer } = await real.admit(key, contents);
  expect(answer).toEqual(model.admit(key, ids, contents, Date.now(), dies));
}

export const admitted: fc.Arbitrary<Command> = anyCall.map((made) =>
  command(`admit ${JSON.stringify(made)}`, (model, real) => admit(model, real, made, false)),
);
export const givenUp: fc.Arbitrary<Command> = anyCall.map((made) =>
  command(`admit ${JSON.stringify(made)}, which the queue gives up`, async (model, real) => {
    await real.quiet();
    await admit(model, real, made, true);
    await real.giveUp();
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

/** Calls in separate messages, the last of which may overtake the others, or all of which the queue gives up. */
export const accounts: fc.Arbitrary<Command> = fc
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
