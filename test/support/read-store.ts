/** The stored data of a workspace's Signal Store, read by a separate reader. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { dayOf } from "../../src/domain/duration.ts";
import { ascendingEntries, readEntries, personList } from "../../src/store/people/timelines.ts";
import { deadSignals, heldSignals, type StoredSignal } from "../../src/store/resend-jobs.ts";
import { RuleOutcomes } from "../../src/store/state/rule-outcomes.ts";
import type { StoreState } from "../../src/store/state/store-state.ts";
import { openState } from "./log.ts";
import { countedOf, expectStateToAddUp, linesOf, ruleDaysOf } from "./adds-up.ts";

/** As after a restart. */
export function readStore<T>(
  workspaceId: string,
  read: (state: StoreState, storage: DurableObjectStorage) => T | Promise<T>,
): Promise<T> {
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (instance, { storage }) => {
    // The rows of the signal queue's groups are updated first.
    instance.recentNames();
    return read(openState(storage, workspaceId), storage);
  });
}

/** @param hasDropped retention has deleted signals, whose counts in the signal queue stay. */
export function expectToAddUp(workspaceId: string, { hasDropped = false } = {}): Promise<void> {
  return readStore(workspaceId, (state) => expectStateToAddUp(state, { hasDropped }));
}

/** @param cursor the ordinal before the first signal. */
export function heldIn(workspaceId: string, periodEndMs: number, cursor = 0, limit = 1_000): Promise<StoredSignal[]> {
  return readStore(workspaceId, (state) => heldSignals(state, periodEndMs, cursor, limit));
}

export function deadIn(workspaceId: string): Promise<StoredSignal[]> {
  return readStore(workspaceId, (state) => deadSignals(state, { cursor: 0, last: Number.MAX_SAFE_INTEGER }, 1_000));
}

type Counts = Record<string, Record<string, number>>;

/** Counts by day as the store keeps them equal those from its lines and lists. */
export async function expectDaysToAddUp(workspaceId: string): Promise<void> {
  await readStore(workspaceId, (state) => {
    const { sql, signals, held } = state;
    const kept: Counts = {};
    for (const { name, days } of sql.exec<{ name: string; days: string }>(
      `SELECT event || ' ' || source AS name, days FROM event_groups WHERE days <> ''`,
    )) {
      kept[name] = stored(days);
    }
    for (const [ruleId, { days }] of ruleDaysOf(state)) kept[ruleId] = stored(days);

    const counted: Counts = {};
    const count = (name: string, atMs: number): void => {
      const days = (counted[name] ??= {});
      days[dayOf(atMs)] = (days[dayOf(atMs)] ?? 0) + 1;
    };
    for (const { facts } of [...linesOf(signals), ...linesOf(held)]) {
      const { kind, status, event, source, admission } = facts;
      if (kind !== "signal" || !["processed", "anonymous", "held"].includes(status)) continue;
      count(`${event} ${source}`, admission.receivedAtMs);
    }
    for (const { id, recent } of sql.exec<{ id: number; recent: string }>("SELECT id, recent FROM people")) {
      const scored = [...ascendingEntries(sql, personList(id), readEntries(recent))].flatMap(
        (entry) => entry.scored ?? [],
      );
      for (const { ruleId, atMs } of countedOf(state, id, scored)) count(ruleId, atMs);
    }
    expect(kept).toEqual(counted);
  });
}

function stored(days: string): Record<string, number> {
  const [latest = 0, ...counts] = days.split(",").map(Number);
  return Object.fromEntries(counts.map((count, ago) => [latest - ago, count]).filter(([, count]) => count !== 0));
}

interface PersonRow {
  [column: string]: SqlStorageValue;
  id: number;
  email: string;
  score: number;
  recent: string;
}

interface ScoredSignal {
  [column: string]: SqlStorageValue;
  signal_id: string;
  scoring_signal: string;
  points: number;
  at: number;
  email: string;
}

/** The scores of people in their lists, including scores of signals that retention has dropped. */
export interface Scores {
  people: { email: string; score: number }[];
  /** Sorted by signal id. */
  scoring: ScoredSignal[];
}

export function scoresOf(workspaceId: string): Promise<Scores> {
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage: { sql } }) => readScores(sql));
}

export function readScores(sql: SqlStorage): Scores {
  const outcomes = new RuleOutcomes(sql);
  const people = peopleOf(sql);
  const scoring = people.flatMap(({ id, email, recent }) =>
    [...ascendingEntries(sql, personList(id), readEntries(recent))].flatMap(({ scored }) =>
      (scored?.outcomes ?? []).map((outcome) => {
        const { scoringSignal, points } = outcomes.get(outcome);
        return {
          signal_id: scored?.signalId ?? "",
          scoring_signal: scoringSignal,
          points,
          at: scored?.atMs ?? 0,
          email,
        };
      }),
    ),
  );
  return {
    people: people.map(({ email, score }) => ({ email, score })),
    scoring: scoring.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)),
  };
}

function peopleOf(sql: SqlStorage): PersonRow[] {
  return sql.exec<PersonRow>("SELECT id, email, score, recent FROM people ORDER BY email").toArray();
}

function keyOf({ signal_id: id, scoring_signal: name, points }: ScoredSignal): string {
  return `${id} ${name} ${points}`;
}
