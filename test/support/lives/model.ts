/**
 * A naive model of a workspace's Signal Store: a list of signals, each in one place, and the claims of ids. It stores no sums and no
 * results. What people, scores and accounts must be is computed from the list each time (expected.ts).
 *
 * Where the order of delivery decides by design, the model does not guess when the store's jobs run: it looks where each signal is after
 * each step, and allows only the moves that `mayMove` and `owner` name.
 */
import { DAY_MS } from "../../../src/domain/duration.ts";
import { isLater, type ReceivedOrder } from "../../../src/wire/message.ts";
import type { Content, Id } from "./signals.ts";

/** A person of one life: after a deletion, the email names another person. */
export interface Person {
  email: string;
  isDeleted: boolean;
  /** A deleted person: signals received later are not theirs. */
  untilMs: number;
  /** A deleted person: when their deletion was requested, and requested again. */
  requestsMs: number[];
  /** A deleted person: whether the receipt says that nothing is left. */
  isFinished: boolean;
}

/** An id belongs to a person from the order of the claim on. */
interface Claim {
  order: ReceivedOrder;
  person: Person;
  /** Of a deleted person: the claim holds for signals received until then. */
  untilMs: number;
  /** A deleted person's claim that the deletion learns later, from a signal that had not been recorded. */
  isLearned: boolean;
  /** Whether the deletion learns it even if somebody else has claimed the id by then: an identify with the email says it. */
  isCertain: boolean;
}

/**
 * `flight`: on its way. `line`: recorded. `duplicate`, `held`, `dead`: as the store says. `purged`: held at the end of its period.
 * `deleted`: with its person. `dropped`: by retention. `gone`: a dead letter, a duplicate or a deleted signal that retention dropped.
 */
export type Place = "flight" | "line" | "duplicate" | "held" | "dead" | "purged" | "deleted" | "dropped" | "gone";

export interface ModelSignal {
  id: string;
  content: Content;
  order: ReceivedOrder;
  occurredMs: number;
  periodEndMs: number;
  place: Place;
  /** The order of recording. */
  recorded: number;
  /** Who the line belongs to. A dropped line keeps its person for ever. */
  person: Person | null;
  /** Whether an anonymous id gave the line to its person. */
  isByDevice: boolean;
  /** Version of each rule that matched the line. */
  outcomes: Map<string, number>;
  /** Whether an exclusion covers the line, so that its outcomes do not count. */
  isExcluded: boolean;
  /** Version of the workspace's rules when the line got its person. */
  rulesVersion: number;
  /** Whether the signal has taken effect once: what it says about an account stays, also after a deletion. */
  named: boolean;
  /** A deleted line that an anonymous id had given to somebody else: it counts for them until the deletion comes to it. */
  leaves: Person | null;
  /** A deleted signal: whether retention had dropped it before. */
  isDropped: boolean;
  /** A deleted signal: whose deletion, and whether the store learns only later that it is theirs. */
  deletion: Person | null;
  isLearned: boolean;
  /** Whether its payload is lost. */
  isLost: boolean;
  /** Held, or a dead letter: since when it waits for a template that fits; null: it is no misfit. */
  misfitMs: number | null;
}

export interface Rule {
  id: string;
  event: string;
  points: number;
  frequency: "every_time" | "once_per_day" | "once_ever";
  lastDays: 30 | null;
  /** Only this person scores; null: everybody. */
  of: string | null;
  isEnabled: boolean;
  version: number;
}

/** Covers the signals of a person, of an event, or of all signals with (or without) a message id. */
export type Exclusion = { of: string } | { event: string } | { hasId: boolean };

interface ExclusionsJob {
  exclusions: readonly Exclusion[];
  rulesVersion: number;
  recorded: number;
}

interface RuleJob {
  rule: Rule;
  rulesVersion: number;
  /** The job processes lines recorded before. */
  recorded: number;
}

interface Pair {
  ids: [Id, Id];
  /** The latest line that says it. The pair leaves with this line. */
  latest: ModelSignal;
}

type Located = Pick<ModelSignal, "content" | "order" | "place" | "misfitMs">;

/** Only its payload may name a person. */
function isLetter({ place, misfitMs }: Located): boolean {
  return place === "dead" || (place === "held" && misfitMs !== null);
}

export class Model {
  readonly signals: ModelSignal[] = [];
  readonly people: Person[] = [];
  readonly claims = new Map<Id, Claim[]>();
  pairs: Pair[] = [];
  /** People whose claims have changed since the last look. */
  readonly claimants = new Set<Person>();
  rules: Rule[];
  /** Each version of each rule that ever was. */
  readonly versions = new Map<string, Rule>();
  /** The latest version of each rule that has matched a recorded signal. */
  readonly matched = new Map<string, number>();
  rulesVersion = 1;
  readonly jobs = new Map<string, RuleJob>();
  exclusions: readonly Exclusion[] = [];
  exclusionsJob: ExclusionsJob | null = null;
  /** The latest job of each rule that has ended, or began. */
  readonly applied = new Map<string, Rule>();
  /** The signals that retention has dropped. */
  readonly dropped: ModelSignal[] = [];
  #recorded = 0;

  constructor(rules: readonly Rule[]) {
    this.rules = [...rules];
    for (const rule of rules) this.versions.set(`${rule.id} ${rule.version}`, rule);
  }

  /** The person who has an email now. */
  living(email: string): Person | undefined {
    return this.people.find((person) => person.email === email && !person.isDeleted);
  }

  lines(): ModelSignal[] {
    return this.signals.filter(({ place }) => place === "line" || place === "dropped");
  }

  /** What the person's score, times and traits come from. */
  linesOf(person: Person): ModelSignal[] {
    return this.#scoringLines().flatMap((line) => (line.person === person ? [line.signal] : []));
  }

  /** Lines with a person, and those that a deletion has still to take from theirs. */
  #scoringLines(): { signal: ModelSignal; person: Person; isDropped: boolean }[] {
    return this.signals.flatMap((signal) => {
      const isLine = signal.place === "line" || signal.place === "dropped";
      const person = isLine ? signal.person : signal.leaves;
      const isDropped = isLine ? signal.place === "dropped" : signal.isDropped;
      return person === null ? [] : [{ signal, person, isDropped }];
    });
  }

  // Whose a signal is.

  /**
   * Names count in the order email, user id, anonymous id. An id belongs to the person of its last claim before the signal, else of its
   * first claim. Claims of deleted people count for signals received until the deletion was requested. Undefined: nobody.
   */
  owner(
    { content, order, place }: Pick<ModelSignal, "content" | "order" | "place">,
    withLearned = true,
  ): Person | undefined {
    const { emailName } = content;
    // A recorded alias does not remember its other id.
    const ids = place === "line" ? content.ids : content.callIds;
    if (emailName !== null) {
      const deleted = this.people
        .filter(({ email, isDeleted }) => email === emailName && isDeleted)
        .toSorted((a, b) => a.untilMs - b.untilMs);
      return deleted.find(({ untilMs }) => untilMs >= order.receivedAtMs) ?? this.living(emailName);
    }
    for (const id of ids) {
      const claim = this.#claimInForce(id, order, withLearned);
      if (claim !== undefined) return claim.person;
    }
    return undefined;
  }

  /** The deleted person to whom a signal or a dead letter belongs. @param withLearned with what their deletion has still to learn. */
  deletionOf(signal: Located, withLearned = true): Person | undefined {
    const owner = isLetter(signal) ? this.#deletionOfLetter(signal, withLearned) : this.owner(signal, withLearned);
    return owner?.isDeleted === true ? owner : undefined;
  }

  /** Whether somebody has the signal, or an id that a dead letter names, without what deletions have still to learn. */
  isOthers(signal: Located): boolean {
    if (isLetter(signal)) return signal.content.callIds.some((id) => this.hasPerson(id));
    return this.owner(signal, false)?.isDeleted === false;
  }

  /** The claims of an id that count for a signal. */
  #claimsFor(id: Id, { receivedAtMs }: ReceivedOrder): Claim[] {
    return this.#claimsOf(id).filter(({ person, untilMs }) => !person.isDeleted || untilMs >= receivedAtMs);
  }

  #claimInForce(id: Id, order: ReceivedOrder, withLearned = true): Claim | undefined {
    const claims = this.#claimsOf(id).filter(
      ({ person, untilMs, isLearned }) =>
        !person.isDeleted || (untilMs >= order.receivedAtMs && (withLearned || !isLearned)),
    );
    return claims.findLast((claim) => !isLater(claim.order, order)) ?? claims[0];
  }

  #claimsOf(id: Id): Claim[] {
    return this.claims.get(id) ?? [];
  }

  /** Whether a person who is not deleted has claimed the id. */
  hasPerson(id: Id): boolean {
    return this.#claimsOf(id).some(({ person }) => !person.isDeleted);
  }

  /** A line without a person moves, and a line given by an anonymous id whose user id has a person by now. */
  mayMove({ place, person, isByDevice, content, order }: ModelSignal): boolean {
    if (place !== "line") return false;
    return person === null || (isByDevice && this.#isUserKnown(content, order));
  }

  #isUserKnown({ userName }: Content, order: ReceivedOrder): boolean {
    return userName !== null && this.#claimInForce(`user ${userName}`, order) !== undefined;
  }

  // Recording.

  /** A batch takes effect in the order of receipt. `isHeld` and `isDead` say what the batch makes of a signal. */
  record(
    batch: readonly {
      signal: ModelSignal;
      isHeld: boolean;
      isDead: boolean;
      isMisfit: boolean;
      from: "flight" | "held" | "dead";
    }[],
    nowMs: number,
  ): void {
    // A resent signal leaves its place, also if it was purged there meanwhile, unless it was deleted.
    const here = batch
      .filter(({ signal: { place }, from }) => place === from || place === "purged")
      .toSorted((a, b) => (isLater(a.signal.order, b.signal.order) ? 1 : -1));
    for (const { signal, isMisfit, from } of here) {
      const sinceMs = from === "dead" ? signal.misfitMs : null;
      signal.misfitMs = isMisfit ? (sinceMs ?? nowMs) : null;
    }
    // A dead letter that still fits no template stays where it is.
    const received = here.filter(({ from, isDead }) => from !== "dead" || !isDead);
    for (const { signal } of received) signal.place = "flight";
    for (const { signal } of received) signal.recorded = ++this.#recorded;
    let waiting = received;
    for (let before = -1; before !== waiting.length;) {
      before = waiting.length;
      waiting = waiting.filter(({ signal, isDead }) => !this.#purge(signal, isDead));
    }
    const processed: ModelSignal[] = [];
    for (const { signal, isHeld, isDead } of waiting) {
      if (isDead) signal.place = "dead";
      else if (isHeld) signal.place = signal.periodEndMs <= nowMs ? "purged" : "held";
      else if (this.#isDuplicate(signal)) signal.place = "duplicate";
      else {
        signal.place = "line";
        signal.named = true;
        processed.push(signal);
      }
    }
    // Identities come first, so that an identify holds for the whole batch.
    for (const signal of processed) this.#addIdentities(signal);
    for (const signal of processed) {
      this.#noteMatches(signal, signal.content.emailName);
      signal.rulesVersion = this.rulesVersion;
    }
    this.settle();
  }

  /** A call of a deleted person may give ids to the deletion, by which other calls of the batch are theirs too. */
  #purge(signal: ModelSignal, isDead: boolean): boolean {
    const isUnread = isDead || signal.misfitMs !== null;
    const called = { ...signal, place: isUnread ? ("dead" as const) : signal.place };
    const deletion = this.deletionOf(called);
    if (deletion === undefined) return false;
    this.#delete(signal, deletion, this.deletionOf(called, false) !== deletion);
    return true;
  }

  #isDuplicate({ content, order }: ModelSignal): boolean {
    const { duplicateWindowMs: windowMs } = content;
    return (
      windowMs !== null &&
      this.signals.some(
        (other) =>
          other.place === "line" &&
          // Another call of the batch may just have given its id to a deletion.
          this.deletionOf(other) === undefined &&
          other.content === content &&
          Math.abs(other.order.receivedAtMs - order.receivedAtMs) <= windowMs,
      )
    );
  }

  /** An email makes a person. An identify with an email claims its ids, other calls pair the ids that they name. */
  #addIdentities(signal: ModelSignal): void {
    const { order, content } = signal;
    const { kind, emailName, ids, pairs } = content;
    if (emailName !== null) {
      let person = this.living(emailName);
      if (person === undefined) {
        person = { email: emailName, isDeleted: false, untilMs: 0, requestsMs: [], isFinished: false };
        this.people.push(person);
      }
      signal.person = person;
      if (kind === "identify") for (const id of ids) this.#claim(id, person, order);
    } else for (const [a, b] of pairs) this.#pair(a, b, signal);
  }

  /** A claim of the person who has the id anyway changes nothing. Ids without a person that are paired with the id follow its first person. */
  #claim(claimed: Id, person: Person, claimedOrder: ReceivedOrder): void {
    const hadPerson = this.hasPerson(claimed);
    const taken = [{ id: claimed, order: claimedOrder }];
    for (const { id, order } of taken) {
      this.#addClaim(id, { order, person, untilMs: 0, isLearned: false, isCertain: false });
      if (hadPerson) return;
      for (const pair of this.pairs.filter(({ ids }) => ids.includes(id))) {
        const [other] = pair.ids.filter((one) => one !== id);
        if (other === undefined || this.hasPerson(other) || taken.some((one) => one.id === other)) continue;
        taken.push({ id: other, order: latest(order, pair.latest.order) });
      }
    }
  }

  #addClaim(id: Id, claim: Claim): void {
    const claims = [...this.#claimsOf(id), claim].sort(inOrder);
    const repeated = claims.filter((one, index) => !one.person.isDeleted && claims[index - 1]?.person === one.person);
    if (!repeated.includes(claim)) this.claimants.add(claim.person);
    this.claims.set(
      id,
      claims.filter((one) => !repeated.includes(one)),
    );
  }

  /** Two ids of one visitor: if one has a person, the other follows. Else a later claim of one holds for the other. */
  #pair(a: Id, b: Id, signal: ModelSignal): void {
    const { order } = signal;
    if (a === b || (this.hasPerson(a) && this.hasPerson(b))) return;
    const claims = [...this.#claimsOf(a), ...this.#claimsOf(b)].filter(({ person }) => !person.isDeleted).sort(inOrder);
    const claim = claims.findLast((one) => !isLater(one.order, order)) ?? claims[0];
    if (claim !== undefined) {
      return this.#claim(this.hasPerson(a) ? b : a, claim.person, latest(claim.order, order));
    }
    const known = this.pairs.find(({ ids }) => ids.includes(a) && ids.includes(b));
    if (known === undefined) this.pairs.push({ ids: [a, b], latest: signal });
    else if (isLater(order, known.latest.order)) known.latest = signal;
  }

  /** The claims of people who are not deleted, the oldest first. */
  livingClaims(): { id: Id; order: ReceivedOrder; person: Person }[] {
    const claims = [...this.claims].flatMap(([id, ofId]) => ofId.map(({ order, person }) => ({ id, order, person })));
    return claims.filter(({ person }) => !person.isDeleted).sort(inOrder);
  }

  /** Whether a deleted person has claimed the id. */
  isOfDeleted(id: Id): boolean {
    return this.#claimsOf(id).some(({ person }) => person.isDeleted);
  }

  /** A person has lost an id: nobody has it by this claim and earlier ones. Later signals wait for another claim. */
  dropId(id: Id, order: ReceivedOrder): void {
    const kept = this.#claimsOf(id).filter((claim) => claim.person.isDeleted || isLater(claim.order, order));
    this.claims.set(id, kept);
    this.pairs = this.pairs.filter(({ ids }) => !ids.includes(id));
  }

  // Deletions.

  /**
   * A request for a deletion. While one is under way and nobody new has the email, only the email is extended. Otherwise the person's
   * names hold for signals received until now, and their pairs go at once.
   */
  request(email: string, nowMs: number): void {
    const running = this.people.findLast((person) => person.email === email && person.isDeleted && !person.isFinished);
    const person = this.living(email);
    if (person === undefined && running !== undefined) {
      running.untilMs = nowMs;
      running.requestsMs.push(nowMs);
    } else if (person === undefined) {
      this.people.push({ email, isDeleted: true, untilMs: nowMs, requestsMs: [nowMs], isFinished: false });
    } else this.#begin(person, nowMs);
    this.settle();
  }

  #begin(person: Person, nowMs: number): void {
    const theirs = this.signals.filter((one) => one.person === person);
    // All claims of the person count for their lines, also if the clock was set back since.
    const owners = new Map(theirs.map((one) => [one, this.#heirOf(one, person)]));
    const own = [...this.claims].filter(([, claims]) => claims.some((claim) => claim.person === person));
    for (const [id, claims] of own) {
      for (const claim of claims) if (claim.person === person) claim.untilMs = nowMs;
      this.pairs = this.pairs.filter(({ ids }) => !ids.includes(id));
    }
    Object.assign(person, { isDeleted: true, untilMs: nowMs, requestsMs: [nowMs] });
    // The claims decide: a line that they give to somebody else is anonymous again, and a link job gives it to them.
    for (const [signal, owner] of owners) {
      if (signal.place === "line" && !owner.isDeleted) signal.person = null;
      else if (signal.place === "line") this.#delete(signal, person, false);
      else if (signal.place === "dropped")
        Object.assign(signal, { place: "deleted", person: null, deletion: person, isDropped: true });
    }
  }

  /** Who has a line by its claims, or its person. An id that the person has lost, and weaker ones, give it to nobody else. */
  #heirOf({ content: { emailName, ids }, order, isByDevice }: ModelSignal, person: Person): Person {
    if (emailName !== null) return person;
    const naming = isByDevice ? ids.length - 1 : 0;
    for (const [index, id] of ids.slice(0, naming + 1).entries()) {
      const claim = this.#claimInForce(id, order);
      const isLost = index === naming && !this.#claimsOf(id).some((one) => one.person === person);
      if (claim !== undefined && !isLost) return claim.person;
    }
    return person;
  }

  /** Long after the end of a deletion, the person's names are forgotten. */
  forget(person: Person): void {
    person.untilMs = 0;
    for (const [id, claims] of this.claims) {
      const left = claims.filter((claim) => claim.person !== person);
      this.claims.set(id, left);
    }
  }

  /** Deletes what belongs to deleted people: lines that may move, held signals, and dead letters. Their ids may name further signals. */
  settle(): void {
    for (let hasChanged = true; hasChanged;) {
      hasChanged = false;
      for (const signal of this.signals) {
        const { place } = signal;
        if (place !== "held" && place !== "dead" && !this.mayMove(signal)) continue;
        const deletion = this.deletionOf(signal);
        if (deletion === undefined) continue;
        // A held alias has its other id only in its payload, which the deletion reads.
        const isHeldCall = place === "held" && signal.misfitMs === null;
        const known = this.deletionOf(isHeldCall ? { ...signal, place: "line" } : signal, false);
        this.#delete(signal, deletion, known !== deletion);
        hasChanged = true;
      }
    }
  }

  /** A dead letter received until the request goes if any text of its payload is a name of the deleted person. */
  #deletionOfLetter(
    { content, order }: Pick<ModelSignal, "content" | "order">,
    withLearned: boolean,
  ): Person | undefined {
    const { emailName, userName, deviceName, previousName } = content;
    const named = this.people.find(
      ({ email, isDeleted, untilMs }) => email === emailName && isDeleted && untilMs >= order.receivedAtMs,
    );
    const texts = [userName, deviceName, previousName].filter((text) => text !== null);
    const ids = texts.flatMap((text): Id[] => [`user ${text}`, `device ${text}`]);
    const claims = ids.flatMap((id) => this.#claimsOf(id));
    const known = claims.filter(({ isLearned }) => withLearned || !isLearned);
    return named ?? known.find((one) => one.person.isDeleted && one.untilMs >= order.receivedAtMs)?.person;
  }

  /**
   * A signal that was not recorded gives the deletion the ids that it names: those of an identify with the email, and the ids that it
   * pairs with an id of the deleted person, if nobody has them.
   */
  #delete(signal: ModelSignal, deletion: Person, isLearned: boolean): void {
    const wasRecorded = signal.place === "line";
    const owner = this.owner(signal);
    const leaves = wasRecorded && signal.person?.isDeleted === false ? signal.person : null;
    Object.assign(signal, { place: "deleted", person: null, leaves, deletion, isLearned });
    this.pairs = this.pairs.filter(({ latest: said }) => said !== signal);
    // A misfit is no call.
    const isCall = !wasRecorded && signal.misfitMs === null;
    if (isCall && owner?.isDeleted === true) this.#learn(signal, owner);
  }

  #learn({ content, order }: ModelSignal, deletion: Person): void {
    const { kind, emailName, ids, pairs } = content;
    if (kind === "identify" && emailName !== null) {
      for (const id of ids) this.#give(id, deletion, { order, isCertain: true }, order);
    } else {
      for (const pair of pairs) {
        const free = pair.filter((id) => this.#claimsFor(id, order).length === 0);
        const claims = pair.flatMap((id) => this.#claimsFor(id, order)).sort(inOrder);
        const claim = claims.findLast((one) => !isLater(one.order, order)) ?? claims[0];
        if (free.length !== 1 || claim?.person !== deletion) continue;
        for (const id of free) this.#give(id, deletion, { order: latest(claim.order, order), isCertain: false }, order);
      }
    }
  }

  /** Ids that are paired with an id that nobody had follow it, if nobody has them either. */
  #give(first: Id, deletion: Person, said: Pick<Claim, "order" | "isCertain">, signalOrder: ReceivedOrder): void {
    const hadPerson = this.#claimsFor(first, signalOrder).length > 0;
    const given = [{ id: first, ...said }];
    // A later request extends the email only, so the ids are the person's until the first request after the signal.
    const untilMs = deletion.requestsMs.find((ms) => ms >= signalOrder.receivedAtMs) ?? deletion.untilMs;
    deletion.isFinished = false;
    for (const { id, order, isCertain } of given) {
      this.#addClaim(id, { order, person: deletion, untilMs, isLearned: true, isCertain });
      if (hadPerson) break;
      for (const { ids, latest: line } of this.pairs.filter((pair) => pair.ids.includes(id))) {
        const [other] = ids.filter((one) => one !== id);
        const isKnown = other === undefined || given.some((one) => one.id === other);
        if (isKnown || line.order.receivedAtMs > untilMs || this.#claimsFor(other, signalOrder).length > 0) continue;
        given.push({ id: other, order: latest(order, line.order), isCertain: false });
      }
    }
    const isGiven = (id: Id): boolean => given.some((one) => one.id === id);
    this.pairs = this.pairs.filter(({ ids, latest: line }) => !ids.some(isGiven) || line.order.receivedAtMs > untilMs);
  }

  // What the model sees in the store.

  /** A line got a person: its rules are evaluated anew. */
  moved(signal: ModelSignal, person: Person): void {
    signal.person = person;
    signal.isByDevice = signal.content.emailName === null && !this.#isUserKnown(signal.content, signal.order);
    this.#noteMatches(signal, person.email);
    signal.rulesVersion = this.rulesVersion;
  }

  /** A deletion that is under way has not come to a dead letter, or to a held misfit. */
  keepLetter(signal: ModelSignal, place: "dead" | "held"): void {
    Object.assign(signal, { place, deletion: null, isLearned: false });
  }

  /** Whether a signal names an id that a deletion under way has still to learn. */
  isToLearn({ content }: ModelSignal): boolean {
    const claims = content.callIds.flatMap((id) => this.#claimsOf(id));
    return claims.some(({ isLearned, person }) => isLearned && !person.isFinished);
  }

  /** The store has learned nothing about those ids of a signal that somebody else had by then. */
  forgetLearned({ content }: ModelSignal): void {
    for (const id of content.callIds.filter((one) => this.hasPerson(one))) {
      this.claims.set(
        id,
        this.#claimsOf(id).filter(({ isLearned, isCertain }) => !isLearned || isCertain),
      );
    }
  }

  /** Whether a line has a person by its device only, and a deletion has still to learn its user id. */
  isOnlyByDevice({ content: { userName }, order }: ModelSignal): boolean {
    if (userName === null || this.#claimInForce(`user ${userName}`, order, false) !== undefined) return false;
    return this.#claimInForce(`user ${userName}`, order) !== undefined;
  }

  drop(signal: ModelSignal): void {
    this.dropped.push(signal);
    this.pairs = this.pairs.filter(({ latest: said }) => said !== signal);
    signal.place = signal.place === "line" ? "dropped" : "gone";
  }

  // Rules.

  get rulesNow(): { rules: Rule[]; exclusions: readonly Exclusion[]; version: number } {
    return { rules: [...this.rules], exclusions: this.exclusions, version: this.rulesVersion };
  }

  set rulesNow({ rules, exclusions, version }) {
    [this.rules, this.exclusions, this.rulesVersion] = [[...rules], exclusions, version];
  }

  #noteMatches(signal: ModelSignal, email: string | null): void {
    signal.outcomes = new Map();
    signal.isExcluded = false;
    // While a rule or an exclusion asks for the email, a signal without one is evaluated when it gets its person.
    const asksForEmail =
      this.rules.some(({ of, isEnabled }) => of !== null && isEnabled) || this.exclusions.some((one) => "of" in one);
    if (email === null && asksForEmail) return;
    signal.isExcluded = isExcluded(this.exclusions, signal, email);
    for (const rule of this.rules) {
      if (!rule.isEnabled || !matches(rule, signal, email)) continue;
      signal.outcomes.set(rule.id, rule.version);
      this.matched.set(rule.id, Math.max(rule.version, this.matched.get(rule.id) ?? 0));
    }
  }

  changeRule(number: number, change: Partial<Rule>): Rule {
    const before = this.rules[number % this.rules.length];
    if (before === undefined) throw new Error("a life has rules");
    const rule = { ...before, ...change, version: before.version + 1 };
    this.rules[this.rules.indexOf(before)] = rule;
    this.versions.set(`${rule.id} ${rule.version}`, rule);
    this.rulesVersion++;
    return rule;
  }

  startJob(rule: Rule): void {
    this.applied.set(rule.id, rule);
    this.jobs.set(rule.id, { rule, rulesVersion: this.rulesVersion, recorded: this.#recorded });
  }

  /**
   * A job gives its outcome to the lines of people that were recorded before, unless newer rules were evaluated when they got their
   * person. A rule that is disabled loses its outcomes, also those of dropped lines.
   */
  jobEnded(ruleId: string): void {
    const job = this.jobs.get(ruleId);
    if (job === undefined) return;
    this.jobs.delete(ruleId);
    const { rule } = job;
    for (const { signal, person, isDropped } of this.#scoringLines()) {
      const { outcomes } = signal;
      if (signal.recorded > job.recorded || signal.rulesVersion >= job.rulesVersion) continue;
      if (rule.isEnabled && isDropped) continue;
      // What an earlier version has matched in a lost payload, this version matches too.
      const isMatch = signal.isLost ? outcomes.has(rule.id) : matches(rule, signal, person.email);
      outcomes.delete(rule.id);
      if (!rule.isEnabled || !isMatch) continue;
      outcomes.set(rule.id, rule.version);
      this.matched.set(rule.id, Math.max(rule.version, this.matched.get(rule.id) ?? 0));
    }
  }

  changeExclusions(exclusions: readonly Exclusion[]): void {
    this.exclusions = exclusions;
    this.rulesVersion++;
  }

  startExclusionsJob(): void {
    const { exclusions, rulesVersion } = this;
    this.exclusionsJob = { exclusions, rulesVersion, recorded: this.#recorded };
  }

  /** Whether a job changes the scores of a rule. */
  isChanging(ruleId: string): boolean {
    return this.jobs.has(ruleId) || this.exclusionsJob !== null;
  }

  /** A job excludes lines of people, and ends that. What the rules match stays as it is. */
  exclusionsJobEnded(): void {
    const job = this.exclusionsJob;
    if (job === null) return;
    this.exclusionsJob = null;
    for (const { signal, person, isDropped } of this.#scoringLines()) {
      const { recorded, rulesVersion } = signal;
      if (isDropped || recorded > job.recorded || rulesVersion >= job.rulesVersion) continue;
      // Without its payload, a signal is excluded as long as the exclusion that covers it is.
      const isReadable = !signal.isLost || !job.exclusions.some((one) => "hasId" in one);
      if (isReadable) signal.isExcluded = isExcluded(job.exclusions, signal, person.email);
    }
  }

  /** What the store says about a signal without its payload: what it said before, the same by the version that a job applies, or nothing. */
  noteLost(signal: ModelSignal, evaluated: Pick<ModelSignal, "outcomes" | "isExcluded">): void {
    for (const [id, version] of evaluated.outcomes) {
      const rule = this.rules.find((one) => one.id === id);
      const known = [
        signal.outcomes.get(id),
        rule?.version,
        this.jobs.get(id)?.rule.version,
        this.applied.get(id)?.version,
      ];
      if (!known.includes(version)) throw new Error(`${id} matches ${signal.id} by version ${version}`);
    }
    Object.assign(signal, evaluated);
  }

  /** Whether a match may take an empty place: no newer version of its rule was applied to the past. */
  mayTake({ id, version }: Rule): boolean {
    const applied = this.applied.get(id);
    return applied === undefined || version > applied.version || (version === applied.version && applied.isEnabled);
  }

  /** The version whose matches may take an empty place: the latest that has matched anything, unless a newer version was applied. */
  currentVersion(ruleId: string): number | null {
    const version = this.matched.get(ruleId) ?? 0;
    const applied = this.applied.get(ruleId);
    if (applied === undefined) return version;
    return applied.version > version || (applied.version === version && !applied.isEnabled) ? null : version;
  }
}

export function matches(rule: Rule, { content }: ModelSignal, email: string | null): boolean {
  const { kind, event = 0 } = content;
  return kind === "track" && "ABC"[event] === rule.event && (rule.of === null || rule.of === email);
}

function isExcluded(exclusions: readonly Exclusion[], { content }: ModelSignal, email: string | null): boolean {
  const event = "ABC"[content.event ?? 0];
  const covers = (one: Exclusion): boolean => {
    if ("of" in one) return one.of === email;
    return "event" in one ? one.event === event : one.hasId === (content.hasId ?? false);
  };
  return content.kind === "track" && exclusions.some(covers);
}

/** The day on which the points of a signal lapse, in days since 1970; null: never. */
export function lapseDay({ lastDays }: Rule, occurredMs: number): number | null {
  return lastDays === null ? null : Math.floor(occurredMs / DAY_MS) + lastDays + 1;
}

function inOrder(a: { order: ReceivedOrder }, b: { order: ReceivedOrder }): number {
  return isLater(a.order, b.order) ? 1 : -1;
}

function latest(a: ReceivedOrder, b: ReceivedOrder): ReceivedOrder {
  return isLater(a, b) ? a : b;
}
