import { PERSON_MAX_IDS } from "../limits.ts";

/**
 * The sizes of the store's steps. A step is one transaction, during which the store answers no other call: each takes 50 ms at most.
 * Tests make the steps tiny, so that every job stops midway.
 */
export const STEPS = {
  /** Signals that a step links. */
  linkSignals: 500,
  /** Lines that a step of a deletion reads: a person with few signals is completely deleted when the call returns. */
  deletionLines: 2_000,
  /** Dead letters that a deletion reads at a time. */
  deletionDeadLetters: 50,
  /** Portions of the log that a deletion reads at a time. One row of a timeline may refer to hundreds of them. */
  deletionPortions: 20,
  /** Lines that a step of retention drops. One portion can exceed this. */
  retentionLines: 500,
  /** Held lines that a step of the purge reads. */
  purgeLines: 2_000,
  /** Misfits that a step of their purge empties. */
  purgeMisfits: 500,
  /** People whose lapsed points a step removes. */
  lapsePeople: 500,
  /** Rows of a person's timeline from which a step removes entries of dropped lines whose points have lapsed. */
  lapsedRows: 2,
  /** Entries that a step reads to find replacements. */
  replaceEntries: 5_000,
  /** Replacements that a step begins. */
  peopleJobs: 50,
  /** Signals that a step of a rule's job evaluates. */
  ruleSignals: 1_000,
  /** Portions of the log that a step of a job reads, however few of their lines it needs: some 10 ms, 12 MB of payloads at most. */
  portions: 80,
  /** People whose lines a step of retention drops. */
  retentionPeople: 150,
};

/** Limits that tests make tiny too. */
export const KEPT = {
  /** Ids of a kind that a person keeps. */
  personIds: PERSON_MAX_IDS,
};
