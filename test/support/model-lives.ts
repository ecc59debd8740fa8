/**
 * Random lives of a workspace: the real Quota Counter, consumer and Signal Store do what a life says, and so does the plain
 * model of them. Whatever is sent, changed, lost, repeated, restarted or late, every answer and every count is what the model
 * says.
 */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { ring, ringUntilQuiet } from "./cold.ts";
import { admitCall } from "./counter.ts";
import type { Queued } from "./counter.ts";
import { consumeMessages } from "./deliver.ts";
import { writeSignal } from "../../src/wire/message.ts";
import { expectToAddUp } from "./read-store.ts";
import { operator, TestWorkspace } from "./workspace.ts";
import { MODEL_ANCHOR, Model, startOfPeriod } from "./model.ts";
import type { Plan, Said } from "./model.ts";

/** In a run of the tests. */
const LIVES = 300;
const PEOPLE = 3;
const emailOf = (person: number): string => `p${person}@example.com`;

afterEach(() => {
  vi.useRealTimers();
});

/** A workspace whose queue is a list: what is in it is delivered when, and as often as, a run says. */
class Real {
  readonly workspace: TestWorkspace;
  readonly rules = new Map<string, string>();
  readonly changed = new Set<string>();
  /** Whether the counter has started again: it may have forgotten refusals that it had not written yet. */
  restarted = false;
  #queue: string[] = [];
  #sent = 0;

  private constructor(workspace: TestWorkspace) {
    this.workspace = workspace;
  }

  static async make(model: Model): Promise<Real> {
    vi.useFakeTimers({ toFake: ["Date"], now: MODEL_ANCHOR + 5_000 });
    const anchor = new Date(MODEL_ANCHOR).toISOString();
    const slug = `w-${crypto.randomUUID()}`;
    const { id } = await operator<{ id: string }>("POST", "/workspaces", { slug, name: slug, plan: "free", anchor });
    const real = new Real(new TestWorkspace(id, { id: "", key: "" }));
    for (const [event, points] of model.points) {
      const rule = { name: event, event, conditions: [], scoring_signal: event, points };
      real.rules.set(event, (await real.workspace.operator<{ id: string }>("POST", "/rules", rule)).id);
    }
    await real.configure(model.plan);
    await real.catchMessages();
    return real;
  }

  tick(): void {
    vi.setSystemTime(Date.now() + 1_000);
  }

  async configure(plan: Plan): Promise<void> {
    await this.workspace.counter.configure({ ...plan, anchorMs: MODEL_ANCHOR });
  }

  async admit(key: string, said: readonly Said[]): Promise<{ ids: string[]; answer: unknown }> {
    const ids = said.map(() => `sig_${crypto.randomUUID()}`);
    const text = said.map((one, index) => writeSignal({ id: ids[index] ?? "", key }, this.#payload(one))).join("");
    const chunks = [{ text, count: said.length, bytes: new TextEncoder().encode(text).length }];
    const result = await this.workspace.counter.admit({ ...admitCall(0, { keyId: key }), chunks });
    if (result.outcome !== "counted") return { ids, answer: result.outcome };
    const { accepted, held, rejected, refusal } = result;
    return { ids, answer: { accepted, held, rejected, code: refusal?.code ?? null } };
  }

  #payload({ kind, person, names, event }: Said): string {
    return JSON.stringify({
      type: kind === "identify" ? "identify" : "track",
      n: this.#sent++,
      ...(names === "email" ? {} : { anonymousId: `visitor-${person}` }),
      ...(names === "anonymous"
        ? {}
        : kind === "identify"
          ? { traits: { email: emailOf(person) } }
          : { email: emailOf(person) }),
      ...(kind === "identify" ? {} : { event }),
    });
  }

  /** From now on, until the counter is started again. */
  async catchMessages(): Promise<void> {
    const sendBatch = (messages: Queued[]) => {
      this.#queue.push(...messages.map(({ body }) => body));
      return Promise.resolve();
    };
    await runInDurableObject(this.workspace.counter, (instance) => {
      Object.assign(instance, { env: { ...env, SIGNALS: { sendBatch } } });
    });
  }

  /** Some of what is in the queue, maybe in another order, maybe once more later. */
  async deliver({ from, most, again }: { from: number; most: number; again: boolean }): Promise<void> {
    if (this.#queue.length === 0) await this.ringCounter();
    const start = this.#queue.length === 0 ? 0 : from % this.#queue.length;
    const bodies = this.#queue.slice(start, start + most);
    if (!again) this.#queue.splice(start, bodies.length);
    if (bodies.length > 0) await consumeMessages(bodies);
  }

  /** The queue forgets everything. */
  lose(): void {
    this.#queue = [];
  }

  async ringCounter(): Promise<void> {
    await runInDurableObject(this.workspace.counter, (instance) => instance.alarm());
  }

  /** What was in memory is gone, and what it sent is sent again from the oldest row on. */
  async restartCounter(): Promise<void> {
    this.restarted = true;
    await restart(this.workspace.counter);
    await this.catchMessages();
  }

  async restartStore(): Promise<void> {
    await restart(this.workspace.store);
  }

  /** Until everything has arrived, and nothing is left to be done. */
  async quiet(): Promise<void> {
    for (let turn = 0; turn < 20; turn++) {
      await this.ringCounter();
      for (let message = 0; message < 100 && this.#queue.length > 0; message++) {
        await this.deliver({ from: 0, most: 10, again: false });
      }
      if ((await this.workspace.counter.books()).unsettled === 0) return ringUntilQuiet(this.workspace.id);
      await this.restartCounter();
    }
    throw new Error("not everything has arrived");
  }

  /** Those that were changed. */
  async applyRules(): Promise<void> {
    for (const id of this.changed) await this.workspace.operator("POST", `/rules/${id}/apply`);
    if (this.changed.size > 0) await ringUntilQuiet(this.workspace.id);
  }
}

/** One that does not run cannot be stopped. */
async function restart(stub: DurableObjectStub): Promise<void> {
  await runInDurableObject(stub, () => null);
  await evictDurableObject(stub);
}

type Command = fc.AsyncCommand<Model, Real>;

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

const said: fc.Arbitrary<Said> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("signal" as const),
      person: fc.nat(PEOPLE - 1),
      names: fc.constantFrom("email" as const, "anonymous" as const, "both" as const),
      event: fc.constantFrom("opened", "clicked"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc
      .nat(PEOPLE - 1)
      .map((person): Said => ({ kind: "identify", person, names: "both", event: "identify" })),
  },
);

const admit: fc.Arbitrary<Command> = fc
  .tuple(fc.constantFrom("key_a", "key_a", "key_b"), fc.array(said, { minLength: 1, maxLength: 6 }))
  .map(([key, signals]) =>
    command(`admit ${JSON.stringify(signals)} with ${key}`, async (model, real) => {
      const { ids, answer } = await real.admit(key, signals);
      expect(answer).toEqual(model.admit(key, ids, signals));
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

/** Each as likely as the next one; what happens most stands here several times. */
const commands: fc.Arbitrary<Command>[] = [
  admit,
  admit,
  admit,
  admit,
  admit,
  admit,
  deliver,
  deliver,
  deliver,
  configure,
  configure,
  fc.record({ periods: fc.integer({ min: 1, max: 3 }), rings: fc.nat(2) }).map(({ periods, rings }) =>
    command(`${periods} periods end, and the alarms ring ${rings} times`, async (model, real) => {
      for (let period = 0; period < periods; period++) model.endPeriod();
      vi.setSystemTime(startOfPeriod(model.period) + 60_000);
      for (let turn = 0; turn < rings; turn++) {
        await real.ringCounter();
        await ring(real.workspace.id);
      }
    }),
  ),
  fc.constant(
    command("release", async (model, real) => {
      await real.quiet();
      expect(await real.workspace.operator("POST", "/held/release")).toEqual(model.release());
    }),
  ),
  fc.constant(
    command("deactivate key_b", async (model, real) => {
      model.revoked.add("key_b");
      await real.workspace.counter.revoke("key_b");
    }),
  ),
  fc.constant(command("the counter's alarm", (_, real) => real.ringCounter())),
  fc.constant(command("the store's alarm", (_, real) => ring(real.workspace.id))),
  fc.constant(command("the counter starts again", (_, real) => real.restartCounter())),
  fc.constant(command("the store starts again", (_, real) => real.restartStore())),
  fc.constant(
    command("the queue loses all", (_, real) => {
      real.lose();
      return Promise.resolve();
    }),
  ),
  fc
    .record({
      event: fc.constantFrom("opened", "clicked"),
      points: fc.integer({ min: -5, max: 20 }),
      apply: fc.boolean(),
    })
    .map(({ event, points, apply }) =>
      command(`${event} gives ${points}${apply ? ", in the past too" : ""}`, async (model, real) => {
        const rule = real.rules.get(event) ?? "";
        model.points.set(event, points);
        real.changed.add(rule);
        await real.workspace.operator("PATCH", `/rules/${rule}`, { points });
        if (apply) await real.workspace.operator("POST", `/rules/${rule}/apply`);
      }),
    ),
  fc.nat(PEOPLE - 1).map((person) =>
    command(`delete ${emailOf(person)}`, async (model, real) => {
      await real.quiet();
      model.deletePerson(person);
      await real.workspace.operator("DELETE", `/people/${emailOf(person)}`);
      await ringUntilQuiet(real.workspace.id);
    }),
  ),
];

/** What is to be counted of so many refusals: all, or what was written when the counter started again. */
function refusals({ restarted }: Real, predicted: number): unknown {
  return restarted ? expect.toSatisfy((rejected: number) => rejected >= 0 && rejected <= predicted) : predicted;
}

async function expectAsPredicted(model: Model, real: Real): Promise<void> {
  await real.quiet();
  await real.applyRules();
  const { workspace } = real;
  const usage = await workspace.counter.usage();
  const books = await workspace.books();
  const { items } = await workspace.operator<{ items: { email: string; score: number }[] }>("GET", "/people");
  const { accepted, held, rejected, overage, streak, extraRoomRemoved } = usage ?? {};
  expect({ accepted, held, rejected, overage, streak, extraRoomRemoved }).toEqual({
    ...model.current,
    rejected: refusals(real, model.current.rejected),
    streak: model.streak,
    extraRoomRemoved: model.extraRoomRemoved,
  });
  const history = (usage?.history ?? []).map(({ periodStartMs: _start, periodEndMs: _end, ...counts }) => counts);
  const closed = model.closed.map((one) => ({ ...one, rejected: refusals(real, one.rejected) }));
  expect(history).toEqual(closed.slice(0, history.length));
  expect(history.length).toBe(model.closed.length);

  expect(books).toMatchObject({
    accepted: model.signals.length,
    processed: model.count("accepted", "deleted"),
    held: model.count("held"),
    purged: model.count("purged"),
    duplicates: 0,
    dead_lettered: 0,
    in_flight: 0,
    balanced: true,
  });

  const scores = [...model.scores()].map(([person, score]) => [emailOf(person), score]);
  expect(items.map(({ email, score }) => [email, score]).toSorted()).toEqual(scores.toSorted());
  await expectToAddUp(workspace.id);
}

/**
 * A test of a part of the lives, from a seed of its own: files are run side by side.
 *
 * @param part from 1 on.
 */
export function testLives(part: number, parts: number): void {
  const all = Number(env.MODEL_RUNS ?? LIVES);
  const lives = Math.ceil(all / parts);
  test(
    `every answer and every count is what the model says, in ${lives} lives of a workspace, part ${part}`,
    async () => {
      expect.hasAssertions();
      const first = env.MODEL_SEED === undefined ? Date.now() % 2 ** 30 : Number(env.MODEL_SEED);
      await fc.assert(
        fc.asyncProperty(fc.commands(commands, { maxCommands: 25, size: "max" }), async (life) => {
          const model = new Model();
          const real = await Real.make(model);
          await fc.asyncModelRun(() => ({ model, real }), life);
          await expectAsPredicted(model, real);
        }),
        { numRuns: lives, seed: first + part - 1, endOnFailure: env.MODEL_SHRINK === undefined },
      );
    },
    // A life takes a third of a second in memory, and several on a disk that is busy.
    60_000 + lives * 10_000,
  );
}
