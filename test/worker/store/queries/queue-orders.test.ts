/** The signal queue in its orders, filtered by name, source, kind and days: as a query and on its page. */
import { runInDurableObject } from "cloudflare:test";
import * as fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { QUEUE_SORTED_GROUPS } from "../../../../src/limits.ts";
import { queuePage } from "../../../../src/store/queries/event-groups.ts";
import type { QueueSort } from "../../../../src/store/protocol/stored-signals.ts";
import { DAY, deliver } from "../../../support/deliver.ts";
import { newMembers, type Members } from "../../../support/members.ts";
import { readHtml, textOf } from "../../../support/html.ts";
import { allSlices } from "../../../support/slices.ts";

interface Row {
  event: string;
  source: string;
  count: number;
  held: number;
  lastSeen: number;
}

const SORTS = ["last_seen", "last_seen_up", "count", "name"] as const satisfies QueueSort[];
const byName = (a: Row, b: Row) => {
  const [key, otherKey] = [`${a.event}\0${a.source}`, `${b.event}\0${b.source}`];
  return key < otherKey ? -1 : key > otherKey ? 1 : 0;
};
const ORDERS: Record<QueueSort, (a: Row, b: Row) => number> = {
  last_seen: (a, b) => b.lastSeen - a.lastSeen || byName(a, b),
  last_seen_up: (a, b) => a.lastSeen - b.lastSeen || byName(a, b),
  count: (a, b) => b.count - a.count || byName(a, b),
  name: (a, b) => {
    const [event, otherEvent] = [a.event.toLowerCase(), b.event.toLowerCase()];
    return event === otherEvent ? byName(a, b) : event < otherEvent ? -1 : 1;
  },
};

let members: Members;
beforeEach(async () => {
  members = await newMembers();
});

const inStore = <T>(run: (sql: SqlStorage) => T | Promise<T>): Promise<T> =>
  runInDurableObject(members.workspace.store, (_, { storage: { sql } }) => run(sql));

function insert(sql: SqlStorage, rows: readonly Row[]): void {
  sql.exec(
    `INSERT INTO event_groups (event, source, count, held, anonymous, first_seen, last_seen, last_day, sample_id,
       sample_ordinal, sample_seq)
     SELECT value ->> 'event', value ->> 'source', value ->> 'count', value ->> 'held', 0, 1, value ->> 'lastSeen',
       (value ->> 'lastSeen') / ${DAY}, 'sig_x', 1, 999 FROM json_each(?)`,
    JSON.stringify(rows),
  );
}

/** Events of the table, in its order. */
function listed(html: string): string[] {
  return readHtml(html).rows.map((row) => row.only("th a").text);
}

describe("the signal queue", () => {
  test("lists each matching group once and in order, with any search, source, kind, days and page size", async () => {
    const rows = fc.uniqueArray(
      fc.record({
        event: fc.constantFrom("Form", "form", "Form Sent", "Mail", "mail opened", "Seen", "Zoom", "Äpfel"),
        source: fc.constantFrom("web", "crm", "app"),
        count: fc.integer({ min: 1, max: 4 }),
        held: fc.constantFrom(0, 0, 1),
        lastSeen: fc.nat({ max: 5 * DAY }),
      }),
      { selector: ({ event, source }) => `${event} ${source}`, maxLength: 24, size: "max" },
    );
    const asked = fc.record({
      sort: fc.constantFrom(...SORTS),
      search: fc.constantFrom(undefined, "form", "M", "nothing"),
      source: fc.constantFrom(undefined, "web"),
      only: fc.constantFrom(undefined, "held" as const),
      sinceDay: fc.constantFrom(undefined, 1, 3),
      untilDay: fc.constantFrom(undefined, 2, 4),
    });
    await inStore((sql) =>
      fc.assert(
        fc.asyncProperty(rows, asked, fc.integer({ min: 1, max: 8 }), async (some, query, limit) => {
          sql.exec("DELETE FROM event_groups");
          insert(sql, some);
          const { sort, search, source, only, sinceDay, untilDay } = query;
          const expected = some
            .filter(
              (row) =>
                row.event.toLowerCase().includes((search ?? "").toLowerCase()) &&
                (source === undefined || row.source === source) &&
                (only === undefined || row.held > 0) &&
                Math.floor(row.lastSeen / DAY) >= (sinceDay ?? 0) &&
                Math.floor(row.lastSeen / DAY) <= (untilDay ?? 9),
            )
            .sort(ORDERS[sort])
            .map((row) => [row.event, row.source]);
          const filter = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));
          const pages = await allSlices((cursor) => queuePage(sql, filter, { cursor, limit }));
          expect(pages.flatMap(({ items }) => items.map((item) => [item.event, item.source]))).toEqual(expected);
          expect(pages.every(({ complete, isCut }) => complete && !isCut)).toBe(true);
        }),
        { numRuns: 300 },
      ),
    );
  });

  test("sorts only the latest groups if there are too many, and the page says so", async () => {
    await inStore((sql) => {
      sql.exec(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
       INSERT INTO event_groups (event, source, count, held, anonymous, first_seen, last_seen, last_day, sample_id,
         sample_ordinal, sample_seq)
       SELECT 'event ' || i, 'web', ?1 - i + 1, 0, 0, 1, i * ${DAY} / 100, i / 100, 'sig_x', 1, 999 FROM n`,
        QUEUE_SORTED_GROUPS + 200,
      );
    });
    const html = await members.member.see(`${members.home}/signals?sort=count`);
    expect(textOf(html)).toContain("Sorted among the latest 5,000 events.");
    // The 200 groups with the highest count are the oldest. Of a day that is only partly among the latest, any group
    // may appear.
    const numbers = listed(html).map((event) => Number(event.slice("event ".length)));
    expect(Math.min(...numbers)).toBeGreaterThan(100);
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(textOf(await members.member.see(`${members.home}/signals`))).not.toContain("Sorted among");
  });

  test("finds nothing with a cursor of another order", async () => {
    await inStore((sql) => {
      insert(sql, [{ event: "e", source: "s", count: 1, held: 0, lastSeen: DAY }]);
      for (const sort of SORTS) {
        for (const cursor of ["x", "[]", "[1,2,3]", '["a","b"]']) {
          expect(queuePage(sql, { sort }, { cursor, limit: 5 }).items, `${sort} ${cursor}`).toEqual([]);
        }
      }
    });
  });

  test("keeps search, order and days in its form and links, and offers to clear filters without a match", async () => {
    const { home, member, workspace } = members;
    await deliver(
      workspace.id,
      Array.from({ length: 30 }, (_, n) => ({
        id: `sig_${n}`,
        ordinal: n + 1,
        payload: { event: `Form ${String((n * 7) % 30).padStart(2, "0")}`, source: "web", email: "p@example.com" },
      })),
    );
    const today = new Date().toISOString().slice(0, 10);
    const yesterday = new Date(Date.now() - DAY).toISOString().slice(0, 10);
    const asked = `q=form&sort=name&from=${yesterday}&to=${today}`;
    const html = await member.see(`${home}/signals?${asked}`);
    const page = readHtml(html).only("main");
    expect(["q", "sort", "from", "to"].map((name) => page.field(name).value)).toEqual([
      "form",
      "name",
      yesterday,
      today,
    ]);
    const next = page.next ?? "";
    expect(next).toContain(asked);
    const names = [...listed(html), ...listed(await member.see(next))];
    expect(names).toEqual(Array.from({ length: 30 }, (_, n) => `Form ${String(n).padStart(2, "0")}`));

    const nothing = await member.read(`${home}/signals?q=form&only=held&to=2020-01-01`);
    expect(nothing.text).toContain("No events match these filters");
    expect(nothing.chips).toMatchObject({
      "Search: form": expect.anything(),
      "Show: With held signals": expect.anything(),
      "Last seen: until 2020-01-01 (UTC)": `${home}/signals?q=form&only=held`,
    });
  });
});
