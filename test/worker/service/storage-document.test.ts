/**
 * docs/storage.md describes every stored table, column, message and object: a workspace's life fills all of them, and the
 * document must have the same fields. `npm test -- test/worker/service/storage-document.test.ts -u` writes types and examples
 * of the run into the document; new fields then need their meaning.
 */
import { beforeAll, expect, test } from "vitest";
import DOCUMENT from "../../../docs/storage.md?raw";
import { listOfKey, readEntries } from "../../../src/store/people/timelines.ts";
import { readTraitOrders } from "../../../src/store/people/people.ts";
import { readLapses } from "../../../src/store/people/scoring.ts";
import { latestDays } from "../../../src/domain/duration.ts";
import { readMessage } from "../../../src/wire/message.ts";
import { expectLogged } from "../../support/logged.ts";
import {
  fieldsOfTable,
  fieldsOfValues,
  parseDocument,
  problemsOf,
  rewriteDocument,
  type Field,
  type Reading,
} from "../../support/storage-document.ts";
import { Life } from "../../support/storage-life.ts";
import { bytesOf } from "../../support/wire.ts";

// The life of the workspace includes failures.
expectLogged("chore_failed", "rows_set_aside");

const FILE = "../../../docs/storage.md";

const MAPS = [
  "heads.meta.totals",
  "heads.meta.dropped",
  "heads.meta.groups",
  "heads.meta.groups{}.days",
  "heads.meta.rules",
  "heads.meta.rules{}.days",
  "heads.meta.keys",
  "heads.meta.keys{}",
  "heads.meta.keys{}{}.days",
  "ledger.budgets",
  "ledger.budget_use",
  "outbox.budget_use",
  "accounts.claims",
  "accounts.histories",
];
/** What senders and notifications contain; docs/api.md describes it. */
const OPAQUE = [
  "account_changes.after",
  "account_changes.before",
  "accounts.attributes",
  "accounts.feature_flags",
  "audit_log.detail",
  "dead_letters.payload",
  "exports[].header",
  "exports[].place",
  "imported_rows.row",
  "notifications.data",
  "raised_notifications.body[].data",
  "signals.payload",
  "switched_off.detail",
  "workspace_imports.manifest",
];

const daysOf = (text: string) => {
  const [latest = 0, ...counts] = text.split(",").map(Number);
  return text === "" ? null : { latest, counts: latestDays(text, latest, counts.length).toReversed() };
};

const readers: Reading["readers"] = {
  "people.recent": readEntries,
  "people.base": (text) => (text === "" ? null : (JSON.parse(text) as unknown)),
  "timelines.entries": readEntries,
  "people.lapses": readLapses,
  "people.trait_orders": readTraitOrders,
  "event_groups.days": daysOf,
  "rule_days.days": daysOf,
  "key_days.days": daysOf,
};

const shown: Reading["shown"] = {
  "identities.key": listOf,
  "pairs.key": listOf,
  "pairs.other_key": listOf,
  "timelines.list": listOf,
  "link_jobs.key": listOf,
  "destinations.secret": secretOf,
  "old_secrets.secret": secretOf,
  "outbox.body": visible,
  "unreadable_rows.body": visible,
};

/** Control characters as signs that can be seen. */
function visible(body: SqlStorageValue): string {
  const text = new TextDecoder().decode(body as ArrayBuffer);
  return text.replaceAll("\u001d", "␝").replaceAll("\u001e", "␞").replaceAll("\u001f", "␟");
}

function listOf(key: SqlStorageValue): string {
  return listOfKey(key as ArrayBuffer);
}

function secretOf(secret: SqlStorageValue): string {
  return `${(secret as string).slice(0, 10)}…`;
}

/** The parts of a message as the document names them. */
function partsOfMessage(text: string): unknown[] {
  const [head = "", ...rows] = text.split("\u001d");
  const [workspace, low] = head.split(" ");
  return rows.flatMap((row) => {
    const [rowHead = "", ...calls] = row.split("\u001e");
    return calls.flatMap((call) => {
      const [callHead = "", signalHead = "", payload = ""] = call.split("\u001f");
      const [id, index] = signalHead.split(" ");
      const signal = { id, ...(index !== undefined && { index: Number(index) }) };
      return {
        workspace,
        lowestUnsettledRow: Number(low),
        row: JSON.parse(rowHead),
        call: JSON.parse(callHead),
        signal,
        payload: JSON.parse(payload),
      };
    });
  });
}

let life: Life;
let fields: Map<string, Map<string, Field[]>>;

beforeAll(async () => {
  life = await Life.live();
  const reading: Reading = {
    readers,
    shown,
    namedValues: { settings: "name" },
    favourites: life.favourites,
    isMap: (path) => MAPS.includes(path),
    isOpaque: (path) => OPAQUE.includes(path),
  };
  fields = new Map(
    [...life.databases].map(([database, tables]) => [
      database,
      new Map([...tables].map(([table, stored]) => [table, fieldsOfTable(table, stored, reading)] as const)),
    ]),
  );
  const add = (section: string, table: string, values: readonly unknown[]) => {
    const liked = (value: unknown) => life.favourites.filter((text) => JSON.stringify(value).includes(text)).length;
    const found = fieldsOfValues(
      values.toSorted((a, b) => liked(b) - liked(a)),
      table,
      reading,
    );
    const tables = fields.get(section) ?? new Map<string, Field[]>();
    fields.set(
      section,
      tables.set(
        table,
        found.map((field) => ({ ...field, name: field.name.slice(table.length).replace(/^\./, "") })),
      ),
    );
  };
  add("Signal Store", "line", life.lines);
  for (const { object, key } of life.kv)
    add(
      object,
      key,
      life.kv
        .filter((entry) => entry.object === object && entry.key === key)
        .map(({ value }) => (typeof value === "object" ? value : { value })),
    );
  add("Queues", "signals", life.messages.signals.flatMap(partsOfMessage));
  add(
    "Queues",
    "deliveries",
    life.messages.deliveries.map((text) => JSON.parse(text) as unknown),
  );
  const forms = Map.groupBy(life.keys, (key) =>
    key.replace(life.workspace.id, "{workspace}").replace(/\w+_[\da-f-]{36}/, "{object}"),
  );
  for (const [form, keys] of forms) {
    add(
      "R2",
      form,
      keys.map((key) => ({ key })),
    );
  }
});

test("the life of a workspace writes every table", () => {
  const empty = [...life.databases].flatMap(([database, tables]) =>
    [...tables].flatMap(([table, { rows }]) => (rows.length === 0 ? [`${database}: ${table}`] : [])),
  );
  expect(empty).toEqual([]);
});

test("docs/storage.md describes each stored table, message and object with its fields, and no others", async () => {
  const { snapshotState } = expect.getState() as unknown as { snapshotState: { _updateSnapshot: string } };
  if (snapshotState._updateSnapshot === "all")
    await expect(rewriteDocument(DOCUMENT, fields)).toMatchFileSnapshot(FILE);
  else expect(problemsOf(parseDocument(DOCUMENT), fields)).toEqual([]);
});

test("the code reads every message", () => {
  for (const text of life.messages.signals)
    expect(readMessage(bytesOf(text))).toMatchObject({ unreadable: 0, newer: 0 });
});
