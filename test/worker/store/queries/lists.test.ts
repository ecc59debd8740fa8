/**
 * Lists of signals and people over separately stored data: the log, held signals and dead letters; days and scores.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { PEOPLE_SCAN, QUEUE_SCAN_GROUPS } from "../../../../src/limits.ts";
import { hashOfName } from "../../../../src/domain/signal/identity.ts";
import { rememberName } from "../../../../src/store/deletion/deleted-names.ts";
import { PEOPLE_DAY_SORTED } from "../../../../src/store/queries/people-search.ts";
import { latestSignals } from "../../../../src/store/queries/newest-signals.ts";
import { StoreState } from "../../../../src/store/state/store-state.ts";
import { SEGMENT_MAX_LINES } from "../../../../src/store/log/head.ts";
import type {
  LatestSignals,
  SignalSummary,
  SignalTrace,
  FindFilter,
} from "../../../../src/store/protocol/stored-signals.ts";
import type { PeopleSort } from "../../../../src/store/protocol/people-and-accounts.ts";
import { signalStore } from "../../../../src/workspace/objects.ts";
import { amount } from "../../../support/amount.ts";
import { linesOf } from "../../../support/adds-up.ts";
import { rowsRead } from "../../../support/sql-cost.ts";
import { readStore, heldIn } from "../../../support/read-store.ts";
import { ring } from "../../../support/cold.ts";
import { DAY, MINUTE, deliver } from "../../../support/deliver.ts";
import type { Delivered } from "../../../support/deliver.ts";
import { newWorkspace } from "../../../support/workspace.ts";
import type { TestWorkspace } from "../../../support/workspace.ts";

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});

const NOW = Date.now();
let ordinal = 0;

function signal(over: Partial<Delivered> & { email?: string; event?: string; source?: string } = {}): Delivered {
  const { email, event = "E", source = "web", ...more } = over;
  const n = ++ordinal;
  const payload = { event, source, ...(email === undefined ? {} : { email }), properties: { n } };
  return { id: `sig_${n}`, ordinal: n, at: NOW - MINUTE, periodEnd: NOW + DAY, payload, ...more };
}

/** All pages of a query. */
async function all(filter: FindFilter = {}, limit = 7): Promise<SignalSummary[]> {
  const found: SignalSummary[] = [];
  let cursor: string | null = null;
  do {
    // oxlint-disable-next-line no-await-in-loop -- each page names the next
    const page = await workspace.store.signals(filter, { cursor, limit });
    expect(page.items.length).toBeLessThanOrEqual(limit);
    if (page.next !== null && page.complete) expect(page.items).toHaveLength(limit);
    found.push(...page.items);
    cursor = page.next;
  } while (cursor !== null);
  return found;
}

const idsOf = (signals: readonly { id: string }[]) => signals.map(({ id }) => id);

describe("signals", () => {
  const kinds = fc.constantFrom("accepted", "held", "dead", "accepted", "release", "replay");
  const batches = fc.array(fc.array(fc.tuple(kinds, fc.nat(2)), { minLength: 1, maxLength: 12 }), {
    minLength: 1,
    maxLength: 8,
  });

  test("since the last cursor are read without reading the rest", async () => {
    for (let batch = 0; batch < 8; batch++) {
      // oxlint-disable-next-line no-await-in-loop -- as they come
      await deliver(
        workspace.id,
        Array.from({ length: 2 * SEGMENT_MAX_LINES }, (_, n) => signal({ email: `p${n}@example.com` })),
      );
    }
    const before = await workspace.store.latest(null, 50);
    await deliver(workspace.id, [signal({ email: "new@example.com" })]);
    await readStore(workspace.id, ({ sql }) => {
      let news: LatestSignals | null = null;
      expect(rowsRead(sql, () => (news = latestSignals(new StoreState(sql), before?.cursor ?? "", 50)))).toBeLessThan(
        40,
      );
      expect(news).toMatchObject({ signals: [{ email: "new@example.com" }], more: 0 });
    });
  });

  test("of the log, held ones and dead letters appear once each, latest recorded first, wherever they were before", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: NOW });
    await fc.assert(
      fc.asyncProperty(batches, fc.integer({ min: 1, max: 9 }), async (history, limit) => {
        workspace = await newWorkspace();
        const recorded: { id: string; email: string | null; status: string }[] = [];
        const places = { held: [] as Delivered[], dead: [] as Delivered[] };
        const gone = { held: 0, dead: 0 };
        let seen: string | null = null;
        for (const batch of history) {
          vi.setSystemTime(Date.now() + 10);
          const sent = batch.flatMap(([kind, who]): Delivered[] => {
            const email = `p${who}@example.com`;
            if (kind === "accepted") return [signal({ email })];
            if (kind === "held") return [signal({ email, verdict: "held" })];
            if (kind === "dead") return [signal({ payload: "{" })];
            const from = kind === "release" ? "held" : "dead";
            const before = places[from][gone[from]];
            if (before === undefined) return [];
            const { payload: _payload, ...fresh } = signal();
            const { payload } = from === "held" ? before : signal({ email });
            const resent = { from, place: ++gone[from] } as const;
            return [{ ...before, payload, at: fresh.at ?? NOW, verdict: "accepted", resent }];
          });
          // oxlint-disable-next-line no-await-in-loop -- as they come
          await deliver(workspace.id, sent);
          // oxlint-disable-next-line no-await-in-loop
          const news: LatestSignals | null = await workspace.store.latest(seen, 100);
          seen = news?.cursor ?? seen;
          expect(idsOf(news?.signals ?? []).toSorted()).toEqual(idsOf(sent).toSorted());
          for (const line of sent.toSorted(
            (a, b) => Number(a.at) - Number(b.at) || Number(a.ordinal) - Number(b.ordinal),
          )) {
            const before = recorded.findIndex(({ id }) => id === line.id);
            if (before !== -1) recorded.splice(before, 1);
            const isDead = line.payload === "{";
            if (isDead) places.dead.push(line);
            else if (line.verdict === "held") places.held.push(line);
            const email = isDead ? null : (line.payload as { email: string }).email;
            recorded.push({
              id: line.id,
              email,
              status: isDead ? "dead" : line.verdict === "held" ? "held" : "processed",
            });
          }
        }
        const expected = recorded.toReversed();
        const shown = await all({}, limit);
        expect(shown.map(({ id, email, status }) => ({ id, email, status }))).toEqual(expected);
        const latest = await workspace.store.latest(null, limit);
        expect(idsOf(latest?.signals ?? [])).toEqual(idsOf(expected.slice(0, limit)));
        for (const status of ["held", "dead", "processed"] as const) {
          // oxlint-disable-next-line no-await-in-loop
          expect(idsOf(await all({ status }, limit))).toEqual(idsOf(expected.filter((line) => line.status === status)));
        }
        const email = "p1@example.com";
        expect(idsOf(await all({ email }, limit))).toEqual(idsOf(expected.filter((line) => line.email === email)));
        for (const { id, status } of expected) {
          // oxlint-disable-next-line no-await-in-loop
          expect(await signalStore(env, workspace.id).signal(id)).toMatchObject({ id, status });
        }
      }),
      { numRuns: amount(3, 15) },
    );
    vi.useRealTimers();
  });

  test("are found in sealed segments and open lines, by event, source, status and person", async () => {
    const count = SEGMENT_MAX_LINES + 100;
    const sent = Array.from({ length: count }, (_, n) =>
      signal({
        email: `p${n % 3}@example.com`,
        event: n % 50 === 0 ? "rare" : "frequent",
        source: n % 2 === 0 ? "web" : "crm",
        ...(n % 40 === 7 ? { payload: { type: "track", event: "frequent", source: "web", anonymousId: `a${n}` } } : {}),
      }),
    );
    await deliver(workspace.id, sent);
    const anonymous = sent.filter((_, n) => n % 40 === 7);
    const named = sent
      .filter((line) => !anonymous.includes(line))
      .map((line) => ({ ...(line.payload as { event: string; source: string; email: string }), id: line.id }));
    const expected = (which: (line: (typeof named)[number]) => boolean) => idsOf(named.filter(which).toReversed());
    expect(idsOf(await all({ event: "rare" }))).toEqual(expected(({ event }) => event === "rare"));
    expect(idsOf(await all({ event: "rare", source: "crm" }))).toEqual([]);
    expect(idsOf(await all({ source: "crm" }, 50))).toEqual(expected(({ source }) => source === "crm"));
    expect(idsOf(await all({ email: " P1@example.com " }, 50))).toEqual(
      expected(({ email }) => email === "p1@example.com"),
    );
    expect(idsOf(await all({ email: "p1@example.com", event: "rare" }))).toEqual(
      expected(({ email, event }) => email === "p1@example.com" && event === "rare"),
    );
    expect(idsOf(await all({ status: "anonymous" }))).toEqual(idsOf(anonymous.toReversed()));
    expect(await all({ status: "purged" })).toEqual([]);
    expect(await all({ email: "nobody@example.com" })).toEqual([]);
  });

  test("of identify calls are found by their event, also in a sealed segment", async () => {
    const identify = { type: "identify", userId: "u1", traits: { email: "p1@example.com" } };
    await deliver(workspace.id, [signal({ email: "p1@example.com" }), signal({ payload: identify })]);
    const found = await all({ event: "identify" });
    expect(found.map(({ kind, event, email }) => ({ kind, event, email }))).toEqual([
      { kind: "identify", event: "identify", email: "p1@example.com" },
    ]);
    await ring(workspace.id);
    expect(await all({ event: "identify" })).toEqual(found);
    expect(await all({ event: "identify", source: "segment" })).toEqual(found);
    expect(await all({ event: "identify", email: "p1@example.com" })).toEqual(found);
  });

  test("of a person being deleted show no name, later ones of the same email do", async () => {
    const email = "ann@example.com";
    await deliver(workspace.id, [signal({ email, verdict: "held" }), signal({ email, verdict: "held", at: NOW })]);
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec(
        `INSERT INTO deletions (id, email_hash, requested_at, asked_at, email, step, position, people, identities, signals,
           anonymous, held, dead_letters, scoring_signals, cold_objects)
         VALUES ('del_1', 'x', ?1, ?1, ?2, 'held', 0, 1, 0, 0, 0, 0, 0, 0, 0)`,
        NOW - 1,
        email,
      );
      rememberName(sql, hashOfName({ kind: "email", value: email }), 0, NOW - 1);
    });
    expect((await all()).map((line) => line.email)).toEqual([email, null]);
    expect(await all({ email })).toHaveLength(1);
    const { text } = await workspace.store.exportPage({ records: "signals", format: "ndjson", cursor: null });
    const exported = text.split("\n").slice(0, -1);
    expect(exported.map((line) => (JSON.parse(line) as { email: string | null }).email)).toEqual([null, email]);
  });
});

describe("a trace", () => {
  test("of a held signal that failed after its release is that of a dead letter", async () => {
    const held = signal({ verdict: "held" });
    await deliver(workspace.id, [held]);
    await deliver(workspace.id, [{ ...held, payload: "{", verdict: "accepted", resent: { from: "held", place: 1 } }]);
    expect(await signalStore(env, workspace.id).signal(held.id)).toMatchObject({
      status: "dead",
      kind: "unknown",
      payload: "{",
    });
    expect(idsOf(await all())).toEqual([held.id]);
  });

  test("has the payload from R2, and says so if R2 does not answer", async () => {
    const sent = signal({ email: "ann@example.com" });
    await deliver(workspace.id, [sent, signal()]);
    vi.useFakeTimers({ toFake: ["Date"], now: NOW + 400 * DAY });
    await ring(workspace.id);
    vi.useRealTimers();
    const trace = async (): Promise<SignalTrace | null> => signalStore(env, workspace.id).signal(sent.id);
    expect(await trace()).toMatchObject({
      inColdStorage: true,
      payload: sent.payload,
      person: { email: "ann@example.com" },
    });
    const { objects } = await env.COLD.list({ prefix: `cold/${workspace.id}/` });
    await env.COLD.delete(objects.map(({ key }) => key));
    expect(await trace()).toMatchObject({ inColdStorage: true, payload: null, person: { email: "ann@example.com" } });
  });
});

describe("held signals", () => {
  test("are listed by ordinal, regardless of the recording order, one period at a time", async () => {
    const ordinals =
      fc.sample(
        fc.shuffledSubarray(
          Array.from({ length: 1_200 }, (_, n) => n + 1),
          { minLength: 1_200 },
        ),
        { numRuns: 1, seed: 7 },
      )[0] ?? [];
    // The signals of a batch are in order of receipt.
    const places: number[] = [];
    for (let from = 0; from < ordinals.length; from += 300) {
      places.push(...ordinals.slice(from, from + 300).toSorted((a, b) => a - b));
      // oxlint-disable-next-line no-await-in-loop -- as they come
      await deliver(
        workspace.id,
        ordinals.slice(from, from + 300).map((n) =>
          signal({
            id: `sig_h${n}`,
            ordinal: n,
            verdict: "held",
            periodEnd: n % 3 === 0 ? NOW + 2 * DAY : NOW + DAY,
          }),
        ),
      );
    }
    const found: number[] = [];
    for (let cursor = 0, pages = 0; ; pages++) {
      // oxlint-disable-next-line no-await-in-loop -- each page names the next
      const page = await heldIn(workspace.id, NOW + DAY, cursor, 100);
      for (const { admission, from, place } of page) {
        expect([admission.id, from]).toEqual([`sig_h${admission.ordinal}`, "held"]);
        expect(place).toBe(places.indexOf(admission.ordinal) + 1);
      }
      found.push(...page.map((line) => line.cursor));
      if (page.length === 0) break;
      expect(pages).toBeLessThan(20);
      cursor = page.at(-1)?.cursor ?? 0;
    }
    expect(found).toEqual(ordinals.filter((n) => n % 3 !== 0).toSorted((a, b) => a - b));
    await readStore(workspace.id, ({ held }) => expect(linesOf(held)).toHaveLength(1_200));
  });
});

describe("event groups", () => {
  test("of a day with more than are sorted at a time appear once each, on the pages and in the operator API", async () => {
    await deliver(workspace.id, [signal({ event: "today" })]);
    const count = QUEUE_SCAN_GROUPS + 300;
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO event_groups (event, source, count, held, anonymous, first_seen, last_seen, last_day, sample_id,
           sample_ordinal, sample_seq)
         SELECT 'event ' || (i % 700), 's' || i, 1 + i % 5, 0, 0, 1, ?2 + i % 97, 1, 'sig_x', 1, 999 FROM n`,
        count,
        DAY,
      );
    });
    const expected = ["web", ...Array.from({ length: count }, (_, n) => `s${n + 1}`)].toSorted();
    for (const read of [
      async (cursor: string | null) =>
        workspace.store.queuePage({}, { cursor, limit: 190 }).then(({ groups }) => groups),
      async (cursor: string | null) => signalStore(env, workspace.id).events({ cursor, limit: 190 }),
    ]) {
      const sources: string[] = [];
      let cursor: string | null = null;
      do {
        // oxlint-disable-next-line no-await-in-loop -- each page names the next
        const page: { items: { source: string }[]; next: string | null } = await read(cursor);
        sources.push(...page.items.map(({ source }) => source));
        cursor = page.next;
      } while (cursor !== null);
      expect(sources[0]).toBe("web");
      expect(sources.toSorted()).toEqual(expected);
    }
    expect(await signalStore(env, workspace.id).events({ cursor: "[1,2,3]", limit: 5 })).toEqual({
      items: [],
      next: null,
    });
  });

  test("show the payload of a sample wherever it is stored, and none if it is gone", async () => {
    const [held, kept] = [signal({ event: "held", verdict: "held" }), signal({ event: "kept" })];
    await deliver(workspace.id, [held, kept]);
    const { items } = await signalStore(env, workspace.id).events({ cursor: null, limit: 5 });
    const samples = new Map(items.map(({ event, sample }) => [event, sample]));
    expect(samples.get("held")).toEqual({ id: held.id, payload: held.payload });
    expect(samples.get("kept")).toEqual({ id: kept.id, payload: kept.payload });
  });
});

describe("people in a list", () => {
  /** Numbers of people in this order, page by page. */
  async function inOrder(sort: PeopleSort, limit = 25): Promise<number[]> {
    const found: number[] = [];
    let cursor: string | null = null;
    do {
      // oxlint-disable-next-line no-await-in-loop -- each page names the next
      const page: { items: { email: string }[]; next: string | null } = await workspace.store.findPeople(
        { sort },
        { cursor, limit },
      );
      found.push(...page.items.map(({ email }) => Number(email.slice(1, -1))));
      cursor = page.next;
    } while (cursor !== null);
    return found;
  }

  const insert = (rows: { id: number; score: number; lastSeen: number }[]) =>
    runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec(
        `INSERT INTO people (id, email, score, first_seen, last_seen, last_day)
         SELECT value ->> 0, 'p' || (value ->> 0) || '@', value ->> 1, 1, value ->> 2, (value ->> 2) / ${DAY} FROM json_each(?)`,
        JSON.stringify(rows.map(({ id, score, lastSeen }) => [id, score, lastSeen])),
      );
    });
  const numbers = (count: number) => Array.from({ length: count }, (_, n) => n + 1);

  test("by score: positive, none, negative, and newest first among equals", async () => {
    const scores = [5, 0, -3, 0, 0, 5, 12, -3, -1, 0];
    const rows = numbers(90).map((id) => ({ id, score: scores[id % scores.length] ?? 0, lastSeen: 1 }));
    await insert(rows);
    const expected = rows.toSorted((a, b) => b.score - a.score || b.id - a.id).map(({ id }) => id);
    for (const limit of [1, 4, 9, 90, 200]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await inOrder("score", limit), `pages of ${limit}`).toEqual(expected);
      // oxlint-disable-next-line no-await-in-loop
      expect(await inOrder("score_up", limit), `pages of ${limit}`).toEqual(expected.toReversed());
    }
  });

  test("by score: few without a score among many with one make short pages", async () => {
    await insert(
      numbers(PEOPLE_SCAN + 500).map((id) => ({ id, score: id === 3 || id > PEOPLE_SCAN + 490 ? 0 : -1, lastSeen: 1 })),
    );
    const found = await inOrder("score", 200);
    expect(found.slice(0, 11)).toEqual([...numbers(10).map((n) => PEOPLE_SCAN + 501 - n), 3]);
    expect(new Set(found).size).toBe(PEOPLE_SCAN + 500);
  });

  test("by last seen: sorted exactly within the limit per day, each once beyond it", async () => {
    const many = numbers(PEOPLE_DAY_SORTED + 200).map((id) => ({
      id,
      score: 0,
      lastSeen: 3 * DAY + ((id * 37) % 1_009),
    }));
    const few = numbers(60).map((n) => ({ id: 5_000 + n, score: 0, lastSeen: (n % 2 === 0 ? 7 : 5) * DAY + (n % 7) }));
    await insert([...many, ...few]);
    const found = await inOrder("last_seen", 40);
    expect(found.slice(0, 60)).toEqual(
      few.toSorted((a, b) => b.lastSeen - a.lastSeen || b.id - a.id).map(({ id }) => id),
    );
    expect(found.slice(60).toSorted((a, b) => a - b)).toEqual(many.map(({ id }) => id));
  });

  test("with very many ids show some of them, each id with its current owner", async () => {
    await insert(numbers(3).map((id) => ({ id, score: 0, lastSeen: 1 })));
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
         INSERT INTO identities (key, at, ordinal, person_id) SELECT CAST('aa' || i AS BLOB), 1, 1, 1 FROM n`,
      );
      sql.exec(
        "INSERT INTO identities VALUES (x'7575', 1, 1, 2), (x'7575', 1, 2, 3), (x'7575', 9, 1, 2), (x'7576', 1, 1, 2), (x'7576', 1, 2, 3)",
      );
    });
    const people = (await workspace.store.people({}, { cursor: null, limit: 3 })).items;
    expect(people.map(({ identities }) => identities.length)).toEqual([1, 1, 100]);
    expect(people[1]?.identities).toEqual([{ kind: "user_id", value: "u", linkedAtMs: 9 }]);
    expect(people[0]?.identities).toEqual([{ kind: "user_id", value: "v", linkedAtMs: 1 }]);
    const page = await workspace.store.personPage("p1@", "all", { cursor: null, limit: 5 });
    expect([page?.identities.length, page?.moreIdentities]).toEqual([50, true]);
  });
});
