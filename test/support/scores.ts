/** The scores of people in their lists, including scores of signals that retention has dropped. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { readEntries } from "../../src/store/people/timeline-text.ts";
import { ascendingEntries, insertEntries } from "../../src/store/people/timelines.ts";
import { personList } from "../../src/store/people/visitor-keys.ts";
import { RuleOutcomes } from "../../src/store/state/rule-outcomes.ts";

interface PersonRow {
  [column: string]: SqlStorageValue;
  id: number;
  email: string;
  score: number;
  recent: string;
}

export interface ScoredSignal {
  [column: string]: SqlStorageValue;
  signal_id: string;
  scoring_signal: string;
  points: number;
  at: number;
  email: string;
}

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

/** Moves people's lists out of their rows as if they were too long, because few histories are long enough. */
export function spillLists(workspaceId: string): Promise<void> {
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage: { sql } }) => {
    for (const { id, recent } of peopleOf(sql)) insertEntries(sql, personList(id), readEntries(recent));
    sql.exec("UPDATE people SET recent = ''");
  });
}

function peopleOf(sql: SqlStorage): PersonRow[] {
  return sql.exec<PersonRow>("SELECT id, email, score, recent FROM people ORDER BY email").toArray();
}

function keyOf({ signal_id: id, scoring_signal: name, points }: ScoredSignal): string {
  return `${id} ${name} ${points}`;
}
