/** Computes what people, accounts and scores must be from the signals of the model, and compares it with what the store shows. */
import { expect } from "vitest";
import { DAY_MS, dayOf } from "../../../src/domain/duration.ts";
import { MISFIT_KEPT_MS } from "../../../src/store/state/due.ts";
import { KEPT } from "../../../src/store/steps.ts";
import { isLater, type ReceivedOrder } from "../../../src/wire/message.ts";
import { lapseDay, type Model, type ModelSignal, type Person, type Rule } from "./model.ts";
import type { Real, Shown } from "./real.ts";
import { traitOf } from "./signals.ts";

type Row = Record<string, unknown>;

// Who each signal belongs to.

/** Follows each signal to where the store shows it. Throws if the sentence of the model does not allow the move. */
export async function followSignals(model: Model, { signals }: Shown, real: Real, mayDrop: boolean): Promise<void> {
  for (const signal of model.signals) {
    const row = signals.get(signal.id);
    if (signal.leaves !== null && !real.isCounted(signal.id)) signal.leaves = null;
    if (signal.place === "flight" || signal.place === "gone" || signal.place === "dropped") {
      expect(row, says(signal, "is shown")).toBeUndefined();
    } else if (row === undefined && signal.isDropped) {
      // Retention had dropped it before its person was deleted.
    } else if (row === undefined) {
      expect(mayDrop, says(signal, "is gone")).toBe(true);
      const isOld = signal.order.receivedAtMs < Date.now() - real.keptMs;
      expect(isOld, says(signal, "is dropped too early")).toBe(true);
      model.drop(signal);
    } else followSignal(model, signal, row);
    if (signal.isLost && signal.place === "line") model.noteLost(signal, real.evaluated(signal.id));
  }
  for (const signal of model.signals.filter((one) => one.person !== null && model.mayMove(one))) {
    // The user id may have given the line to the person who has it anyway.
    // oxlint-disable-next-line no-await-in-loop -- few
    if ((await real.namedBy(signal.id)) === "anonymous_id") continue;
    expect(model.owner(signal) === signal.person, says(signal, "is given by a user id of somebody else")).toBe(true);
    signal.isByDevice = false;
  }
}

function followSignal(model: Model, signal: ModelSignal, row: Row): void {
  const { place } = signal;
  const status = String(row["status"]);
  if (place === "deleted") return followDeleted(model, signal, row);
  if (place === "held" && status === "purged" && row["deleted_at"] === null) {
    expect(signal.periodEndMs, says(signal, "is purged before its period ends")).toBeLessThanOrEqual(Date.now());
    signal.place = "purged";
    return;
  }
  if (place === "dead" && signal.misfitMs !== null && status === "purged" && row["deleted_at"] === null) {
    expect(signal.misfitMs, says(signal, "is purged too early")).toBeLessThanOrEqual(Date.now() - MISFIT_KEPT_MS);
    signal.place = "purged";
    return;
  }
  expect(row["deleted_at"], says(signal, "is deleted")).toBeNull();
  if (place !== "line") return expect(status, says(signal, `is not ${place}`)).toBe(place);
  expect(["processed", "anonymous"], says(signal, `is ${status}`)).toContain(status);
  const email = row["email"] as string | null;
  const before = signal.person?.email ?? null;
  if (email === before) {
    // A recorded signal with an email has its person at once.
    return;
  }
  expect(model.mayMove(signal), says(signal, `moves from ${before} to ${email}`)).toBe(true);
  const known = model.owner(signal, false);
  // Somebody may claim an id before a deletion learns that it was theirs.
  const isClaimed = known?.isDeleted === false && known.email === email;
  if (isClaimed && model.owner(signal) !== known) model.forgetLearned(signal);
  const owner = isClaimed ? known : model.owner(signal);
  expect(email, says(signal, "has another owner by its claims")).toBe(owner?.email ?? null);
  if (owner !== undefined) model.moved(signal, owner);
}

/**
 * A deleted signal shows nothing from the request on. Two exceptions, while the deletion is under way: the store has still to learn from
 * another signal that it is theirs; or somebody else claims its stronger id before the deletion comes to it.
 */
function followDeleted(model: Model, signal: ModelSignal, row: Row): void {
  const status = String(row["status"]);
  // The facts of a held misfit name nobody.
  const isHeldMisfit = status === "held" && signal.misfitMs !== null;
  const isHidden = (row["deleted_at"] !== null || isHeldMisfit) && row["payload"] === null && row["email"] === null;
  if (isHidden) return;
  const message = says(signal, "of a deleted person is shown");
  const place = status === "held" || status === "dead" ? status : ("line" as const);
  const isKept = ["processed", "anonymous", "held", "dead"].includes(status);
  const isUnderWay = signal.deletion?.isFinished === false;
  // A device gave it to somebody, for whom it counts until the deletion has learned its user id.
  if (isKept && isUnderWay && signal.isLearned && signal.leaves !== null && row["email"] === signal.leaves.email)
    return;
  // What the store has still to learn is somebody else's when they have it, or when it has not learned it.
  const isTaken = signal.isLearned ? row["email"] !== null || !isUnderWay : isUnderWay;
  const isOthers = isTaken && model.isOthers({ ...signal, place });
  const isForgotten = signal.isLearned && model.deletionOf({ ...signal, place }) === undefined;
  if (isKept && (isOthers || isForgotten)) {
    if (signal.isLearned) model.forgetLearned(signal);
    const holder = model.living(String(row["email"]));
    if (signal.isLearned && isUnderWay && holder !== undefined && model.isOnlyByDevice(signal)) {
      signal.leaves = holder;
      return;
    }
    Object.assign(signal, { place, person: signal.leaves, leaves: null, deletion: null, isLearned: false });
    return followSignal(model, signal, row);
  }
  expect(signal.isLearned && isUnderWay, message).toBe(true);
}

/** At the end nothing is left to move. */
export function expectSettled(model: Model, real: Real): void {
  const beforeMs = dayOf(Date.now()) * DAY_MS - real.keptMs;
  for (const signal of model.signals) {
    const isOld =
      signal.order.receivedAtMs < beforeMs && !["held", "purged"].includes(signal.place) && !signal.isDropped;
    if (isOld) expect(["dropped", "gone", "flight"], says(signal, "is kept too long")).toContain(signal.place);
    if (signal.place === "held") expect(signal.periodEndMs, says(signal, "is not purged")).toBeGreaterThan(Date.now());
    if (signal.place === "dead" && signal.misfitMs !== null) {
      expect(signal.misfitMs, says(signal, "is not purged")).toBeGreaterThan(Date.now() - MISFIT_KEPT_MS);
    }
    if (!model.mayMove(signal)) continue;
    const owner = model.owner(signal);
    const message = says(signal, `stays with ${signal.person?.email ?? "nobody"} and is ${owner?.email ?? "nobody"}'s`);
    expect(signal.person === (owner ?? null), message).toBe(true);
  }
}

// The ids of people.

/**
 * Follows the claims of people. A person keeps the newest ids of a kind, and those whose signals wait for a link. The claims that somebody
 * had of a dropped id before go too.
 */
export function followIds(model: Model, real: Real): void {
  const stored = new Set(real.claims().map(({ id, order, email }) => claimKey(id, order, email)));
  const claims = model.livingClaims().map((claim) => {
    const isStored = stored.delete(claimKey(claim.id, claim.order, claim.person.email));
    return { ...claim, isStored };
  });
  expect([...stored], "claims that nobody has made").toEqual([]);
  const dropped = [...Map.groupBy(claims, ({ id }) => id).values()].flatMap((ofId) => {
    const last = ofId.findLastIndex(({ isStored }) => !isStored);
    const earlier = ofId.slice(0, last + 1).filter(({ isStored }) => isStored);
    expect(earlier, "earlier claims of a dropped id").toEqual([]);
    return last === -1 ? [] : ofId.slice(last, last + 1);
  });
  for (const theirs of Map.groupBy(claims, ({ id, person }) => `${person.email} ${id.split(" ")[0]}`).values()) {
    // An id is as old as its latest claim.
    const ids = theirs.filter(({ id }, index) => !theirs.slice(index + 1).some((later) => later.id === id));
    const lost = theirs.filter((claim) => dropped.includes(claim));
    const left = ids.filter(({ isStored, id }) => isStored && !real.isLinking(id));
    const about = `${theirs[0]?.person.email} has lost ${lost.map(({ id }) => id).join()}`;
    expect(lost.length, about).toBeLessThanOrEqual(Math.max(0, theirs.length - KEPT.personIds));
    const parts = lost.filter((claim) => !ids.includes(claim));
    expect(parts, `${about}, and has claimed it since`).toEqual([]);
    const [newest] = lost.slice(-1);
    const older = left.filter(({ order }) => newest !== undefined && isLater(newest.order, order));
    expect(older, `${about}, and not an older one`).toEqual([]);
    const isNew = theirs.some(({ person }) => model.claimants.has(person));
    const areTooMany = theirs.filter(({ isStored }) => isStored).length > KEPT.personIds;
    if (isNew && areTooMany) expect(left, `${about}, and still has`).toEqual([]);
  }
  model.claimants.clear();
  for (const { id, order } of dropped) model.dropId(id, order);
}

/** Whether somebody has lost an id that a deleted person had too: then what becomes of its signals depends on the moment. */
export function isIdOfDeletedDropped(model: Model, real: Real): boolean {
  const claims = model.livingClaims().filter(({ id }) => model.isOfDeleted(id));
  if (claims.length === 0) return false;
  const stored = new Set(real.claims().map(({ id, order, email }) => claimKey(id, order, email)));
  return claims.some(({ id, order, person }) => !stored.has(claimKey(id, order, person.email)));
}

function claimKey(id: string, { receivedAtMs, ordinal }: ReceivedOrder, email: string): string {
  return [id, receivedAtMs, ordinal, email].join(" ");
}

// Scores.

interface Scored {
  signal: ModelSignal;
  rule: Rule;
}

/** The scoring signals that a person's lines can make, with those of rules that score once and do not count. */
function matchesOf(model: Model, person: Person): Scored[] {
  const lines = model.linesOf(person).filter(({ isExcluded }) => !isExcluded);
  return lines.flatMap((signal) =>
    [...signal.outcomes].flatMap(([id, version]) => {
      const rule = model.versions.get(`${id} ${version}`);
      return rule === undefined ? [] : [{ signal, rule }];
    }),
  );
}

const keyOf = (email: unknown, signal: unknown, rule: unknown, version: unknown): string =>
  [email, signal, rule, version].join(" ");

export interface Look {
  /** Whether nothing is under way: no job, no search for a replacement. */
  isQuiet: boolean;
  /** No points can have lapsed later than on this day, and those of `atLeast` have. */
  today: { atLeast: number; atMost: number };
}

/** Returns the points of each scoring signal that counts now, by email. */
export function expectScoringSignals(model: Model, { scoring }: Shown, look: Look): Map<string, number> {
  const shown = new Map(
    scoring.map((row) => [keyOf(row["email"], row["signal_id"], row["rule_id"], row["rule_version"]), row]),
  );
  expect(shown.size, "scoring signals are exported twice").toBe(scoring.length);
  const scores = new Map<string, number>();
  for (const person of model.people.filter(({ isDeleted }) => !isDeleted)) {
    const matches = matchesOf(model, person);
    for (const ofRule of Map.groupBy(matches, ({ rule }) => rule.id).values()) {
      const counted = expectRule(model, person, { ofRule, shown, look });
      for (const { row, match } of counted) {
        shown.delete(keyOf(person.email, match.signal.id, match.rule.id, match.rule.version));
        if (row["lapsed"] === false) {
          scores.set(person.email, (scores.get(person.email) ?? 0) + match.rule.points);
        }
      }
    }
  }
  const unexpected = [...shown.values()].filter(({ rule_id: id }) => !model.isChanging(String(id)));
  expect(
    unexpected.map(({ email, signal_id, rule_id }) => ({ email, signal_id, rule_id })),
    "score without a match",
  ).toEqual([]);
  if (model.jobs.size > 0 || model.exclusionsJob !== null) for (const row of shown.values()) addRow(scores, row);
  return scores;
}

function addRow(scores: Map<string, number>, { email, points, lapsed }: Row): void {
  if (lapsed === false) scores.set(String(email), (scores.get(String(email)) ?? 0) + Number(points));
}

interface OfRule {
  ofRule: readonly Scored[];
  shown: ReadonlyMap<string, Row>;
  look: Look;
}

/**
 * Each match counts, except that a rule that scores once counts one match a day, or ever. If the rule's versions score differently
 * often, which matches count depends on their order. Returns the matches that count.
 */
function expectRule(model: Model, person: Person, of: OfRule): { row: Row; match: Scored }[] {
  const { ofRule, shown, look } = of;
  const counted: { row: Row; match: Scored }[] = [];
  const isRunning = model.isChanging(ofRule[0]?.rule.id ?? "");
  if (!isRunning && look.isQuiet) expectFirstMatches(model, person, of);
  const isMixed = new Set(ofRule.map(({ rule }) => rule.frequency)).size > 1;
  const occasions = Map.groupBy(ofRule, ({ rule, signal }) => {
    if (rule.frequency === "every_time" || isMixed) return signal.id;
    return rule.frequency === "once_ever" ? "ever" : String(dayOf(signal.occurredMs));
  });
  for (const matches of occasions.values()) {
    const here = matches.flatMap((match) => {
      const row = shown.get(keyOf(person.email, match.signal.id, match.rule.id, match.rule.version));
      return row === undefined ? [] : [{ row, match }];
    });
    const [first] = matches;
    if (first === undefined) continue;
    const message = `${first.rule.id} counts for ${person.email} by ${first.signal.id}`;
    expect(here.length, `${message}: twice`).toBeLessThanOrEqual(1);
    const isCertain = !isMixed && look.isQuiet && hasCurrent(model, matches);
    const mustCount = !isRunning && (first.rule.frequency === "every_time" || isCertain);
    if (mustCount && !areForgotten(matches, look)) {
      expect(here.length, `${message}: not at all`).toBe(1);
    }
    // While a job runs, the store may know the earliest match by it already.
    for (const one of here)
      if (!isRunning || one.match.rule.frequency !== "once_ever") expectLapse(one, isMixed ? ofRule : matches, look);
    counted.push(...here);
  }
  return counted;
}

/**
 * Of the versions of a rule that scores once, the first recorded match takes a place that is still free. Of one version and day, it does
 * not matter which match does.
 */
function expectFirstMatches(model: Model, person: Person, { ofRule, shown, look }: OfRule): void {
  const once = ofRule.filter(({ rule }) => rule.frequency !== "every_time");
  // Whether a match that has lapsed is dropped first depends on the moment. No job changes the match of a dropped line.
  const isKept = (match: Scored): boolean => !hasLapsed(match, look) && model.mayTake(match.rule);
  if (once.some((match) => (match.signal.place === "dropped" || match.signal.isDropped) && !isKept(match))) return;
  const isMixed = new Set(once.map(({ rule }) => rule.frequency)).size > 1;
  const placeOf = ({ rule, signal }: Scored): string =>
    rule.frequency === "once_ever" && !isMixed
      ? `version ${rule.version}`
      : `version ${rule.version} on ${dayOf(signal.occurredMs)}`;
  const first: Scored[] = [];
  for (const match of once.toSorted((a, b) => a.signal.recorded - b.signal.recorded)) {
    const { rule, signal } = match;
    const isTaken = first.some(
      (other) => rule.frequency === "once_ever" || dayOf(other.signal.occurredMs) === dayOf(signal.occurredMs),
    );
    if (!isTaken && model.mayTake(rule)) first.push(match);
  }
  const here = once.filter(({ rule, signal }) => shown.has(keyOf(person.email, signal.id, rule.id, rule.version)));
  expect(here.map(placeOf).sort(), `what counts for ${person.email}`).toEqual(first.map(placeOf).sort());
}

/** Matches of dropped lines are forgotten when they have lapsed. Of a rule that scores once a day, the day is forgotten. */
function areForgotten(matches: readonly Scored[], look: Look): boolean {
  const dropped = matches.filter(({ signal }) => signal.place === "dropped");
  const isOnceEver = matches.some(({ rule }) => rule.frequency === "once_ever");
  const areDropped = isOnceEver ? dropped.length === matches.length : dropped.length > 0;
  return areDropped && matches.every((match) => hasLapsed(match, look));
}

function hasCurrent(model: Model, matches: readonly Scored[]): boolean {
  return matches.some(({ rule }) => rule.version === model.currentVersion(rule.id));
}

function hasLapsed({ rule, signal }: Scored, { today }: Look): boolean {
  const day = lapseDay(rule, signal.occurredMs);
  return day !== null && day <= today.atMost;
}

/** The points of a once-ever rule count from the earliest match of the version that counts, others from their own day. */
function expectLapse({ row, match }: { row: Row; match: Scored }, matches: readonly Scored[], look: Look): void {
  const { rule, signal } = match;
  const same = rule.frequency === "once_ever" ? matches.filter((other) => other.rule === rule) : [match];
  const day = lapseDay(rule, Math.min(...same.map((other) => other.signal.occurredMs)));
  expect(row["points"]).toBe(rule.points);
  const message = `points of ${rule.id} by ${signal.id}`;
  if (look.isQuiet) {
    expect(row["lapses_at"], `${message} lapse`).toBe(day === null ? null : new Date(day * DAY_MS).toISOString());
  }
  if (day === null || day > look.today.atMost) expect(row["lapsed"], `${message} have not lapsed`).toBe(false);
  else if (day <= look.today.atLeast && look.isQuiet) expect(row["lapsed"], `${message} have lapsed`).toBe(true);
}

// People and accounts.

interface Field<Value> {
  value: Value;
  signal: ModelSignal;
}

/** Of several values, the latest by receipt. */
function latestOf<Value>(fields: readonly Field<Value>[]): Value | null {
  let last: Field<Value> | undefined;
  for (const field of fields) {
    if (last === undefined || isLater(field.signal.order, last.signal.order)) last = field;
  }
  return last?.value ?? null;
}

interface ExpectedPerson {
  email: string;
  name: string | null;
  account: string | null;
  score: number;
  firstSeenMs: number;
  lastSeenMs: number;
}

export function peopleOf(model: Model, scores: ReadonlyMap<string, number>): ExpectedPerson[] {
  return model.people
    .filter(({ isDeleted }) => !isDeleted)
    .map((person) => {
      const lines = model.linesOf(person);
      const times = lines.map(({ occurredMs }) => occurredMs);
      const { email } = person;
      return {
        email,
        name: latestOf(lines.flatMap((signal) => present(traitOf(signal.content), signal))),
        account: latestOf(lines.flatMap((signal) => present(signal.content.accountName, signal))),
        score: scores.get(email) ?? 0,
        firstSeenMs: Math.min(...times),
        lastSeenMs: Math.max(...times),
      };
    });
}

function present(value: string | null, signal: ModelSignal): Field<string>[] {
  return value === null ? [] : [{ value, signal }];
}

/** An id is shown with the person of its last claim. */
function idsOf(model: Model, email: string, kind: "user" | "device"): string[] {
  return [...model.claims]
    .filter(([id, claims]) => {
      const living = claims.filter(({ person }) => !person.isDeleted);
      return id.startsWith(kind) && living.at(-1)?.person.email === email;
    })
    .map(([id]) => id.slice(kind.length + 1))
    .sort();
}

export function expectPeople(model: Model, { people }: Shown, scores: ReadonlyMap<string, number>, look: Look): void {
  const expected = peopleOf(model, scores);
  expect([...people.keys()].sort()).toEqual(expected.map(({ email }) => email).sort());
  for (const { email, name, account, score, firstSeenMs, lastSeenMs } of expected) {
    const row = people.get(email) ?? {};
    const [first, last] = [new Date(firstSeenMs).toISOString(), new Date(lastSeenMs).toISOString()];
    const shown = { name: row["name"], account: row["account"], first: row["first_seen"], last: row["last_seen"] };
    expect(shown, email).toEqual({ name, account, first, last });
    expect(row["score"], `score of ${email}`).toBe(score);
    if (!look.isQuiet) continue;
    expect({ email, users: sorted(row["user_ids"]), devices: sorted(row["anonymous_ids"]) }).toEqual({
      email,
      users: idsOf(model, email, "user"),
      devices: idsOf(model, email, "device"),
    });
  }
}

function sorted(ids: unknown): string[] {
  return (ids as string[]).toSorted();
}

export interface ExpectedAccount {
  name: string;
  people: number;
  score: number;
  firstSeenMs: number;
  plan: string | null;
}

/** An account exists while an update or a group call with traits has named it, or while it has members. */
export function accountsOf(model: Model, people: readonly ExpectedPerson[]): ExpectedAccount[] {
  const naming = model.signals.filter(
    ({ content: { kind, plan }, named }) => named && (kind === "account" || plan !== undefined),
  );
  const names = new Set([...people.map(({ account }) => account), ...naming.map(({ content }) => content.accountName)]);
  return [...names].flatMap((name) => {
    if (name === null) return [];
    const members = people.filter(({ account }) => account === name);
    const own = naming.filter(({ content }) => content.accountName === name);
    const times = [...own.map(({ order }) => order.receivedAtMs), ...members.map(({ firstSeenMs }) => firstSeenMs)];
    const plans = own.flatMap((signal) =>
      signal.content.plan === undefined ? [] : [{ value: signal.content.plan, signal }],
    );
    const updates = plans.filter(({ signal }) => signal.content.kind === "account");
    return [
      {
        name,
        people: members.length,
        score: members.reduce((sum, { score }) => sum + score, 0),
        firstSeenMs: Math.min(...times),
        // A group call only sets what no update has set.
        plan: latestOf(updates.length > 0 ? updates : plans),
      },
    ];
  });
}

/** @param isLapsing lists of accounts show scores with points that lapse right now. */
export function expectAccounts(
  model: Model,
  { accounts }: Shown,
  people: readonly ExpectedPerson[],
  isLapsing: boolean,
): void {
  const shown = [...accounts.values()].map(({ externalId: name, people: members, score, firstSeenMs, plan }) => ({
    name,
    people: members,
    score: isLapsing ? 0 : score,
    firstSeenMs,
    plan: plan === null ? null : (JSON.parse(plan) as string),
  }));
  const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
  const expected = accountsOf(model, people).map((account) => (isLapsing ? { ...account, score: 0 } : account));
  expect(shown.sort(byName)).toEqual(expected.sort(byName));
}

function says({ id, content, place }: ModelSignal, what: string): string {
  const { kind, emailName, userName, deviceName } = content;
  return `${kind} of ${[emailName, userName, deviceName].filter(Boolean).join(", ")} (${place}, ${id.slice(-6)}) ${what}`;
}
