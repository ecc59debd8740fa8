/** What is whose (src/store/timelines.ts): always as one would read it off the signals and scoring signals themselves. */
import { runInDurableObject } from "cloudflare:test";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import migration from "../../migrations/signal-store/0006_timelines.sql";
import { People } from "../../src/store/people.ts";
import { rowsOf, readLatest, SCORES, SIGNALS } from "../../src/store/timelines.ts";
import { deliver } from "./deliver.ts";
import { migrate } from "./migrate.ts";
import { expectTimelines } from "./timelines.ts";
import { newWorkspace } from "./workspace.ts";

const PEOPLE = [1, 2];
/** Of a person: signals that are recorded, or one of theirs, with which something happens. */
const action = fc.record({
  person: fc.constantFrom(...PEOPLE),
  what: fc.constantFrom("record", "record", "delete", "move", "forget", "unscore"),
  count: fc.integer({ min: 1, max: 40 }),
  which: fc.nat(),
});
const latest = fc.record({
  limit: fc.integer({ min: 1, max: 60 }),
  before: fc.option(fc.nat(600), { nil: undefined }),
});

const INSERT = `INSERT INTO signals (id, status, kind, person_id, key_id, endpoint, verdict, ordinal, signal_limit,
    received_at, recorded_at, period_start, period_end, rules_tried)
  VALUES (lower(hex(randomblob(8))), 'processed', 'signal', ?, 'key', 'signal_staging', 'accepted', 1, 1, 1, 1, 1, 1, 1)
  RETURNING seq, id`;

type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;

/** As a batch does: people are written when all else is, and what it has taken up it leaves alone from then on. */
function act(sql: SqlStorage, batch: Action[]): void {
  const people = new People(sql, []);
  const taken = new Set<number>();
  for (const one of batch) change(sql, people, taken, one);
  people.write();
}

function change(sql: SqlStorage, people: People, taken: Set<number>, { person, what, count, which }: Action): void {
  if (what === "record") {
    for (let n = 0; n < count; n++) {
      const { seq, id } = sql.exec<{ seq: number; id: string }>(INSERT, person).one();
      people.own(person, seq);
      taken.add(seq);
      const match = { ruleId: "rule", ruleVersion: 1, scoringSignal: "s", points: 1 };
      people.score(id, person, n % 3 === 0 ? [match, { ...match, ruleId: "other" }] : [], 1);
    }
  } else {
    const theirs = sql.exec<{ seq: number; id: string }>("SELECT seq, id FROM signals WHERE person_id = ?", person);
    const all = theirs.toArray().filter(({ seq }) => !taken.has(seq));
    const one = all[which % all.length];
    if (one === undefined) return;
    taken.add(one.seq);
    if (what === "delete") sql.exec("DELETE FROM signals WHERE seq = ?", one.seq);
    else if (what === "unscore") people.unscore(one.id, person);
    else {
      const to = what === "forget" ? null : (which % PEOPLE.length) + 1;
      sql.exec("UPDATE signals SET person_id = ? WHERE seq = ?", to, one.seq);
      if (to !== null && to !== person) people.own(to, one.seq);
    }
  }
}

test("recorded, moved, taken away or deleted in any order", async () => {
  const { store } = await newWorkspace();
  await runInDurableObject(store, (_, { storage: { sql } }) => {
    const histories = fc.array(fc.array(action, { minLength: 1, maxLength: 4 }), { maxLength: 15, size: "max" });
    fc.assert(
      fc.property(histories, latest, (history, { limit, before }) => {
        for (const table of ["signals", "scoring_signals", "people", "rule_days"]) sql.exec(`DELETE FROM ${table}`);
        sql.exec("INSERT INTO people (id, email, first_seen, last_seen) VALUES (1, 'a', 0, 0), (2, 'b', 0, 0)");
        for (const batch of history) act(sql, batch);
        expectTimelines(sql);
        for (const [timeline, table, row] of [
          [SIGNALS, "signals", "seq"],
          [SCORES, "scoring_signals", "id"],
        ] as const) {
          const query = `SELECT ${row} FROM ${table} WHERE person_id = 1 ORDER BY ${row} DESC`;
          const stored = [...sql.exec(query).raw<[number]>()].map(([number]) => number);
          const all = [...sql.exec(rowsOf(timeline, "?1"), 1).raw<[number]>()].map(([number]) => number);
          expect(all.toSorted((a, b) => b - a)).toEqual(stored);
          const found = readLatest(sql, timeline, 1, limit, before).toSorted((a, b) => b - a);
          expect(found.slice(0, limit)).toEqual(
            stored.filter((number) => number < (before ?? Infinity)).slice(0, limit),
          );
        }
      }),
    );
  });
});

test("of a person with more than their row names are listed in pages", async () => {
  const workspace = await newWorkspace();
  const ids = Array.from({ length: 130 }, (_, n) => `sig_${n}`);
  const of = (id: string) => ({
    id,
    ordinal: Number(id.slice(4)),
    payload: { event: "E", email: "a@example.com", id },
  });
  for (const some of [ids.slice(0, 100), ids.slice(100)]) {
    // oxlint-disable-next-line no-await-in-loop -- in this order
    await deliver(workspace.id, some.map(of));
  }
  for (const filter of ["", "&event=E"]) {
    const listed: string[] = [];
    for (let next: string | null = ""; next !== null;) {
      const page: { items: { id: string }[]; next: string | null } =
        // oxlint-disable-next-line no-await-in-loop -- each page names the next
        await workspace.operator("GET", `/signals?email=a@example.com&limit=25${filter}${next}`);
      listed.push(...page.items.map(({ id }) => id));
      next = page.next === null ? null : `&cursor=${page.next}`;
    }
    expect(listed).toEqual(ids.toReversed());
  }
});

test("of what was stored before they were kept are made by the migration", async () => {
  const workspace = await newWorkspace();
  await workspace.operator("POST", "/rules", { name: "r", event: "Form", scoring_signal: "s", points: 1 });
  const form = (n: number) => ({ event: "Form", email: `p${n % 3}@example.com`, properties: { n } });
  const signals = Array.from({ length: 9 }, (_, n) => ({ id: `sig_${n}`, payload: form(n) }));
  await deliver(workspace.id, signals);
  await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
    for (const statement of [
      ...["signals_deleted", "signals_moved", "scoring_signals_deleted"].map((name) => `DROP TRIGGER ${name}`),
      ...["person_signals", "person_scoring_signals"].map((name) => `DROP TABLE ${name}`),
      ...["recent_signals", "recent_scoring_signals"].map((name) => `ALTER TABLE people DROP COLUMN ${name}`),
      "CREATE INDEX signals_person ON signals (person_id, seq)",
      "CREATE INDEX scoring_signals_person ON scoring_signals (person_id, id)",
    ]) {
      sql.exec(statement);
    }
    migrate(sql, migration);
    expectTimelines(sql);
    expect(sql.exec("SELECT count(*) AS rows FROM person_scoring_signals").one()).toEqual({ rows: 9 });
    sql.exec("DELETE FROM signals WHERE id = 'sig_3'");
    expectTimelines(sql);
  });
});
