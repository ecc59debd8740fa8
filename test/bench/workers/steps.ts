/** A Signal Store that makes the largest input of a step itself, and takes the step in one call. For steps.ts. */
import { DAY_MS, dayOf } from "../../../src/domain/duration.ts";
import { evaluate } from "../../../src/domain/rules/evaluate-rules.ts";
import { compileRules, type MappingRule } from "../../../src/domain/rules/mapping-rule.ts";
import { normalise } from "../../../src/domain/signal/normalise.ts";
import { newId } from "../../../src/platform/ids.ts";
import { beginDeletion } from "../../../src/store/deletion/person-deletions.ts";
import { deleteExpired, setRetention } from "../../../src/store/deletion/retention.ts";
import { stepLapses } from "../../../src/store/people/lapse-run.ts";
import { stepReplacements } from "../../../src/store/people/replacements.ts";
import { addPointsUntil } from "../../../src/store/people/scoring.ts";
import { insertEntries, personList, type Entry } from "../../../src/store/people/timelines.ts";
import type { SignalToRecord } from "../../../src/store/protocol/stored-signals.ts";
import { readPersonPage } from "../../../src/store/queries/person-page.ts";
import { shown } from "../../../src/store/queries/shown.ts";
import { recordSignals } from "../../../src/store/record-signals.ts";
import { SignalStore as Store } from "../../../src/store/signal-store.ts";
import { wantNotifications } from "../../../src/store/state/raise-notifications.ts";
import {
  BATCH_SIGNALS,
  LAPSE_DAYS,
  NIGHT_PEOPLE,
  SCORED_DAYS,
  SCORED_SIGNALS,
  SEGMENT_LINES,
  SEGMENTS,
  WAITING_BYTES,
  type StepCall,
  type StepName,
} from "../step-calls.ts";

export { Destinations } from "../../../src/notifications/destinations.ts";
export { QuotaCounter } from "../../../src/quota/quota-counter.ts";

type StepEnv = Omit<Env, "SIGNAL_STORE"> & { SIGNAL_STORE: DurableObjectNamespace<SignalStore> };

export default {
  async fetch(request, env): Promise<Response> {
    const { object, step, act }: StepCall = await request.json();
    const store = env.SIGNAL_STORE.getByName(object);
    await (act === "prepare" ? store.prepare(step) : store.take(step));
    return Response.json(null);
  },
} satisfies ExportedHandler<StepEnv>;

const TODAY = dayOf(Date.UTC(2026, 5, 1));
const NOW = TODAY * DAY_MS + DAY_MS / 2;
const EMAIL = "p1@example.com";
/** Batches that the people of a measured batch have sent before. */
const EARLIER_BATCHES = 3;
const RETENTION_DAYS = 31;
const PAGE = { cursor: null, limit: 50 };

const rule = (id: string, more: Partial<MappingRule> = {}): MappingRule => ({
  id,
  version: 1,
  event: "Visit",
  match: "all",
  conditions: [],
  scoringSignal: "visit",
  points: 1,
  ...more,
});
const LAPSING = rule("rule_lapsing", { pointsLastDays: 365 });
const FOREVER = rule("rule_forever");
const DAILY = rule("rule_daily", { frequency: "once_per_day" });

export class SignalStore extends Store {
  #batch: SignalToRecord[] = [];
  #signals = 0;

  prepare(step: StepName): void {
    const { state } = this;
    this.ctx.storage.transactionSync(() => {
      if (step === "first step of a night") this.#makePeople(NIGHT_PEOPLE, LAPSE_DAYS);
      else if (step === "page of a person") this.#makeTimeline();
      else if (step === "replacement") this.#makeSegments();
      else if (step === "batch with lapses") this.#makePeople(BATCH_SIGNALS, LAPSE_DAYS - 1);
      else if (step === "batch without lapses") this.#makePeople(BATCH_SIGNALS, 0);
      else if (step === "deletion") this.#makeNotifications();
      else if (step === "retention") this.#makeOldSegment();
      state.signals.flush();
    });
    const scores = step === "batch with lapses" ? LAPSING : FOREVER;
    const batch = () => Array.from({ length: BATCH_SIGNALS }, (_, n) => this.#signal(`p${n + 1}@example.com`, scores));
    if (step.startsWith("batch")) {
      for (let earlier = 0; earlier < EARLIER_BATCHES; earlier++)
        this.ctx.storage.transactionSync(() => recordSignals(state, batch(), NOW));
    }
    this.#batch = batch();
    if (step === "first step of a night") {
      wantNotifications(state, {
        types: ["person.score_fell"],
        thresholds: [1],
        accountThresholds: [],
        destinations: 1,
      });
    }
  }

  take(step: StepName): void {
    const { state } = this;
    this.ctx.storage.transactionSync(() => {
      if (step === "first step of a night" || step === "step of a night") stepLapses(state, NOW);
      else if (step === "page of a person") readPersonPage(shown(state), EMAIL, "scores", PAGE);
      else if (step === "replacement") stepReplacements(state, NOW);
      else if (step === "deletion") beginDeletion(state, "del_1", EMAIL, NOW);
      else if (step === "retention") deleteExpired(state, NOW);
      else recordSignals(state, this.#batch, NOW);
    });
  }

  /** People whose points lapse on each of the next days, the first of them today. */
  #makePeople(people: number, days: number): void {
    const person = { score: 0, lapses: "", next_lapse_at: null };
    const first = days === LAPSE_DAYS ? TODAY : TODAY + 1;
    for (let day = first; day < first + days; day++) addPointsUntil(person, day, 1);
    this.ctx.storage.sql.exec(
      `WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ?1)
       INSERT INTO people (id, email, name, company, title, score, lapses, next_lapse_at, first_seen, last_seen, last_day)
       SELECT id, 'p' || id || '@example.com', 'Person ' || id, 'Example ' || id % 100, 'Head of Marketing', ?2, ?3, ?4, ?5,
         ?5, ?6 FROM n`,
      people,
      days,
      person.lapses,
      person.next_lapse_at,
      NOW,
      TODAY,
    );
    this.state.head.nextPersonId = people + 1;
  }

  #makeTimeline(): void {
    const { sql, outcomes } = this.state;
    this.#makePeople(1, 0);
    const { matches } =
      evaluate(compileRules([LAPSING, DAILY]), normalise({ event: "Visit", email: EMAIL }, undefined)) ?? {};
    const ids = outcomes.idsOf(matches ?? []);
    const entries = Array.from({ length: SCORED_SIGNALS }, (_, n): Entry => {
      const atMs = NOW - n * 60_000;
      return {
        seq: SCORED_SIGNALS - n,
        scored: { signalId: newId("sig", atMs), atMs, occurredMs: atMs, outcomes: ids },
      };
    });
    insertEntries(sql, personList(1), entries);
  }

  /** A person with signals in many segments, whose only match has left. The last signal matches too. */
  #makeSegments(): void {
    const { state } = this;
    this.#makePeople(1, 0);
    for (let n = 0; n < SEGMENTS; n++) {
      const isLast = n === SEGMENTS - 1;
      const receivedAtMs = NOW - (SEGMENTS - n) * DAY_MS;
      recordSignals(state, [this.#signal(EMAIL, isLast ? DAILY : null, receivedAtMs)], receivedAtMs);
    }
    state.sql.exec("DELETE FROM single_scores");
    state.sql.exec("UPDATE people SET score = 0, score_before = 1");
    state.sql.exec("INSERT INTO replacements (person_id, rule_id, behind_seq) VALUES (1, ?, -1)", DAILY.id);
  }

  /** A segment that is too old, with a signal of each of many people, who have newer signals that score too. */
  #makeOldSegment(): void {
    const { state } = this;
    this.#makePeople(SEGMENT_LINES, 0);
    for (let day = SCORED_DAYS; day >= 0; day--) {
      const receivedAtMs = NOW - (day === SCORED_DAYS ? 2 * RETENTION_DAYS : day) * DAY_MS;
      const emails = Array.from({ length: SEGMENT_LINES }, (_, n) => `p${n + 1}@example.com`);
      const signals = emails.map((email) => this.#signal(email, FOREVER, receivedAtMs));
      recordSignals(state, signals, receivedAtMs);
    }
    setRetention(state, { retentionDays: RETENTION_DAYS }, NOW);
  }

  #makeNotifications(): void {
    this.#makePeople(2, 0);
    const { raised } = this.state;
    const time = NOW;
    const scoringSignal = {
      email: "p2@example.com",
      scoring_signal: "visit",
      points: 1,
      score: 1,
      rule_id: FOREVER.id,
      event: "Visit",
      received_at: new Date(NOW).toISOString(),
    };
    for (let bytes = 0; bytes < WAITING_BYTES;) {
      const made = Array.from({ length: 200 }, () => ({ ...scoringSignal, signal_id: newId("sig", NOW) }));
      const notifications = Array.from({ length: 10 }, () => {
        return { id: newId("ntf", NOW), type: "person.scored", time, data: { scoring_signals: made } } as const;
      });
      bytes += JSON.stringify(notifications).length;
      raised.raise(notifications);
    }
  }

  #signal(email: string, scores: MappingRule | null, receivedAtMs = NOW): SignalToRecord {
    const ordinal = ++this.#signals;
    const payload = { event: "Visit", email, id: `m-${ordinal}`, properties: { page: "/pricing", ordinal } };
    const { properties: _, ...normalised } = normalise(payload, undefined);
    const evaluation = evaluate(compileRules(scores === null ? [] : [scores]), normalise(payload, undefined));
    return {
      admission: {
        id: newId("sig", receivedAtMs),
        keyId: "key_1",
        endpoint: "signal_staging",
        verdict: "accepted",
        ordinal,
        signalLimit: 1_000_000,
        receivedAtMs,
        periodStartMs: NOW - 10 * DAY_MS,
        periodEndMs: NOW + 20 * DAY_MS,
      },
      payload: JSON.stringify(payload),
      work: {
        kind: "signal",
        normalised,
        occurred: { ms: receivedAtMs, from: "received" },
        contentHash: Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url"),
        duplicateWindowMs: DAY_MS,
        evaluation,
      },
    };
  }
}
