/** What all parts of a workspace's Signal Store work on: its database, and what is kept of it in memory. */
import { RaisedEvents } from "../../notifications/raised-events.ts";
import { HeldLog } from "../log/held-log.ts";
import { Log } from "../log/log.ts";
import { Originals } from "../log/originals.ts";
import { updateGroups } from "./event-group-changes.ts";
import { Once } from "./once.ts";
import { updateRuleDays } from "./rule-days.ts";
import { EMPTY_BOOKS } from "./store-meta.ts";
import type { BooksMeta } from "./store-meta.ts";
import { RuleOutcomes } from "./rule-outcomes.ts";

/** The log of recorded signals. Changes of groups and of rules' counts wait in its head. */
class SignalsLog extends Log<BooksMeta> {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    super(sql, "signals", EMPTY_BOOKS);
    this.#sql = sql;
  }

  protected override emptyMeta(): void {
    const stored = { sql: this.#sql, books: this.meta };
    updateGroups(stored);
    updateRuleDays(stored);
  }
}

export class StoreState {
  readonly sql: SqlStorage;
  /** Everything that has been recorded, but for held signals and dead letters. */
  readonly signals: Log<BooksMeta>;
  /** Held signals, in the order in which they were recorded. */
  readonly held: HeldLog;
  readonly originals: Originals;
  readonly outcomes: RuleOutcomes;
  readonly once: Once;
  /** Events that wait to be handed on. */
  readonly raised: RaisedEvents;

  constructor(sql: SqlStorage) {
    this.sql = sql;
    this.signals = new SignalsLog(sql);
    this.held = new HeldLog(sql);
    this.originals = new Originals(this.signals);
    this.outcomes = new RuleOutcomes(sql);
    this.once = new Once(sql);
    this.raised = new RaisedEvents(sql);
  }

  /** The books of the store, and what else the head remembers. `signals.flush` writes them. */
  get books(): BooksMeta {
    return this.signals.meta;
  }

  /** Reads again what is in memory, after a transaction was taken back. */
  reload(): void {
    this.signals.reload();
    this.held.reload();
    this.outcomes.forget();
    this.raised.reload();
  }
}
