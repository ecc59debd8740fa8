/** Design §8.7: people belong to accounts through group and identify calls, and an account has the sum of their scores. */
import { describe, expect, test } from "vitest";
import { notificationTypes } from "../../../../src/domain/notifications/notification.ts";
import { GROUP_ATTRIBUTES_MAX } from "../../../../src/store/accounts/accounts.ts";
import { findAccounts, readAccountPage } from "../../../../src/store/queries/account-page.ts";
import { findPeople } from "../../../../src/store/queries/people-search.ts";
import type { SignalToRecord } from "../../../../src/store/protocol/stored-signals.ts";
import { wantNotifications } from "../../../../src/store/state/raise-notifications.ts";
import { ofType, takeRaised } from "../../../support/raised.ts";
import { rowsWritten } from "../../../support/sql-cost.ts";
import { inBalance, type TestStore } from "../../../support/store.ts";
import { wanting } from "../../../support/wanting.ts";

const NOW = Date.now();
const ANN = "ann@example.com";
const BOB = "bob@example.com";
const PAGE = { cursor: null, limit: 50 };

let messages = 0;

/** Records a call. Its event E scores 5 points. */
function send(store: TestStore, type: string, call: object, receivedAtMs = NOW): string {
  const payload = { type, messageId: `m-${messages++}`, ...(type === "track" && { event: "E" }), ...call };
  return store.record(NOW, { payload, receivedAtMs })[0] ?? "";
}

/** An update by a Product Org Updates key. */
function update(store: TestStore, externalId: string, plan: string, receivedAtMs = NOW): SignalToRecord {
  const signal = store.signal(NOW, { payload: {}, endpoint: "product_org", receivedAtMs });
  const account = { externalId, fields: { plan }, attributes: {} };
  return { ...signal, work: { kind: "account", account, contentHash: null, duplicateWindowMs: 0 } };
}

const accountsOf = (store: TestStore) =>
  findAccounts(store.state, { sort: "score" }, PAGE).items.map(({ externalId, score, people }) => [
    externalId,
    score,
    people,
  ]);
const page = (store: TestStore, externalId: string) => readAccountPage(store.shown, externalId, PAGE);

describe("a person", () => {
  test(
    "belongs to one account, by the last claim in order of receipt, and takes the whole score along",
    inBalance((store) => {
      send(store, "track", { email: ANN });
      send(store, "identify", { anonymousId: "a-1", traits: { email: ANN, company: { id: "acme" } } }, NOW + 10);
      expect(accountsOf(store)).toEqual([["acme", 5, 1]]);
      send(store, "group", { anonymousId: "a-1", groupId: "globex" }, NOW + 20);
      send(store, "track", { email: ANN }, NOW + 21);
      // A late call of before changes nothing.
      send(store, "group", { anonymousId: "a-1", groupId: "initech" }, NOW + 15);
      expect(accountsOf(store)).toEqual([["globex", 10, 1]]);
      const { items } = findPeople(store.shown, { sort: "score", account: "globex" }, PAGE);
      expect(items).toMatchObject([{ email: ANN, account: { externalId: "globex", name: null } }]);
    }),
  );

  test(
    "joins the account of an earlier group call when the visitor is linked",
    inBalance(async (store) => {
      send(store, "group", { anonymousId: "a-1", groupId: " acme " });
      send(store, "track", { anonymousId: "a-1" });
      expect(accountsOf(store)).toEqual([]);
      send(store, "identify", { anonymousId: "a-1", traits: { email: ANN } }, NOW + 5);
      await store.linkAll();
      expect(accountsOf(store)).toEqual([["acme", 5, 1]]);
    }),
  );

  test(
    "returns to the account before if the call moves to another person",
    inBalance(async (store) => {
      send(store, "identify", { anonymousId: "a-1", traits: { email: ANN, company: { id: "acme" } } });
      send(store, "track", { email: ANN });
      send(store, "group", { anonymousId: "a-1", userId: "u-1", groupId: "globex" }, NOW + 1);
      expect(accountsOf(store)).toEqual([["globex", 5, 1]]);
      send(store, "identify", { userId: "u-1", traits: { email: BOB } }, NOW + 2);
      await store.linkAll();
      expect(accountsOf(store)).toEqual([
        ["acme", 5, 1],
        ["globex", 0, 1],
      ]);
    }),
  );

  test(
    "leaves the account in the first step of a deletion, without a name and without a notification",
    inBalance((store) => {
      for (const email of [ANN, BOB]) {
        send(store, "identify", { userId: email, traits: { email, name: "Jane Doe", company: { id: "acme" } } });
        send(store, "track", { email });
      }
      want(store, 8);
      store.beginDeletion(ANN, NOW + 10);
      expect([accountsOf(store), takeRaised(store.state.raised)]).toEqual([[["acme", 5, 1]], []]);
      store.finishDeletions(NOW + 10);
      expect(page(store, "acme")?.topPeople.map(({ email }) => email)).toEqual([BOB]);
      store.deletePerson(BOB, NOW + 20);
      expect(accountsOf(store)).toEqual([]);
    }),
  );

  test.each([
    ["without an id", {}],
    ["with a placeholder", { groupId: "{{company.id}}" }],
    ["with null", { groupId: null }],
  ])("stays without an account after a group call %s", (_, group) =>
    inBalance((store) => {
      send(store, "group", { userId: "u-1", traits: { name: "Acme" }, ...group });
      send(store, "identify", { userId: "u-1", traits: { email: ANN } });
      expect([accountsOf(store), store.scores]).toEqual([[], { ann: 0 }]);
    })(),
  );
});

test(
  "an account keeps the values of an update in the batch in which its last person leaves",
  inBalance((store) => {
    send(store, "identify", { userId: "u-1", traits: { email: ANN, company: { id: "acme" } } });
    const leave = { type: "group", messageId: "leave", userId: "u-1", groupId: "globex" };
    store.recordAll(NOW, [store.signal(NOW, { payload: leave }), update(store, "acme", "pro")]);
    expect(page(store, "acme")).toMatchObject({ people: 0, values: { plan: "pro" } });
    expect(accountsOf(store)).toContainEqual(["globex", 0, 1]);
  }),
);

function want(store: TestStore, ...accountThresholds: number[]): void {
  wantNotifications(store.state, wanting({ types: [...notificationTypes], accountThresholds }));
  store.state.signals.flush();
}

test(
  "a notification of an account has the name that an update of the same batch gives it",
  inBalance((store) => {
    send(store, "identify", { userId: "u-1", traits: { email: ANN, company: { id: "acme" } } });
    want(store, 5);
    const named = update(store, "acme", "pro");
    Object.assign(named.work.kind === "account" ? named.work.account.fields : {}, { name: "Acme" });
    const scores = store.signal(NOW, { payload: { type: "track", event: "E", messageId: "scores", email: ANN } });
    store.recordAll(NOW, [named, scores]);
    const raised = ofType(takeRaised(store.state.raised), "account.score_crossed");
    expect(raised).toMatchObject([{ external_id: "acme", name: "Acme", score: 5 }]);
  }),
);

describe("the traits of a group call", () => {
  const group = { userId: "u-1", groupId: "acme", traits: { name: "Acme", plan: "free", industry: "tools", "": 1 } };

  test("set values that no account update has set, in any order, and the page names the source of each value", () =>
    Promise.all(
      [0, 1].map((first) =>
        inBalance((store) => {
          const acts = [
            () => void send(store, "group", group),
            () => store.recordAll(NOW, [update(store, "acme", "pro", NOW - 60_000)]),
          ];
          for (const act of first === 0 ? acts : acts.toReversed()) act();
          expect(page(store, "acme")).toMatchObject({
            values: { name: "Acme", plan: "pro" },
            attributes: { industry: "tools" },
            origins: { name: { by: "group" }, plan: { by: "update" }, "attributes.industry": { by: "group" } },
            changes: { items: [{ field: "plan", before: null, after: '"pro"' }] },
          });
        })(),
      ),
    ).then(() => undefined));

  test(
    "of several calls, the one received last counts; a value that is too large is left out",
    inBalance((store) => {
      send(store, "group", { ...group, traits: { plan: "new", note: "x".repeat(2_000) } }, NOW + 5);
      send(store, "group", { ...group, traits: { plan: "old", size: 7 } }, NOW);
      expect(page(store, "acme")).toMatchObject({ values: { plan: "new" }, attributes: { size: 7 } });
    }),
  );

  test(
    "set nothing if the account would have more than GROUP_ATTRIBUTES_MAX values of group calls",
    inBalance((store) => {
      let sent = 0;
      const set = (count: number) => {
        const traits = Object.fromEntries(Array.from({ length: count }, () => [`t${sent++}`, 1]));
        send(store, "group", { ...group, traits }, NOW + sent);
        return Object.keys(page(store, "acme")?.attributes ?? {}).length;
      };
      const half = GROUP_ATTRIBUTES_MAX / 2;
      expect([set(half), set(half - 1), set(2), set(1)]).toEqual([
        half,
        2 * half - 1,
        2 * half - 1,
        GROUP_ATTRIBUTES_MAX,
      ]);
    }),
  );
});

test(
  "an account raises a notification when its score reaches a threshold, and when it falls below",
  inBalance(async (store) => {
    want(store, 10);
    send(store, "group", { userId: "u-1", groupId: "acme", traits: { name: "Acme" } });
    send(store, "identify", { userId: "u-1", traits: { email: ANN } });
    await store.linkAll();
    takeRaised(store.state.raised);
    send(store, "track", { email: ANN });
    send(store, "track", { email: ANN });
    const account = { external_id: "acme", name: "Acme", threshold: 10 };
    expect(ofType(takeRaised(store.state.raised), "account.score_crossed")).toEqual([
      { ...account, score: 10, score_before: 5 },
    ]);
    send(store, "group", { userId: "u-1", groupId: "globex" }, NOW + 9);
    expect(ofType(takeRaised(store.state.raised), "account.score_fell")).toEqual([
      { ...account, score: 0, score_before: 10 },
    ]);
  }),
);

test(
  "an account whose member loses one of two claims of it is written once, so that it stays and raises nothing",
  inBalance(async (store) => {
    send(store, "identify", { anonymousId: "a-1", traits: { email: ANN, company: { id: "acme" } } });
    send(store, "track", { email: ANN });
    send(store, "group", { anonymousId: "a-1", userId: "u-1", groupId: "acme" }, NOW + 1);
    want(store, 5);
    const row = () => store.sql.exec("SELECT id, score FROM accounts").one();
    const before = row();
    send(store, "identify", { userId: "u-1", traits: { email: BOB } }, NOW + 2);
    await store.linkAll();
    const types = takeRaised(store.state.raised).map(({ type }) => type);
    expect([row(), types.filter((type) => type.startsWith("account."))]).toEqual([before, []]);
    expect(accountsOf(store)).toEqual([["acme", 5, 2]]);
  }),
);

test(
  "people of an account are listed by email, page by page",
  inBalance((store) => {
    const emails = ["cyd", "ann", "eve", "bob", "dan"].map((name) => `${name}@example.com`);
    for (const email of emails) send(store, "identify", { userId: email, traits: { email, company: { id: "acme" } } });
    const query = { sort: "email", account: "acme" } as const;
    const listed: string[] = [];
    let cursor: string | null = null;
    do {
      const found = findPeople(store.shown, query, { cursor, limit: 2 });
      listed.push(...found.items.map(({ email }) => email));
      cursor = found.next;
    } while (cursor !== null);
    expect(listed).toEqual(emails.toSorted());
  }),
);

test(
  "a batch of many people writes at most two rows of an account, and a batch without accounts writes none",
  inBalance((store) => {
    const people = Array.from({ length: 50 }, (_, index) => `p${index}@example.com`);
    for (const email of people) send(store, "identify", { userId: email, traits: { email, company: { id: "acme" } } });
    const batch = (offset: number) =>
      people.map((email) => ({
        payload: { type: "track", event: "E", messageId: `b-${offset}-${email}`, userId: email },
        receivedAtMs: NOW + offset,
      }));
    store.record(NOW, ...batch(1));
    const withAccount = rowsWritten(store.sql, () => void store.record(NOW, ...batch(2)));
    store.sql.exec("UPDATE people SET account = NULL");
    const without = rowsWritten(store.sql, () => void store.record(NOW, ...batch(3)));
    store.sql.exec("UPDATE people SET account = 'acme'");
    store.sql.exec("UPDATE accounts SET score = (SELECT sum(score) FROM people)");
    expect(withAccount - without).toBeGreaterThanOrEqual(1);
    expect(withAccount - without).toBeLessThanOrEqual(2);
  }),
);

describe("an account exists and was first seen", () => {
  const seen = ({ sql }: TestStore) =>
    sql.exec("SELECT external_id AS id, people, first_seen - ?1 AS first FROM accounts ORDER BY id", NOW).toArray();
  const joins = (email: string, ms: number, account = "acme") => ({
    payload: {
      type: "identify",
      messageId: `${email} ${account}`,
      userId: email,
      traits: { email, company: { id: account } },
    },
    receivedAtMs: NOW + ms,
  });

  /** All orders of delivery. */
  const orders = <T>([first, ...rest]: T[]): T[][] =>
    first === undefined
      ? [[]]
      : orders(rest).flatMap((order) =>
          order.map((_, at) => order.toSpliced(at, 0, first)).concat([[...order, first]]),
        );

  test.each([
    ["by members", {}, [{ id: "acme", people: 1, first: 20 }], []],
    [
      "by an update without values",
      { update: 30 },
      [{ id: "acme", people: 1, first: 20 }],
      [{ id: "acme", people: 0, first: 30 }],
    ],
    ["by an early update", { update: 5 }, [{ id: "acme", people: 1, first: 5 }], [{ id: "acme", people: 0, first: 5 }]],
    ["by a group call whose values lose", { values: 40, group: 15 }, [{ id: "acme", people: 1, first: 15 }], null],
  ])(
    "%s, in any order of delivery",
    async (_, named: { update?: number; values?: number; group?: number }, withBob, without) => {
      const acts = [
        (store: TestStore) => void store.record(NOW, joins(ANN, 10)),
        (store: TestStore) => void store.record(NOW, joins(ANN, 50, "globex")),
        (store: TestStore) => void store.record(NOW, joins(BOB, 20)),
        (store: TestStore) => {
          if (named.update !== undefined) store.recordAll(NOW, [empty(store, NOW + named.update)]);
          if (named.values !== undefined) store.recordAll(NOW, [update(store, "acme", "pro", NOW + named.values)]);
        },
        (store: TestStore) => {
          const group = {
            type: "group",
            messageId: "g",
            anonymousId: "nobody",
            groupId: "acme",
            traits: { plan: "free" },
          };
          if (named.group !== undefined) store.record(NOW, { payload: group, receivedAtMs: NOW + named.group });
        },
      ];
      for (const order of orders(acts).filter((_order, index) => index % 5 === 0)) {
        // oxlint-disable-next-line no-await-in-loop -- stores of one file share the machine
        await inBalance((store) => {
          for (const act of order) act(store);
          const ann = { id: "globex", people: 1, first: 10 };
          expect(seen(store)).toEqual([...withBob, ann]);
          if (without === null) return;
          store.deletePerson(BOB, NOW + 60);
          expect(seen(store)).toEqual([...without, ann]);
        })();
      }
    },
  );

  function empty(store: TestStore, receivedAtMs: number): SignalToRecord {
    const signal = update(store, "acme", "", receivedAtMs);
    return {
      ...signal,
      work: {
        kind: "account",
        account: { externalId: "acme", fields: {}, attributes: {} },
        contentHash: null,
        duplicateWindowMs: 0,
      },
    };
  }
});

describe("group calls near the limits of an account", () => {
  const group = (traits: object, ms: number) => ({
    payload: { type: "group", messageId: `limit-${ms}`, userId: "u-1", groupId: "acme", traits },
    receivedAtMs: NOW + ms,
  });
  const named = (count: number, value: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`t${n}`, value]));

  test(
    "change values that the account has, however many",
    inBalance((store) => {
      const half = GROUP_ATTRIBUTES_MAX / 2;
      const others = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`other${n}`, 1]));
      store.record(NOW, group(named(half, 1), 0), group(others(10), 1));
      store.record(NOW, group({ ...named(half - 1, 2), fresh: 2 }, 2));
      expect(page(store, "acme")?.attributes).toMatchObject({ t0: 2, fresh: 2, [`t${half - 1}`]: 1 });
      store.record(NOW, group(others(half - 1), 3));
      store.record(NOW, group({ ...named(half - 1, 3), "one more": 3 }, 4));
      const { attributes = {} } = page(store, "acme") ?? {};
      expect(attributes).toMatchObject({ t0: 3, fresh: 2 });
      expect(Object.keys(attributes)).toHaveLength(GROUP_ATTRIBUTES_MAX);
    }),
  );

  test(
    "leave room for updates, however long the names of their traits are",
    inBalance((store) => {
      for (let n = 0; n < 50; n++) store.record(NOW, group({ [`${"x".repeat(30_000)}${n}`]: 1, plan: `p${n}` }, n));
      store.recordAll(NOW, [update(store, "acme", "y".repeat(40_000), NOW + 100)]);
      expect(store.sql.exec("SELECT reason FROM dead_letters").toArray()).toEqual([]);
      expect(page(store, "acme")?.attributes).toEqual({});
    }),
  );
});
