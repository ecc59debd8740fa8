/** The gate of queries (src/store/log/shown-log.ts): a deletion under way hides payloads, sources and names everywhere. */
import { describe, expect, test, vi } from "vitest";
import { exportPart } from "../../../../src/store/queries/exports.ts";
import { listEventGroups, suggestForRule } from "../../../../src/store/queries/event-groups.ts";
import { findSignals, latestSignals, traceSignal } from "../../../../src/store/queries/newest-signals.ts";
import { readPersonPage } from "../../../../src/store/queries/person-page.ts";
import { previewPart } from "../../../../src/store/queries/rule-preview.ts";
import type { MappingRule } from "../../../../src/domain/rules/mapping-rule.ts";
import { COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { shown } from "../../../../src/store/queries/shown.ts";
import { updateGroups } from "../../../../src/store/state/status-change.ts";
import { inStore, type Sent, type TestStore } from "../../../support/store.ts";
import { STEPS } from "../../../../src/store/steps.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const JANE = "jane@example.com";
const PAGE = { cursor: null, limit: 3_000 };
/** What only Jane's signals contain. */
const SECRET = /jane|secret/i;

const form = (email: string, n: number): Sent => ({
  payload: { event: "Form", email, n, text: email === JANE ? `secret ${n}` : `said ${n}` },
  pathSource: email === JANE ? "the secret form of jane" : "site",
});

/** The state of a deletion that has begun and has many lines left. */
function begun(store: TestStore): string[] {
  const many = Array.from({ length: STEPS.deletionLines + 500 }, (_, n) => form(JANE, n));
  const ids = store.record(
    NOW,
    ...many,
    form("bob@example.com", 1),
    { ...form(JANE, -1), verdict: "held" },
    { ...form(JANE, -2), dead: true },
  );
  store.beginDeletion(JANE, NOW + 1);
  return ids;
}

const RULE: MappingRule = {
  id: "rule_2",
  version: 1,
  event: "Form",
  match: "all",
  conditions: [],
  scoringSignal: "s",
  points: 1,
};
const RANGE = { sinceMs: 0, beforeSeq: Number.MAX_SAFE_INTEGER, limit: 4_000, today: 0 };

const QUERIES: [name: string, (store: TestStore, ids: string[]) => unknown][] = [
  ["the list of signals", (store) => findSignals(store.shown, {}, PAGE)],
  ["the held signals", (store) => findSignals(store.shown, { status: "held" }, PAGE)],
  [
    "the signals of a source",
    (store) => findSignals(store.shown, { event: "Form", source: "the secret form of jane" }, PAGE),
  ],
  ["the live page", (store) => latestSignals(store.shown, null, 3_000)],
  ["the dead letters", (store) => store.shown.deadLetters.list(PAGE)],
  ["the samples of the queue", (store) => listEventGroups(store.shown, PAGE)],
  ["suggestions of the rule form", (store) => suggestForRule(store.shown, "Form")],
  ["a preview of a rule", (store) => previewPart(store.shown, RULE, RANGE)],
  ["her page", (store) => readPersonPage(store.shown, JANE, "all", PAGE)],
  ["traces", (store, ids) => Promise.all(ids.slice(-700).map((id) => traceSignal(() => store.shown, id)))],
  [
    "an export",
    async (store) => {
      const pages: string[] = [];
      for (let cursor: string | null = null, isMore = true; isMore;) {
        // oxlint-disable-next-line no-await-in-loop -- each page begins at the end of the page before
        const { text, next } = await exportPart(() => store.shown, { records: "signals", format: "ndjson", cursor });
        pages.push(text);
        cursor = next;
        isMore = next !== null;
      }
      return pages;
    },
  ],
];

describe.each(["here", "in R2"])("while a deletion is under way, with payloads %s,", (where) => {
  test.each(QUERIES)("%s shows nothing of the person", (_, query) =>
    inStore(async (store) => {
      const ids = begun(store);
      updateGroups(store.state);
      if (where === "in R2") {
        store.seal();
        store.restart();
        while ((store.state.signals.workMs(NOW) ?? Infinity) <= NOW + COLD_AFTER_MS) {
          // oxlint-disable-next-line no-await-in-loop -- one object after the other
          await store.state.signals.work(NOW + COLD_AFTER_MS);
          break;
        }
      }
      const text = JSON.stringify(await query(store, ids));
      expect(SECRET.exec(text)?.[0]).toBeUndefined();
    }),
  );
});

test("a payload whose deletion begins while R2 is read is not shown", () =>
  inStore(async (store) => {
    store.record(NOW, form(JANE, 1), form("bob@example.com", 2));
    store.seal();
    await store.workOnCold(NOW + COLD_AFTER_MS);
    const { signals } = shown(store.state);
    const wanted = [...signals.walk({ after: 0 })].map((portion) => ({ portion, seqs: portion.seqs }));
    const readPayloads = store.state.signals.readPayloads.bind(store.state.signals);
    vi.spyOn(store.state.signals, "readPayloads").mockImplementation(async (lines) => {
      const payloads = await readPayloads(lines);
      store.beginDeletion(JANE, NOW + COLD_AFTER_MS);
      return payloads;
    });
    const payloads = await signals.readPayloads(wanted);
    expect([payloads.get(1), payloads.get(2)]).toEqual([null, expect.stringContaining("said 2")]);
  }));

test("the gate itself gives no payload of a hidden line, and a hidden dead letter without its reason", () =>
  inStore((store) => {
    begun(store);
    const { signals, deadLetters } = store.shown;
    const payloads = [...signals.walk({ after: 0 })].flatMap((portion) => [...(signals.payloadsOf(portion) ?? [])]);
    const shownTexts = payloads.flatMap(([, payload]) => payload ?? []);
    expect(shownTexts).toEqual([expect.stringContaining("said 1")]);
    expect([...deadLetters.latest(Number.MAX_SAFE_INTEGER)]).toMatchObject([{ status: "purged", reason: "" }]);
  }));
