/** People by any part of an email, name or company, in every order, filtered by score and last time. */
import { runInDurableObject } from "cloudflare:test";
import * as fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { PEOPLE_SCAN, PEOPLE_SEARCHED } from "../../../../src/limits.ts";
import {
  findPeople,
  MEMBERS_SORTED,
  PEOPLE_DAY_SORTED,
  PEOPLE_SORTED,
} from "../../../../src/store/queries/people-search.ts";
import type { PeoplePage, PeopleQuery, PeopleSort } from "../../../../src/store/protocol/people-and-accounts.ts";
import { DAY, deliver } from "../../../support/deliver.ts";
import { allSlices } from "../../../support/slices.ts";
import { newWorkspace, type TestWorkspace } from "../../../support/workspace.ts";
import { openState } from "../../../support/log.ts";
import { shown } from "../../../../src/store/queries/shown.ts";

interface Row {
  id: number;
  email: string;
  name: string | null;
  company: string | null;
  score: number;
  lastSeen: number;
}

const SORTS = ["newest", "last_seen", "last_seen_up", "score", "score_up", "email"] as const satisfies PeopleSort[];

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace({ key: null });
});

/** Created by their signals, in this order. */
async function come(people: { email: string; name?: string; company?: string }[]): Promise<void> {
  const signals = people.map(({ email, ...traits }, index) => ({
    id: `sig_${crypto.randomUUID()}`,
    at: Date.now() - DAY + index,
    ordinal: index + 1,
    payload: { type: "identify", userId: email, traits: { email, ...traits } },
  }));
  await deliver(workspace.id, signals);
}

const emailsOf = (pages: readonly PeoplePage[]) => pages.flatMap(({ items }) => items.map(({ email }) => email));

/** The pages of a query. */
const pagesOf = (query: PeopleQuery, limit = 25): Promise<PeoplePage[]> =>
  allSlices((cursor) => workspace.store.findPeople(query, { cursor, limit }));

const found = async (query: PeopleQuery, limit = 25) => emailsOf(await pagesOf(query, limit));

function insert(sql: SqlStorage, rows: readonly Row[]): void {
  sql.exec(
    `INSERT INTO people (id, email, name, company, names, score, first_seen, last_seen, last_day)
     SELECT value ->> 'id', value ->> 'email', value ->> 'name', value ->> 'company',
       lower(coalesce(value ->> 'name', '') || char(10) || coalesce(value ->> 'company', '')), value ->> 'score', 1,
       value ->> 'lastSeen', (value ->> 'lastSeen') / ${DAY} FROM json_each(?)`,
    JSON.stringify(rows),
  );
}

/** Inserts identical people. */
function insertMany(sql: SqlStorage, count: number): void {
  sql.exec(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO people (id, email, name, names, score, first_seen, last_seen, last_day)
     SELECT i, 'p' || printf('%07d', i) || '@x.example', 'Ann', 'ann' || char(10), i % 7, 1, i, 0 FROM n`,
    count,
  );
}

test("a search finds any part of an email, name or company, ignoring case and accents, without patterns", async () => {
  await come([
    { email: "zoe@one.example", name: "Zoë Müller-Ångström", company: "ACME 100% GmbH" },
    { email: "bo_b@two.example", name: "Bob", company: "Globex" },
    { email: "nobody@three.example" },
    { email: "ЖАННА@four.example".toLowerCase(), name: "Жанна Йоханссон", company: "東京商事" },
  ]);
  const searches: [text: string, found: string[]][] = [
    ["müller", ["zoe@one.example"]],
    ["MULLER-ang", ["zoe@one.example"]],
    ["00% g", ["zoe@one.example"]],
    ["%", ["zoe@one.example"]],
    ["_", ["bo_b@two.example"]],
    ["O_B@TWO", ["bo_b@two.example"]],
    ["LOBEX", ["bo_b@two.example"]],
    ["ЖАННА ЙО", ["жанна@four.example"]],
    ["жанна@", ["жанна@four.example"]],
    ["京商", ["жанна@four.example"]],
    ["bobglobex", []],
    ["*", []],
  ];
  // oxlint-disable-next-line no-await-in-loop -- one after the other
  for (const [text, emails] of searches) expect(await found({ sort: "email", text }), text).toEqual(emails);
  expect(await found({ sort: "email", text: ".example" })).toHaveLength(4);
});

describe("search, order, score, days and pages together", () => {
  const text = fc.constantFrom(undefined, "a", "an", "x.example", "acme", "nobody");
  const people = fc.uniqueArray(
    fc.record({
      id: fc.integer({ min: 1, max: 90 }),
      name: fc.constantFrom(null, "Ann", "Nan", "Bob"),
      company: fc.constantFrom(null, "Acme", "Globex"),
      score: fc.integer({ min: -2, max: 2 }),
      lastSeen: fc.nat({ max: 5 * DAY }),
    }),
    { selector: ({ id }) => id, maxLength: 40, size: "max" },
  );
  const query = fc.record({
    sort: fc.constantFrom(...SORTS),
    text,
    minScore: fc.constantFrom(undefined, -1, 0, 1),
    sinceDay: fc.constantFrom(undefined, 1, 3),
    untilDay: fc.constantFrom(undefined, 2, 4),
  });
  const ORDERS: Record<PeopleSort, (a: Row, b: Row) => number> = {
    newest: (a, b) => b.id - a.id,
    email: (a, b) => (a.email < b.email ? -1 : 1),
    score: (a, b) => b.score - a.score || b.id - a.id,
    score_up: (a, b) => a.score - b.score || a.id - b.id,
    last_seen: (a, b) => b.lastSeen - a.lastSeen || b.id - a.id,
    last_seen_up: (a, b) => a.lastSeen - b.lastSeen || a.id - b.id,
  };

  test("find each matching person once and in order, with any page size", async () => {
    await runInDurableObject(workspace.store, async (_, { storage }) => {
      const { sql } = storage;
      const state = openState(storage, workspace.id);
      await fc.assert(
        fc.asyncProperty(people, query, fc.integer({ min: 1, max: 12 }), async (some, asked, limit) => {
          const rows = some.map((row): Row => ({ ...row, email: `p${(row.id * 37) % 91}@x.example` }));
          sql.exec("DELETE FROM people");
          insert(sql, rows);
          const { sort, text: part, minScore, sinceDay, untilDay } = asked;
          const expected = rows
            .filter(({ email, name, company, score, lastSeen }) => {
              const day = Math.floor(lastSeen / DAY);
              return (
                [email, name ?? "", company ?? ""].some((value) => value.toLowerCase().includes(part ?? "")) &&
                score >= (minScore ?? -9) &&
                day >= (sinceDay ?? 0) &&
                day <= (untilDay ?? 9)
              );
            })
            .sort(ORDERS[sort])
            .map(({ email }) => email);
          const asItIs = Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined));
          const pages = await allSlices((cursor) => findPeople(shown(state), { ...asItIs, sort }, { cursor, limit }));
          expect(emailsOf(pages)).toEqual(expected);
          expect(pages.every(({ complete, sorted }) => complete && sorted)).toBe(true);
          // All pages except the last are full.
          expect(pages.slice(0, -1).every(({ items }) => items.length === limit)).toBe(true);
        }),
        { numRuns: 300 },
      );
    });
  });
});

describe("very many people", () => {
  const emailOf = (n: number) => `p${String(n).padStart(7, "0")}@x.example`;

  test("are listed by email beyond the sort limit, and the page says so", async () => {
    const count = PEOPLE_SORTED + 300;
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => insertMany(sql, count));
    const pages = await pagesOf({ sort: "score", text: "ann" }, 1_000);
    expect(emailsOf(pages)).toEqual(Array.from({ length: count }, (_, n) => emailOf(n + 1)));
    expect(pages.every(({ sorted }) => !sorted)).toBe(true);
    const few = await workspace.store.findPeople({ sort: "score", text: "p000001" }, { cursor: null, limit: 1 });
    expect(few).toMatchObject({ sorted: true, items: [{ score: 6 }] });
  });

  test("of one account are searched in any order beyond the sort limit", async () => {
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      insertMany(sql, MEMBERS_SORTED + 2);
      sql.exec("UPDATE people SET account = 'acme' WHERE id <> 5");
    });
    const members = Array.from({ length: MEMBERS_SORTED + 2 }, (_, n) => n + 1).filter((n) => n !== 5);
    // The person with number n has n % 7 points.
    const expected = members.toSorted((a, b) => (b % 7) - (a % 7) || b - a).map(emailOf);
    expect(await found({ sort: "score", account: "acme", text: "X.EXAMPLE" }, 1_000)).toEqual(expected);
  });

  test("are searched in consecutive slices", async () => {
    const count = PEOPLE_SEARCHED + 20;
    await runInDurableObject(workspace.store, (_, { storage }) => {
      const { sql } = storage;
      insertMany(sql, count);
      const state = openState(storage, workspace.id);
      state.head.nextPersonId = count + 1;
      const read = (cursor: string | null) =>
        findPeople(shown(state), { sort: "newest", text: `${count}@` }, { cursor, limit: 5 });
      const first = read(null);
      expect(first).toEqual({
        items: [],
        next: JSON.stringify(emailOf(PEOPLE_SEARCHED)),
        complete: false,
        sorted: false,
        lapsing: false,
      });
      const second = read(first.next);
      expect(second.items.map(({ email }) => email)).toEqual([emailOf(count)]);
      expect([second.next, second.complete]).toEqual([null, true]);
    });
  });

  test("fill short pages without omissions if few match a filter", async () => {
    const count = PEOPLE_SCAN + 400;
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      insertMany(sql, count);
      sql.exec("UPDATE people SET score = iif(id IN (1, 2, ?), 50, score)", count);
    });
    const pages = await pagesOf({ sort: "email", minScore: 50 });
    expect(emailsOf(pages)).toEqual([1, 2, count].map(emailOf));
    expect(pages.map(({ complete }) => complete)).toEqual([false, true]);
    const byScore = () => workspace.store.findPeople({ sort: "score", minScore: 1 }, { cursor: null, limit: 25 });
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec("UPDATE people SET score = 0 WHERE score < 50");
    });
    // The index on scores reads no other rows.
    expect(await byScore()).toMatchObject({ complete: true, next: null, items: [{}, {}, {}] });
  });

  test("have short pages if few have no score among many who have one", async () => {
    const count = PEOPLE_SCAN + 500;
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      insertMany(sql, count);
      sql.exec("UPDATE people SET score = iif(id = 3 OR id > ?, 0, -1)", count - 10);
    });
    const emails = await found({ sort: "score" }, 200);
    const unscored = [...Array.from({ length: 10 }, (_, n) => count - n), 3];
    expect(emails.slice(0, 11)).toEqual(unscored.map(emailOf));
    expect(new Set(emails).size).toBe(count);
  });

  test("are sorted by last seen within the limit of a day, and appear once each beyond it", async () => {
    const many = Array.from({ length: PEOPLE_DAY_SORTED + 200 }, (_, n) => n + 1);
    const few = Array.from({ length: 60 }, (_, n) => 5_001 + n);
    const rowOf = (id: number) => ({ id, email: emailOf(id), name: null, company: null, score: 0 });
    const fewRows = few.map((id) => ({ ...rowOf(id), lastSeen: (id % 2 === 0 ? 7 : 5) * DAY + (id % 7) }));
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      insert(sql, [...many.map((id) => ({ ...rowOf(id), lastSeen: 3 * DAY + ((id * 37) % 1_009) })), ...fewRows]);
    });
    const emails = await found({ sort: "last_seen" }, 40);
    const sorted = fewRows.toSorted((a, b) => b.lastSeen - a.lastSeen || b.id - a.id);
    expect(emails.slice(0, 60)).toEqual(sorted.map(({ email }) => email));
    expect(emails.slice(60).toSorted()).toEqual(many.map(emailOf));
  });

  test("start at the first page with a cursor of another order, or an invented cursor", async () => {
    await come([{ email: "a@x.example" }, { email: "b@x.example" }]);
    const cursors = ["x", "null", "[]", "{}", '["sorted","a","b"]', "[1]", "[null,null]", "1.5"];
    cursors.push('[3,["k"],[7,1]]', '[3,null,["a",1]]', "[3,null,[7]]", '["3",null,[7,1]]');
    for (const sort of SORTS) {
      for (const more of [{}, { text: "x.example" }]) {
        for (const cursor of cursors) {
          // oxlint-disable-next-line no-await-in-loop -- one after the other
          const page = await workspace.store.findPeople({ sort, ...more }, { cursor, limit: 5 });
          expect(page.items, `${sort} ${cursor}`).toHaveLength(2);
        }
      }
    }
  });
});
