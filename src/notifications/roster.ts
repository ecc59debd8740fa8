/** Destinations, their old secrets, and workspace-wide settings. A workspace has at most ten destinations, so each use reads them. */
import type { Failing } from "../domain/notifications/attempts.ts";
import type { CustomHeader } from "../domain/notifications/custom-header.ts";
import {
  maskedTarget,
  type Destination,
  type DestinationState,
  type DisabledReason,
} from "../domain/notifications/destination.ts";
import type { NotificationType, ScoreThresholds } from "../domain/notifications/notification.ts";
import type { FailingDestination } from "../domain/health/alarm.ts";
import { hashAtOnce } from "../platform/hashes.ts";
import type { NewDestination } from "./destination-calls.ts";

/** Times are in milliseconds since 1970. */
export interface StoredDestination extends Omit<NewDestination, "headers"> {
  headers: CustomHeader[];
  state: DestinationState;
  disabledReason: DisabledReason | null;
  createdMs: number;
  secret: string | null;
  confirmation: Confirmation | null;
  failing: Failing | null;
  /** Time of the last success, accurate to a minute. */
  deliveredMs: number | null;
  failures: number;
  /** No attempt before this time: the pause of a failing destination. 0: no pause. */
  notBeforeMs: number;
  dropped: number;
}

/** An email address gets nothing but a code until somebody enters the code. */
export interface Confirmation {
  code: string;
  endsMs: number;
  /** Wrong codes until the code does not work any more. */
  triesLeft: number;
}

/** Each old secret adds a signature to every delivery, so the secrets that expire first are dropped. */
export const OLD_SECRETS_MAX = 5;

type OldSecret = { secret: string; endsMs: number };

/** Initial values, also set when the target changes or the destination is resumed. */
export const NO_FAILURES = { failing: null, failures: 0, notBeforeMs: 0 } as const;

type Row = Omit<StoredDestination, "notifications" | "headers" | "failing" | "confirmation"> & {
  confirmation: string | null;
  notifications: string;
  headers: string;
  sinceMs: number | null;
  lastMs: number | null;
};

const SELECT = `SELECT id, name, type, target, notifications, headers, pages_url AS pagesUrl, state, disabled_reason AS disabledReason,
  created_ms AS createdMs, secret, confirmation, failing_since_ms AS sinceMs, failing_last_ms AS lastMs, failures,
  not_before_ms AS notBeforeMs, delivered_ms AS deliveredMs, dropped FROM destinations`;

export class Roster {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  all(): StoredDestination[] {
    return [...this.#sql.exec<Row>(`${SELECT} ORDER BY id`)].map(toDestination);
  }

  active(): StoredDestination[] {
    return this.all().filter(isReceiving);
  }

  find(id: string): StoredDestination | null {
    const [row] = this.#sql.exec<Row>(`${SELECT} WHERE id = ?`, id);
    return row === undefined ? null : toDestination(row);
  }

  add(
    added: Pick<StoredDestination, keyof NewDestination>,
    { secret, confirmation }: Pick<StoredDestination, "secret" | "confirmation">,
    createdMs: number,
  ): void {
    const initial = { state: "active", disabledReason: null, deliveredMs: null, dropped: 0, ...NO_FAILURES } as const;
    this.put({ ...added, ...initial, secret, confirmation, createdMs });
  }

  put(destination: StoredDestination): void {
    const { id, name, type, target, notifications, headers, pagesUrl, state, disabledReason, createdMs, secret } =
      destination;
    const { confirmation, failing, failures, notBeforeMs, deliveredMs, dropped } = destination;
    const lists = [notifications, headers].map((list) => JSON.stringify(list));
    const described = [id, name, type, target, ...lists, pagesUrl, state, disabledReason];
    const failed = [failing?.sinceMs ?? null, failing?.lastMs ?? null, failures, notBeforeMs];
    const confirming = confirmation && JSON.stringify(confirmation);
    const values = [...described, createdMs, secret, confirming, ...failed, deliveredMs, dropped];
    this.#sql.exec(
      `INSERT OR REPLACE INTO destinations (id, name, type, target, notifications, headers, pages_url, state, disabled_reason, created_ms,
        secret, confirmation, failing_since_ms, failing_last_ms, failures, not_before_ms, delivered_ms, dropped)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...values,
    );
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM destinations WHERE id = ?", id);
    this.#sql.exec("DELETE FROM old_secrets WHERE destination_id = ?", id);
  }

  /** Old secrets that still sign, latest expiry first. */
  oldSecrets(id: string, nowMs: number): OldSecret[] {
    const select = `SELECT secret, ends_ms AS endsMs FROM old_secrets WHERE destination_id = ? AND ends_ms > ?
      ORDER BY ends_ms DESC`;
    return this.#sql.exec<OldSecret>(select, id, nowMs).toArray();
  }

  /**
   * Lets an old secret sign until `endsMs`; earlier secrets end no later. Several can be valid: a second rotation within the overlap must
   * not end a secret that a receiver still verifies with. @param endsMs not after `nowMs`: all old secrets end.
   */
  addOldSecret(id: string, secret: string, endsMs: number, nowMs: number): void {
    const before = this.oldSecrets(id, nowMs).map((old) => ({ ...old, endsMs: Math.min(old.endsMs, endsMs) }));
    this.#sql.exec("DELETE FROM old_secrets WHERE destination_id = ?", id);
    if (endsMs <= nowMs) return;
    const insert = "INSERT INTO old_secrets (destination_id, secret, ends_ms) VALUES (?, ?, ?)";
    for (const old of [{ secret, endsMs }, ...before].slice(0, OLD_SECRETS_MAX)) {
      this.#sql.exec(insert, id, old.secret, old.endsMs);
    }
  }
}

/** Whether it gets notifications. */
export function isReceiving({ state, confirmation }: StoredDestination): boolean {
  return state === "active" && confirmation === null;
}

function toDestination({
  notifications,
  headers,
  confirmation: confirming,
  sinceMs,
  lastMs,
  ...row
}: Row): StoredDestination {
  const confirmation = confirming === null ? null : (JSON.parse(confirming) as Confirmation);
  const failing = sinceMs === null || lastMs === null ? null : { sinceMs, lastMs };
  const lists = {
    notifications: JSON.parse(notifications) as NotificationType[],
    headers: JSON.parse(headers) as CustomHeader[],
  };
  return { ...row, ...lists, confirmation, failing };
}

/** A destination's entry in health. Empty if it is paused or if no failed delivery waits. */
export function failingDestination(destination: StoredDestination, waiting: number): FailingDestination[] {
  const { id, name, state, disabledReason, failing } = destination;
  if (failing === null || state === "paused" || (state === "active" && waiting === 0)) return [];
  // Its last failure switched it off.
  const off = disabledReason === null ? null : { reason: disabledReason, sinceMs: failing.lastMs };
  return [{ id, name, sinceMs: failing.sinceMs, off }];
}

export function shownDestination(
  destination: StoredDestination,
  derived: Pick<Destination, "waiting" | "oldSecretEndsAtMs">,
): Destination {
  const { id, name, type, notifications, state, disabledReason, dropped, target, failing } = destination;
  const isFailing = state !== "active" || derived.waiting > 0;
  const asStored = { id, name, type, notifications, state, disabledReason, dropped };
  return {
    ...asStored,
    ...derived,
    headerNames: destination.headers.map((header) => header.name),
    maskedTarget: maskedTarget(type, target),
    createdAtMs: destination.createdMs,
    failingSinceMs: isFailing ? (failing?.sinceMs ?? null) : null,
    lastDeliveredAtMs: destination.deliveredMs,
    confirmed: destination.confirmation === null,
    secretId: destination.secret === null ? null : secretIdOf(destination.secret),
  };
}

export function secretIdOf(secret: string): string {
  return hashAtOnce(secret).digest("hex").slice(0, 16);
}

/** The thresholds, whether the sources must be informed of a change, and the time of the hourly run. */
export class Settings {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  get thresholds(): ScoreThresholds {
    return { people: this.#readScores("thresholds"), accounts: this.#readScores("account_thresholds") };
  }

  set thresholds({ people, accounts }: ScoreThresholds) {
    this.#write("thresholds", JSON.stringify(people));
    this.#write("account_thresholds", JSON.stringify(accounts));
  }

  /** Id of the latest change that the sources do not know yet; null: they know all. */
  get pendingChange(): string | null {
    return this.#read("unsent_change");
  }

  markChanged(): void {
    this.#write("unsent_change", crypto.randomUUID());
  }

  /** Records that the sources know a change, unless a newer one exists. */
  sourcesInformed(change: string): void {
    this.#sql.exec("DELETE FROM settings WHERE name = 'unsent_change' AND value = ?", change);
  }

  /** Times of the latest codes that were sent. */
  get codesSentMs(): number[] {
    return JSON.parse(this.#read("codes_sent") ?? "[]") as number[];
  }

  set codesSentMs(times: number[]) {
    this.#write("codes_sent", JSON.stringify(times));
  }

  get choreMs(): number {
    return Number(this.#read("chore_ms") ?? 0);
  }

  set choreMs(atMs: number) {
    this.#write("chore_ms", String(atMs));
  }

  #readScores(name: "thresholds" | "account_thresholds"): number[] {
    return JSON.parse(this.#read(name) ?? "[]") as number[];
  }

  #read(name: string): string | null {
    const [row] = this.#sql.exec<{ value: string }>("SELECT value FROM settings WHERE name = ?", name).toArray();
    return row?.value ?? null;
  }

  #write(name: string, value: string): void {
    this.#sql.exec("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", name, value);
  }
}
