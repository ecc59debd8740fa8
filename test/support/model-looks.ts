/** Reads a workspace in the middle of a model run: files, and filtered lists page by page. */
import * as fc from "fast-check";
import { expect } from "vitest";
import type { PeopleQuery } from "../../src/store/protocol/people-and-accounts.ts";
import { command } from "./model-command.ts";
import type { Command } from "./model-command.ts";
import { emailOf, lineOf, personLine } from "./model-lines.ts";
import type { Line } from "./model-lines.ts";
import type { Model } from "./model.ts";
import {
  byText,
  expectAccounts,
  expectPeople,
  expectScores,
  expectSignals,
  expectTrace,
  readPages,
} from "./model-reads.ts";
import type { Real } from "./model-real.ts";
import { applyRules } from "./model-rule-commands.ts";

const format = fc.constantFrom("ndjson" as const, "csv" as const);
const limit = fc.constantFrom(1, 1, 2, 4);

const files: fc.Arbitrary<Command> = format.map((as) =>
  command(`signals and people as ${as}`, async (model, real) => {
    await real.quiet();
    await expectSignals(model, real, as);
    await expectPeople(model, real, as);
  }),
);

const accounts: fc.Arbitrary<Command> = limit.map((most) =>
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
      const parts = ({ status, kind, event, email }: Partial<Record<keyof Line, unknown>>) =>
        [status, kind, event, email].map((value) => value ?? "");
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
    // oxlint-disable-next-line no-await-in-loop -- each page names the next
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
export const look: fc.Arbitrary<Command> = fc.oneof(files, accounts, trace, people, signals, scores);
