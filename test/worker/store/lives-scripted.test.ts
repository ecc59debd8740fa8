/** Short lives of a store next to the naive model (test/support/lives), each for one promise. After each event both must agree. */
/* oxlint-disable vitest/expect-expect -- `life` returns the test, which expects after each event */
import { describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/duration.ts";
import { runLife, type Happening, type How, type Life, type Sent } from "../../support/lives/life.ts";
import type { Exclusion } from "../../support/lives/model.ts";
import type { Job } from "../../support/lives/real.ts";

const [ANN, BOB, CYD] = [0, 1, 2];

function send(...signals: Sent[]): Happening {
  return { does: "send", signals };
}

function sendAs(how: How, ...signals: Sent[]): Happening {
  return { does: "send", signals, how };
}

const deliver: Happening = { does: "deliver", from: 0, count: 9 };
const finish: Happening = { does: "finish" };
const erase = (person: number): Happening => ({ does: "delete", person });
const wait = (days: number): Happening => ({ does: "wait", ms: days * DAY_MS });
const step = (job: Job, times = 1): Happening => ({ does: "step", job, times });
const keep = (days: number): Happening => ({ does: "keep", days });

const track = (fields: Partial<Extract<Sent, { kind: string }>>): Sent => ({
  kind: "track",
  hasId: true,
  event: 0,
  ...fields,
});
const identify = (fields: Partial<Extract<Sent, { kind: string }>>): Sent => ({
  kind: "identify",
  hasId: true,
  ...fields,
});

interface Setting {
  rule?: Partial<Life["rules"][number]>;
  /** Tiny steps, so that jobs stop midway. */
  isTiny?: boolean;
  /** Other tiny steps: which job takes how much. */
  steps?: number;
  wantsNotifications?: boolean;
  personIds?: number;
}

/** Event A scores by the rule; B and C score nothing. */
function life(
  happenings: Happening[],
  { rule = {}, isTiny = false, steps = isTiny ? 1 : undefined, wantsNotifications = false, personIds }: Setting = {},
): () => Promise<void> {
  const every = { frequency: "every_time" as const, lastDays: null, of: null };
  const rules = [
    { event: "A", points: 6, ...every, ...rule },
    { event: "B", points: 0, ...every },
    { event: "C", points: 0, ...every },
  ];
  return async () => {
    expect.hasAssertions();
    await runLife({ rules, steps: steps ?? null, personIds: personIds ?? null, wantsNotifications, happenings });
  };
}

describe("people and accounts", () => {
  test(
    "a person keeps the name and the account of a signal that retention has dropped, after another signal leaves them",
    life([
      send(identify({ email: BOB, device: 0, isNamed: true, account: 0 }), track({ email: BOB })),
      wait(2),
      send(track({ user: 2, device: 0 })),
      keep(1),
      step("retain"),
      send(identify({ email: CYD, user: 2 })),
    ]),
  );

  test(
    "a person who loses one of two claims of an account stays in it, and nothing is raised",
    life(
      [
        send(track({ email: ANN }), track({ email: ANN, event: 0 }), identify({ email: ANN, device: 1, account: 0 })),
        send({ kind: "group", user: 0, device: 1, account: 0 }),
        send(identify({ email: BOB, user: 0 })),
        step("link"),
      ],
      { wantsNotifications: true },
    ),
  );

  test(
    "an account that an update without values has named stays when its last person leaves",
    life([
      send(identify({ email: ANN, account: 1, device: 0 })),
      send({ kind: "account", account: 1 }),
      send({ kind: "group", hasId: true, account: 0, device: 0 }),
    ]),
  );

  test(
    "an account that an update without values has named exists without people",
    life([send({ kind: "account", account: 1 }), send(identify({ email: ANN, account: 1, device: 0 })), erase(ANN)]),
  );

  test(
    "an account was first seen when its first member was",
    life([send(track({ email: ANN, daysAgo: 5 })), send(identify({ email: ANN, device: 0, account: 0 }))]),
  );

  test(
    "an account was first seen when its present members were, after the earliest member leaves",
    life([
      send(
        identify({ email: ANN, device: 0, account: 0, daysAgo: 5 }),
        identify({ email: BOB, device: 1, account: 0 }),
      ),
      send({ kind: "group", hasId: true, account: 1, device: 0 }),
    ]),
  );

  test(
    "an account was first seen when a group call named it, whose values did not win",
    life([
      sendAs("flight", { kind: "group", hasId: true, account: 0, device: 0, plan: "free" }),
      send({ kind: "account", account: 0, plan: "pro" }),
      deliver,
    ]),
  );

  test(
    "a person was first and last seen by the signals that they have and those that retention has dropped",
    life([
      send(identify({ email: ANN, device: 0, daysAgo: 1 })),
      send(track({ user: 1, device: 0, daysAgo: 29 })),
      wait(2),
      send(track({ email: ANN })),
      keep(1),
      step("retain"),
      send(track({ user: 1, device: 0 })),
      send(identify({ email: BOB, user: 1 })),
    ]),
  );

  test(
    "two ids stay paired while the latest call that pairs them is stored",
    life([
      send(track({ user: 0, device: 0 }), { kind: "alias", hasId: true, user: 0, device: 0 }),
      wait(1),
      send({ kind: "alias", hasId: true, user: 0, device: 0 }),
      keep(1),
      wait(0.75),
      step("retain"),
      send(identify({ email: ANN, user: 0 })),
      send(track({ device: 0 })),
    ]),
  );
});

describe("scores", () => {
  test(
    "a match of a signal that retention has dropped counts when the match that counted leaves",
    life(
      [
        sendAs("flight", track({ email: ANN })),
        wait(2),
        send(identify({ email: ANN, device: 0 }), track({ user: 1, device: 0 })),
        deliver,
        keep(1),
        step("retain"),
        send(identify({ email: BOB, user: 1 })),
      ],
      { rule: { frequency: "once_ever" } },
    ),
  );

  test(
    "the points of a once-ever rule lapse by the earliest match, however many steps its search takes",
    life(
      [
        send(identify({ email: ANN, device: 0 }), track({ email: ANN })),
        send(track({ user: 1, device: 0, daysAgo: 20 })),
        ...Array.from({ length: 6 }, () => send(track({ email: ANN, event: 1 }))),
        send(track({ email: ANN, daysAgo: 14 })),
        send(track({ email: ANN, daysAgo: 2 }), track({ email: ANN, daysAgo: 1 })),
        send(identify({ email: BOB, user: 1 })),
      ],
      { rule: { frequency: "once_ever", lastDays: 30 }, isTiny: true },
    ),
  );

  test(
    "a rule is applied to signals that were linked before, also if the clock was set back meanwhile",
    life([
      send(track({ device: 0 })),
      send(identify({ email: ANN, device: 0 })),
      { does: "wait", ms: -60_000 },
      { does: "rule", rule: 0, change: { points: 9 }, past: true },
    ]),
  );

  test(
    "the points of a once-ever rule lapse by the earliest match, also if retention drops it while its search waits",
    life(
      [
        sendAs("flight", track({ email: ANN })),
        keep(10),
        wait(31),
        send(identify({ email: ANN, device: 1 }), track({ user: 0, device: 1 }), track({ email: ANN })),
        send(identify({ email: BOB, user: 0 })),
        deliver,
        step("link"),
        step("retain"),
      ],
      { rule: { frequency: "once_ever", lastDays: 30 } },
    ),
  );

  test(
    "a match replaces another after a rule's job, also if the clock is set back before the job",
    life(
      [
        send(identify({ email: CYD, device: 0 }), track({ user: 1, device: 0 })),
        send(identify({ email: BOB, user: 1 })),
        send(identify({ email: CYD, user: 1 })),
        wait(1),
        send(track({ user: 1 })),
        { does: "rule", rule: 2, change: { of: null }, past: true },
        { does: "wait", ms: -1_000 },
        step("link"),
      ],
      { rule: { frequency: "once_ever" } },
    ),
  );

  test(
    "scoring signals agree with the score after the clock was set back over a lapse",
    life([send(track({ email: ANN })), wait(31), step("lapse"), wait(-1)], { rule: { lastDays: 30 } }),
  );

  test(
    "a fall by lapsed points is notified, also if a deletion of somebody else removes the points",
    life(
      [
        send(identify({ email: ANN, device: 0 }), track({ email: ANN })),
        send(track({ user: 1, device: 0, event: 1 }), track({ user: 1, device: 0, event: 1 })),
        send(identify({ email: BOB, user: 1, device: 2 }), track({ device: 2 }), track({ email: BOB })),
        erase(BOB),
        wait(31),
        step("delete", 20),
      ],
      { rule: { lastDays: 30 }, isTiny: true, wantsNotifications: true },
    ),
  );

  test(
    "a night's falls are notified, also if a login takes the last person whose points lapse",
    life(
      [
        send(identify({ email: ANN, device: 2 })),
        send(track({ user: 2, device: 2 })),
        send(track({ email: CYD })),
        send(track({ email: BOB, daysAgo: 1 })),
        send(identify({ email: CYD, user: 2 })),
        wait(31),
        step("lapse"),
      ],
      { rule: { lastDays: 30 }, steps: 3, wantsNotifications: true },
    ),
  );

  test(
    "a match that retention has dropped keeps its day while an earlier version of the rule would count longer",
    life(
      [
        send(track({ email: ANN })),
        { does: "rule", rule: 0, change: { lastDays: null, points: 7 }, past: false },
        send(track({ email: ANN })),
        { does: "rule", rule: 0, change: { lastDays: 30 }, past: false },
        send(track({ email: ANN })),
        wait(31),
        keep(1),
        step("retain", 3),
        finish,
      ],
      { rule: { frequency: "once_per_day", lastDays: 30 } },
    ),
  );

  test(
    "the points of a dropped match lapse by the earliest match, also after a job of a rule that matches nothing any more",
    life(
      [
        send(track({ email: ANN }), track({ email: ANN, daysAgo: 5 })),
        wait(2),
        keep(1),
        step("retain", 3),
        send(track({ email: ANN, daysAgo: 16 })),
        { does: "rule", rule: 0, change: { of: "cyd@example.com" }, past: true },
        finish,
      ],
      { rule: { frequency: "once_ever", lastDays: 30 } },
    ),
  );

  test(
    "the points of a match whose payload is lost lapse by the earliest match, after another moves to somebody else",
    life(
      [
        send(identify({ email: ANN, device: 0 }), track({ email: ANN }), track({ email: ANN, daysAgo: 5 })),
        send(track({ user: 1, device: 0, daysAgo: 16 })),
        { does: "seal" },
        wait(2),
        step("cold", 2),
        { does: "lose" },
        { does: "rule", rule: 0, change: { of: "cyd@example.com" }, past: true },
        finish,
        send(identify({ email: BOB, user: 1 })),
        finish,
      ],
      { rule: { frequency: "once_ever", lastDays: 30 } },
    ),
  );
});

describe("deletions", () => {
  const many = Array.from({ length: 12 }, () => track({ email: ANN }));

  test(
    "a second request for a deletion leaves held and late signals of the next person of a device, and of its next visitor",
    life(
      [
        send(identify({ email: ANN, device: 0 }), identify({ email: ANN, device: 1 }), ...many),
        erase(ANN),
        send(identify({ email: BOB, device: 0 })),
        sendAs("held", track({ device: 0 }), track({ device: 1 })),
        sendAs("flight", track({ device: 0 }), track({ device: 1 })),
        erase(ANN),
        finish,
        { does: "release", from: 0, count: 2 },
        deliver,
      ],
      { isTiny: true },
    ),
  );

  test(
    "a signal that a login has given to somebody else survives a deletion that overtakes the link job",
    life([
      send(identify({ email: ANN, device: 0 }), track({ user: 1, device: 0 })),
      send(identify({ email: BOB, user: 1 })),
      erase(ANN),
    ]),
  );

  test(
    "the next person of a shared device does not get the user id of a person who is being deleted",
    life(
      [
        send(identify({ user: 2, device: 2 })),
        send(identify({ email: ANN, user: 0, device: 2 }), ...many),
        erase(ANN),
        send(identify({ email: BOB, device: 2 })),
        send(track({ user: 2 })),
      ],
      { isTiny: true },
    ),
  );

  test(
    "ids that are paired while a deletion is under way stay paired after it",
    life(
      [
        send(identify({ email: ANN, device: 0 }), ...many),
        erase(ANN),
        send(identify({ user: 1, device: 0 })),
        finish,
        send(identify({ email: BOB, user: 1 })),
        send(track({ device: 0 })),
      ],
      { isTiny: true },
    ),
  );

  test(
    "a second request for a deletion takes no later signals of a device that a dead letter had named before the first",
    life(
      [
        send(identify({ email: ANN, device: 0 }), ...many),
        sendAs("dead", identify({ email: ANN, device: 1 })),
        erase(ANN),
        send(track({ device: 1 })),
        erase(ANN),
      ],
      { isTiny: true },
    ),
  );

  test(
    "a fall of somebody who loses a signal to a deletion is raised",
    life(
      [
        send(identify({ email: BOB, device: 1 }), track({ user: 0, device: 1 })),
        send(identify({ email: ANN, user: 0 })),
        erase(ANN),
      ],
      { wantsNotifications: true },
    ),
  );

  test(
    "held signals that name a user id of a deleted person by an alias go with the person",
    life([
      send(identify({ email: ANN, device: 0 })),
      sendAs("held", { kind: "alias", hasId: true, user: 0, device: 0 }, track({ user: 0 })),
      erase(ANN),
    ]),
  );

  test(
    "a visitor's signals go with the person whom a held identify names",
    life([send(track({ device: 0 })), sendAs("held", identify({ email: ANN, device: 0 })), erase(ANN)]),
  );

  test(
    "a visitor's signals go with the person whom a dead letter names",
    life([send(track({ device: 0 })), sendAs("dead", identify({ email: ANN, device: 0 })), erase(ANN)]),
  );

  test(
    "a visitor's signals go with the person whom an identify in transit names",
    life([
      send(track({ device: 0 })),
      sendAs("flight", identify({ email: ANN, device: 0 })),
      erase(ANN),
      finish,
      deliver,
    ]),
  );

  test(
    "a visitor's signals go with a person by an alias that arrives after the deletion",
    life([
      send(identify({ email: ANN, user: 0 }), track({ device: 0 })),
      sendAs("flight", { kind: "alias", hasId: true, user: 0, device: 0 }),
      erase(ANN),
      finish,
      deliver,
    ]),
  );

  test(
    "held signals of each of two times in which a person had a device go with the person",
    life([
      send(identify({ email: CYD, device: 0 })),
      send(identify({ email: ANN, device: 0 })),
      sendAs("held", track({ device: 0 })),
      send(identify({ email: BOB, device: 0 })),
      send(identify({ email: ANN, device: 0 })),
      erase(ANN),
      finish,
      { does: "release", from: 0, count: 1 },
    ]),
  );

  test(
    "nothing shows a person whose deletion is under way",
    life(
      [
        send(identify({ email: ANN, user: 0, device: 0, isNamed: true }), ...many),
        sendAs("dead", track({ user: 0 }), track({ email: ANN })),
        sendAs("held", track({ device: 0 })),
        erase(ANN),
        step("delete"),
        step("delete"),
      ],
      { isTiny: true },
    ),
  );

  test(
    "names of a deleted person are kept while the deletion is under way, however long it takes",
    life(
      [
        send(identify({ email: ANN, device: 0 }), ...many),
        sendAs("flight", track({ device: 0 }), track({ email: ANN })),
        erase(ANN),
        wait(31),
        step("delete"),
        deliver,
      ],
      { isTiny: true },
    ),
  );

  test(
    "a copy that arrives after the request is no duplicate of a signal that is being deleted",
    life(
      [
        send(...many, identify({ email: ANN, device: 0 })),
        { does: "seal" },
        send(...many),
        { does: "seal" },
        erase(ANN),
        send({ again: 1 }),
        send({ again: 20 }),
      ],
      { isTiny: true },
    ),
  );

  test(
    "a dead letter goes with a person if it names their device and a user id that nobody knows",
    life([send(identify({ email: ANN, device: 0 })), sendAs("dead", track({ user: 1, device: 0 })), erase(ANN)]),
  );

  test(
    "a dead letter goes with a person if any text of it is their name",
    life([
      send(identify({ email: ANN, device: 0 })),
      sendAs("dead", { kind: "alias", hasId: true, user: 1, device: 0 }),
      erase(ANN),
    ]),
  );

  const theirs = [
    identify({ email: BOB, device: 1 }),
    track({ user: 0, device: 1, isNamed: true, daysAgo: 1 }),
    track({ user: 0, device: 1, isNamed: true }),
  ];

  test(
    "a line that a device gave to somebody counts for them until the deletion of its user comes to it",
    life([send(...theirs, ...many), send(identify({ email: ANN, user: 0 })), erase(ANN)], { isTiny: true }),
  );

  test(
    "nobody keeps what came from a line of a deleted person, also if retention would drop the line first",
    life(
      [
        send(...theirs),
        wait(2),
        send(identify({ email: ANN, user: 0 }), ...many),
        erase(ANN),
        keep(1),
        step("retain", 3),
      ],
      {
        isTiny: true,
      },
    ),
  );

  test(
    "held signals go with a person by a held alias, also if their period ends meanwhile",
    life(
      [
        sendAs("held", track({ user: 1 }), { kind: "alias", hasId: true, user: 1, device: 0 }),
        send(identify({ email: ANN, device: 0 }), ...many),
        erase(ANN),
        wait(31),
        step("purge", 3),
        finish,
      ],
      { isTiny: true },
    ),
  );

  test(
    "a deletion takes the person's lines after the clock was set back behind them",
    life([
      send(identify({ email: BOB, device: 0 })),
      send(track({ device: 0 }), identify({ email: ANN, device: 0 })),
      { does: "wait", ms: -60_000 },
      erase(BOB),
    ]),
  );

  test(
    "a line that a deletion has left to the person of its user id goes with that person, also if the clock was set back",
    life([
      send(identify({ email: BOB, device: 1 }), track({ user: 2, device: 1 })),
      send(identify({ email: ANN, user: 2 })),
      erase(BOB),
      { does: "wait", ms: -1_000 },
      erase(ANN),
    ]),
  );

  test(
    "calls go with a deleted person whom a later call of the same batch names",
    life([
      sendAs(
        "flight",
        identify({ user: 1, device: 0 }),
        identify({ user: 1, device: 1 }),
        identify({ email: CYD, device: 1 }),
      ),
      erase(CYD),
      deliver,
      send(identify({ email: CYD, device: 0 })),
    ]),
  );

  test(
    "a dead letter goes with a person whose id a dead identify names, also after somebody else has claimed the id",
    life(
      [
        sendAs("dead", identify({ device: 1 }), identify({ email: CYD, user: 1 })),
        send(identify({ email: ANN, device: 0 }), track({ user: 1, device: 0 })),
        send(identify({ email: BOB, user: 1 })),
        sendAs("dead", track({ user: 1 })),
        erase(CYD),
      ],
      { steps: 3 },
    ),
  );

  test(
    "a person's signals go with them if only a dead letter names their id, which the deletion of somebody else takes",
    life(
      [
        sendAs("dead", identify({ email: CYD, user: 0 })),
        send(identify({ email: BOB, user: 0 })),
        erase(BOB),
        send(track({ user: 0, device: 1 })),
        erase(CYD),
      ],
      { isTiny: true },
    ),
  );

  test(
    "a line goes to the living person whom the claims name, after an earlier deletion is forgotten",
    life([
      send(identify({ email: ANN, user: 0 })),
      sendAs("flight", identify({ email: CYD, user: 0 })),
      sendAs("dead", identify({ email: BOB, user: 0 })),
      send(track({ user: 0, device: 1 })),
      erase(BOB),
      wait(31),
      erase(ANN),
    ]),
  );

  test(
    "a line that a device gave to somebody goes with the person whose user id a held alias and a held identify name",
    life(
      [
        send(identify({ email: BOB, device: 0 })),
        sendAs("held", { kind: "alias", hasId: true, user: 0, device: 1 }, identify({ email: ANN, device: 1 })),
        send(track({ user: 0, device: 0 })),
        erase(ANN),
      ],
      { steps: 5 },
    ),
  );

  test(
    "a fall by a login is notified, also if a deletion comes before the search for another match",
    life(
      [
        { does: "wait", ms: -3 * DAY_MS },
        send(identify({ email: CYD, device: 0 }), track({ user: 1, device: 0 })),
        send(identify({ email: BOB, user: 1 })),
        erase(CYD),
      ],
      { rule: { frequency: "once_per_day" }, wantsNotifications: true },
    ),
  );

  test(
    "notifications agree with scores after a deletion of somebody for whom a search waits",
    life(
      [
        send(identify({ email: BOB, device: 2 }), track({ user: 1, device: 2 })),
        send(track({ email: BOB }), identify({ email: CYD, user: 1 })),
        { does: "rule", rule: 1, change: { points: 3 }, past: true },
        send(
          { kind: "group", account: 1, user: 2 },
          identify({ email: BOB, user: 2 }),
          track({ email: BOB, event: 1 }),
        ),
        step("link"),
        erase(BOB),
      ],
      { rule: { frequency: "once_per_day", points: 6 }, wantsNotifications: true },
    ),
  );

  test(
    "a signal in transit goes with a person whose deletion ended long before another deletion",
    life(
      [
        send(identify({ email: ANN, device: 0 })),
        sendAs("flight", identify({ device: 0 })),
        erase(ANN),
        erase(BOB),
        wait(31),
      ],
      { isTiny: true },
    ),
  );

  test(
    "a line that a device gives to somebody goes with the person whose user id the deletion learns afterwards",
    life(
      [
        sendAs("held", identify({ user: 1, device: 0 })),
        send(track({ user: 1, device: 1 }), identify({ email: ANN, device: 0 })),
        erase(ANN),
        send(identify({ email: BOB, device: 1 })),
      ],
      { steps: 1 },
    ),
  );

  test(
    "calls in transit after a deleted person's login are theirs, also if somebody else's login before it arrives with it",
    life([
      send(identify({ email: CYD, user: 0 })),
      sendAs("flight", identify({ email: BOB, user: 0 }), identify({ email: CYD, user: 0 })),
      sendAs("flight", { kind: "alias", hasId: true, user: 0, device: 0 }),
      erase(CYD),
      { does: "deliver", from: 0, count: 2 },
    ]),
  );

  test(
    "a line that its device gave to somebody is not hidden by a deletion that learns the device later",
    life([
      sendAs("flight", identify({ email: ANN, device: 1 })),
      send({ kind: "group", hasId: true, account: 0, user: 0, device: 1 }),
      erase(ANN),
      send(identify({ email: BOB, device: 1 })),
      deliver,
      step("link"),
    ]),
  );
});

describe("exclusions that come and go leave the matches that counted before", () => {
  const change = (fields: Extract<Happening, { does: "rule" }>["change"]): Happening => {
    return { does: "rule", rule: 0, change: fields, past: false };
  };
  const exclude = (hasId: boolean): Happening => ({ does: "exclude", exclusions: [{ hasId }], past: true });
  const detour = (...hasIds: boolean[]): Happening => ({
    does: "detour",
    by: hasIds.map((hasId) => ({ exclusions: [{ hasId }], steps: null })),
  });
  const [early, late] = [track({ email: ANN, daysAgo: 3 }), track({ email: ANN, hasId: false, daysAgo: 0 })];
  const daily = { rule: { frequency: "once_per_day" as const } };
  const once = { rule: { frequency: "once_ever" as const } };
  const lapsing = { rule: { frequency: "once_ever" as const, lastDays: 30 as const } };

  test(
    "when one exclusion takes the place of another",
    life([send(early), change({ points: 7 }), send(late), detour(false, true, false)], once),
  );

  test(
    "of a once-ever rule from the day of the earliest match, although a changed rule has matched others",
    life([send(late), send(early), change({ points: 7 }), send(track({ email: BOB })), detour(false)], lapsing),
  );

  test(
    "of a once-a-day rule that has become a once-ever rule",
    life([send(early), change({ frequency: "once_ever" }), send(late), detour(true)], daily),
  );

  test(
    "of a once-ever rule that has become a once-a-day rule",
    life([send(early), change({ frequency: "once_per_day" }), send(late), detour(true)], once),
  );

  const byDevice = [identify({ email: ANN, device: 0 }), track({ user: 0, device: 0 })];
  const login = send(identify({ email: BOB, user: 0 }));

  test(
    "after the match that counted has moved to somebody else",
    life([send(...byDevice), send(late), change({ points: 7 }), send(early), login, detour(false), detour(true)], once),
  );

  test(
    "of three versions, each of which could take the place",
    life(
      [
        send(...byDevice, early),
        change({ points: 7 }),
        send(late),
        change({ points: 9 }),
        send(early),
        login,
        detour(true, false),
        detour(false),
      ],
      once,
    ),
  );

  test(
    "of three versions, the second of which scores once ever",
    life(
      [
        send(...byDevice),
        change({ frequency: "once_ever" }),
        send(early),
        change({ frequency: "once_per_day", points: 9 }),
        send(late, early),
        login,
        detour(false),
        detour(true),
      ],
      daily,
    ),
  );

  test(
    "also of a match that was linked later than the match whose place it takes",
    life(
      [
        send(track({ device: 1 })),
        send(late),
        change({ points: 7 }),
        send(identify({ email: ANN, device: 1 })),
        step("link"),
        detour(false),
        detour(true),
      ],
      once,
    ),
  );

  test(
    "also if retention has dropped the match that counted",
    life(
      [
        send(track({ device: 1 })),
        wait(1),
        send(late),
        change({ points: 7 }),
        send(identify({ email: ANN, device: 1 })),
        finish,
        wait(1),
        keep(1),
        step("retain", 3),
        detour(false),
      ],
      once,
    ),
  );

  const thenOnceADay = [finish, change({ frequency: "once_per_day", points: 9 }), send(early, late), detour(false)];

  test(
    "of a once-ever rule by its first recorded match, also if that was linked before the rule scored once a day",
    life(
      [send(track({ device: 1, daysAgo: 1 })), send(early), send(identify({ email: ANN, device: 1 })), ...thenOnceADay],
      once,
    ),
  );

  test(
    "of a once-ever rule by its first recorded match, also if another came while it was searched",
    life(
      [
        send(...byDevice),
        send(early, track({ email: ANN, daysAgo: 1 })),
        login,
        step("link"),
        send(late),
        ...thenOnceADay,
      ],
      once,
    ),
  );

  test(
    "as the preview says, also of a rule that scores once a day and then once ever",
    life(
      [
        send(early),
        change({ frequency: "once_ever", points: 9 }),
        send(late),
        { does: "preview", exclusions: [{ hasId: true }] },
        { does: "preview", exclusions: [] },
      ],
      daily,
    ),
  );

  test(
    "as the preview says, also of a once-ever rule whose points lapse by the earliest match that is left",
    life(
      [
        send(track({ email: ANN, hasId: false, daysAgo: 40 }), track({ email: ANN, daysAgo: 1 })),
        { does: "preview", exclusions: [{ hasId: false }] },
        { does: "preview", exclusions: [] },
        { does: "preview", exclusions: [{ hasId: true }] },
        send(track({ email: ANN, hasId: false, daysAgo: 2 })),
        { does: "preview", exclusions: [{ hasId: false }] },
      ],
      lapsing,
    ),
  );

  test(
    "as the preview says, also of a match that no job could bring up to date, because its payload is lost",
    life(
      [
        send(...byDevice, early),
        { does: "seal" },
        wait(2),
        step("cold", 2),
        { does: "lose" },
        { does: "rule", rule: 0, change: { points: 9 }, past: true },
        send(early),
        login,
        finish,
        { does: "preview", exclusions: [{ hasId: true }] },
      ],
      once,
    ),
  );

  test(
    "and each threshold, although a replacement was searched when they came",
    life(
      [
        send(identify({ email: ANN, device: 0 }), track({ user: 0, device: 0 })),
        send(identify({ email: BOB, user: 0 })),
        step("link"),
        send(late),
        change({ frequency: "every_time" }),
        send(late, track({ email: ANN })),
        exclude(false),
        finish,
      ],
      { rule: { ...daily.rule, points: 2 }, wantsNotifications: true },
    ),
  );

  test(
    "also if retention has dropped the match that keeps a once-ever version from counting",
    life(
      [
        send(track({ email: ANN })),
        change({ frequency: "once_ever", lastDays: null, points: 9 }),
        send(track({ email: ANN })),
        change({ frequency: "once_per_day", lastDays: 30, points: 6 }),
        send(early),
        wait(36),
        keep(1),
        step("retain", 3),
        send(late),
        detour(false),
      ],
      { rule: { ...daily.rule, lastDays: 30 } },
    ),
  );

  test.each([
    ["once_ever", { points: 9 }],
    ["once_ever", { frequency: "once_per_day" }],
    ["once_per_day", { points: 9 }],
    ["once_per_day", { frequency: "once_ever" }],
  ] as const)(
    "of a rule that scores %s, changed to %o after the payload of an excluded match was lost",
    (frequency, by) => {
      const excludeA = (past: boolean, ...exclusions: Exclusion[]): Happening => ({
        does: "exclude",
        exclusions,
        past,
      });
      const isA = { event: "A" };
      return life(
        [
          excludeA(false, isA),
          send(track({ email: ANN })),
          { does: "seal" },
          wait(2),
          step("cold", 2),
          { does: "lose" },
          { ...change(by), past: true } as Happening,
          finish,
          excludeA(false),
          send(track({ email: ANN, daysAgo: frequency === "once_per_day" ? 2 : 0 })),
          excludeA(true),
          finish,
          { does: "detour", by: [{ exclusions: [isA], steps: null }] },
          { does: "preview", exclusions: [isA] },
        ],
        { rule: { frequency } },
      )();
    },
  );
});

describe("a person who keeps few ids of a kind", () => {
  test(
    "loses the others also in the batch that creates the person",
    life(
      [
        send({ kind: "alias", user: 0, device: 1 }, identify({ email: ANN, device: 1 })),
        send(track({ user: 0 }), track({ user: 1 })),
      ],
      { personIds: 1 },
    ),
  );

  test(
    "loses an id as a whole, so that its signals go with them and not to somebody who has claimed it between",
    life(
      [
        send(identify({ email: BOB, device: 0 })),
        send(track({ device: 0 })),
        send(identify({ email: ANN, device: 0 })),
        send(identify({ email: BOB, device: 0 })),
        send(identify({ email: BOB, device: 1 })),
        erase(BOB),
        finish,
      ],
      { personIds: 2 },
    ),
  );

  test(
    "leaves no signal of a lost user id to the person of its device",
    life(
      [
        send(identify({ email: ANN, user: 0 }), track({ user: 0, device: 0 })),
        send(identify({ email: BOB, device: 0 })),
        send(identify({ email: ANN, user: 1 })),
        erase(ANN),
        finish,
      ],
      { personIds: 1 },
    ),
  );
});

describe("misfits", () => {
  test(
    "go with a person whom they name",
    life(
      [
        sendAs("misfit", identify({ email: ANN, device: 0 })),
        sendAs("heldMisfit", track({ email: ANN })),
        send(identify({ email: ANN, device: 1 })),
        erase(ANN),
        finish,
      ],
      { isTiny: true },
    ),
  );

  test(
    "that fit no template again are purged 90 days after they became dead letters",
    life([
      sendAs("heldMisfit", track({ email: ANN })),
      wait(2),
      { does: "release", from: 0, count: 1, again: true },
      wait(88),
      { does: "replay", from: 0, count: 1, again: true },
      step("misfits"),
      wait(3),
      step("misfits"),
    ]),
  );
});

test(
  "a full store remembers deleted people until the signals that wait for room are recorded",
  life([
    send(identify({ email: ANN, device: 0 })),
    { does: "fill", isFull: true },
    send(track({ device: 0 })),
    erase(ANN),
    finish,
    wait(31),
    step("delete"),
    { does: "fill", isFull: false },
    deliver,
    finish,
  ]),
);
