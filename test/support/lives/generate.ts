/** Random lives. Each life has some of the features, so that short lives combine those that it has more often. */
import * as fc from "fast-check";
import { DAY_MS } from "../../../src/domain/duration.ts";
import { JOBS } from "./real.ts";
import type { Happening, Life, Sent } from "./life.ts";
import type { Exclusion, Rule } from "./model.ts";

const FEATURES = [
  "accounts",
  "clock",
  "crashes",
  "dead",
  "deletions",
  "duplicates",
  "exclusions",
  "flight",
  "full",
  "held",
  "ids",
  "lapses",
  "losses",
  "misfits",
  "occurrence",
  "once",
  "outages",
  "retention",
  "rules",
] as const;
export type Feature = (typeof FEATURES)[number];

/** Mostly absent; `fc.option` would make it rare. */
const seldom = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
const often = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 1, arbitrary: fc.constant(undefined) }, { weight: 2, arbitrary: value });

/** With fewer people, ids and events, more of what happens is about the same person. */
interface Scope {
  has: ReadonlySet<Feature>;
  people: number;
  ids: number;
  events: number;
}

function draftOf({ has, people, ids: numberOfIds, events }: Scope): fc.Arbitrary<Sent> {
  const anyPerson = fc.nat(people - 1);
  const anyId = fc.nat(numberOfIds - 1);
  const daysAgo = has.has("occurrence") ? seldom(fc.constantFrom(0, 1, 5, 16, 29, 30, 40)) : fc.constant(undefined);
  const hasId = fc.boolean();
  const account = has.has("accounts") ? seldom(fc.nat(1)) : fc.constant(undefined);
  const plan = seldom(fc.constantFrom("free", "pro", "max"));
  const event = fc.nat(events - 1);
  const isNamed = fc.boolean();
  const common = { hasId, daysAgo };
  // A call needs an id to be one of a CDP.
  const ids = fc.constantFrom("user", "device", "both", "both", "email");
  const track = fc
    .record({ ...common, event, isNamed, user: anyId, device: anyId, email: anyPerson, ids })
    .map(({ ids: named, user, device, email, ...rest }) => ({
      kind: "track" as const,
      ...rest,
      ...(named === "email" ? { email } : {}),
      ...(named === "user" || named === "both" ? { user } : {}),
      ...(named === "device" || named === "both" ? { device } : {}),
    }));
  const identify = fc
    .record({
      ...common,
      account,
      isNamed,
      email: often(anyPerson),
      user: often(anyId),
      device: anyId,
      hasDevice: fc.boolean(),
    })
    .map(({ device, hasDevice, ...rest }) => ({
      kind: "identify" as const,
      ...rest,
      ...(hasDevice || rest.user === undefined ? { device } : {}),
    }));
  const alias = fc
    .record({ ...common, user: anyId, device: anyId, joinsUsers: fc.boolean() })
    .map((rest) => ({ kind: "alias" as const, ...rest }));
  const group = fc
    .record({ ...common, account: fc.nat(1), plan, user: often(anyId), device: anyId })
    .map((rest) => ({ kind: "group" as const, ...rest }));
  const update = fc.record({ account: fc.nat(1), plan }).map((rest) => ({ kind: "account" as const, ...rest }));
  const again = fc.nat(5).map((back) => ({ again: back }));
  return fc.oneof(
    { weight: 6, arbitrary: track },
    { weight: 5, arbitrary: identify },
    { weight: 2, arbitrary: alias },
    ...(has.has("accounts")
      ? [
          { weight: 2, arbitrary: group },
          { weight: 1, arbitrary: update },
        ]
      : []),
    ...(has.has("duplicates") ? [{ weight: 2, arbitrary: again }] : []),
  ) as fc.Arbitrary<Sent>;
}

const anyExclusions = fc.subarray<Exclusion>([
  { hasId: true },
  { of: "ann@example.com" },
  { event: "A" },
  { hasId: false },
  { of: "bob@example.com" },
]);
const detourOf = fc.array(fc.record({ exclusions: anyExclusions, steps: seldom(fc.nat(3)).map((n) => n ?? null) }), {
  minLength: 1,
  maxLength: 3,
});
const changeOf: fc.Arbitrary<Partial<Rule>> = fc.oneof(
  fc.record({ points: fc.integer({ min: -3, max: 9 }) }),
  fc.record({ isEnabled: fc.boolean() }),
  fc.record({ of: fc.constantFrom(null, null, "ann@example.com") }),
  fc.record({ frequency: fc.constantFrom("every_time", "once_per_day", "once_ever") }),
  fc.record({ lastDays: fc.constantFrom(null, 30 as const) }),
);

function happeningOf(scope: Scope): fc.Arbitrary<Happening> {
  const { has, people } = scope;
  const how = [
    "now" as const,
    "now" as const,
    ...(has.has("flight") ? (["flight", "flight"] as const) : []),
    ...(has.has("held") ? (["held"] as const) : []),
    ...(has.has("dead") ? (["dead"] as const) : []),
    ...(has.has("misfits") ? (["misfit"] as const) : []),
    ...(has.has("misfits") && has.has("held") ? (["heldMisfit"] as const) : []),
  ];
  const some = { from: fc.nat(10), count: fc.integer({ min: 1, max: 5 }) };
  const resent = { ...some, flight: fc.boolean(), again: fc.constantFrom(false, false, has.has("misfits")) };
  const choices: [number, fc.Arbitrary<Happening>, boolean][] = [
    [
      12,
      fc.record({
        does: fc.constant("send"),
        signals: fc.array(draftOf(scope), { minLength: 1, maxLength: 4 }),
        how: fc.constantFrom(...how),
      }),
      true,
    ],
    [3, fc.record({ does: fc.constant("deliver"), ...some }), has.has("flight")],
    [2, fc.record({ does: fc.constant("release"), ...resent }), has.has("held")],
    [2, fc.record({ does: fc.constant("replay"), ...resent }), has.has("dead") || has.has("misfits")],
    [
      6,
      fc.record({ does: fc.constant("step"), job: fc.constantFrom(...JOBS), times: fc.integer({ min: 1, max: 3 }) }),
      true,
    ],
    [
      3,
      fc.record({
        does: fc.constant("crash"),
        job: fc.constantFrom(...JOBS),
        writes: fc.nat(12),
        isRestarted: fc.boolean(),
      }),
      has.has("crashes"),
    ],
    [
      2,
      fc.record({
        does: fc.constant("stumble"),
        signals: fc.array(draftOf(scope), { minLength: 1, maxLength: 4 }),
        writes: fc.nat(12),
      }),
      has.has("crashes"),
    ],
    [3, fc.record({ does: fc.constant("outage"), job: fc.constantFrom("link", "rule", "cold") }), has.has("outages")],
    [1, fc.constant({ does: "finish" }), true],
    [3, fc.record({ does: fc.constant("delete"), person: fc.nat(people - 1) }), has.has("deletions")],
    [
      2,
      fc.record({
        does: fc.constant("rule"),
        rule: fc.nat(2),
        change: changeOf,
        past: fc.boolean(),
      }),
      has.has("rules"),
    ],
    [
      1,
      fc.record({
        does: fc.constant("overtake"),
        late: fc.array(draftOf(scope), { minLength: 1, maxLength: 3 }),
        rule: fc.nat(2),
        change: changeOf,
        signals: fc.array(draftOf(scope), { minLength: 1, maxLength: 3 }),
        past: fc.boolean(),
      }),
      has.has("rules"),
    ],
    [
      3,
      fc.record({ does: fc.constant("exclude"), exclusions: anyExclusions, past: fc.boolean() }),
      has.has("exclusions"),
    ],
    [2, fc.record({ does: fc.constant("preview"), exclusions: anyExclusions }), has.has("exclusions")],
    [
      2,
      fc.record({
        does: fc.constant("detour"),
        by: detourOf,
      }),
      has.has("exclusions"),
    ],
    [2, fc.constantFrom(1, 1, 5, 15, 31).map((days) => ({ does: "wait", ms: days * DAY_MS })), true],
    [1, fc.constantFrom(1_000, DAY_MS, 3 * DAY_MS).map((ms) => ({ does: "wait", ms: -ms })), has.has("clock")],
    [2, fc.constantFrom(1, 3, 10, null).map((days) => ({ does: "keep", days })), has.has("retention")],
    [2, fc.constantFrom(true, false).map((isFull) => ({ does: "fill", isFull })), has.has("full")],
    [2, fc.constant({ does: "lose" }), has.has("losses")],
    [1, fc.constantFrom({ does: "seal" as const }, { does: "restart" as const }, { does: "import" as const }), true],
  ] as [number, fc.Arbitrary<Happening>, boolean][];
  return fc.oneof(...choices.filter(([, , isIn]) => isIn).map(([weight, arbitrary]) => ({ weight, arbitrary })));
}

function rulesOf(has: ReadonlySet<Feature>): fc.Arbitrary<Life["rules"]> {
  const rule = (event: string): fc.Arbitrary<Life["rules"][number]> =>
    fc.record({
      event: fc.constant(event),
      points: fc.integer({ min: has.has("rules") ? -3 : 1, max: 9 }),
      frequency: has.has("once")
        ? fc.constantFrom("every_time" as const, "once_per_day" as const, "once_ever" as const, "once_ever" as const)
        : fc.constant("every_time" as const),
      lastDays: has.has("lapses") ? fc.constantFrom(null, 30 as const) : fc.constant(null),
      of: fc.constant(null),
    });
  return fc.tuple(rule("A"), rule("B"), rule("C"));
}

/** Several happenings that matter only together. */
function chapterOf(scope: Scope): fc.Arbitrary<Happening[]> {
  const { has, people, ids } = scope;
  const one = happeningOf(scope).map((happening) => [happening]);
  const drop: Happening[] = [
    { does: "wait", ms: DAY_MS },
    { does: "keep", days: 1 },
    { does: "step", job: "retain", times: 2 },
  ];
  // A signal of a known device with a user id moves to another person when the user logs in. Meanwhile an older signal of the first
  // person may arrive, and retention may drop it.
  const login = fc
    .record({
      person: fc.nat(people - 1),
      other: fc.nat(people - 1),
      user: fc.nat(ids - 1),
      device: fc.nat(ids - 1),
      isLate: fc.boolean(),
      areDropped: fc.boolean(),
    })
    .map(({ person, other, user, device, isLate, areDropped }): Happening[] => {
      const late: Happening = { does: "send", signals: [{ kind: "track", event: 0, email: person }], how: "flight" };
      const first: Sent[] = [
        { kind: "identify", email: person, device },
        { kind: "track", event: 0, user, device },
      ];
      return [
        ...(isLate && has.has("flight") ? [late, { does: "wait" as const, ms: DAY_MS }] : []),
        { does: "send", signals: first },
        ...(isLate ? [{ does: "deliver" as const, from: 0, count: 9 }] : []),
        ...(areDropped && has.has("retention") ? drop.slice(1) : []),
        { does: "send", signals: [{ kind: "identify", email: other, user }] },
      ];
    });
  // A rule changes for new signals only, so that a person has matches of several versions. Some move to another person, some become the
  // person's late, and searches stop midway. Then exclusions come and go.
  const versionsStep: fc.Arbitrary<Happening[]> = fc.oneof(
    {
      weight: 6,
      arbitrary: fc
        .record({
          hasId: fc.boolean(),
          daysAgo: fc.constantFrom(0, 1, 5, 29),
          by: fc.constantFrom({ email: 0 }, { email: 0 }, { user: 0, device: 0 }, { device: 1 }),
        })
        .map(({ hasId, daysAgo, by }): Happening[] => {
          const when = has.has("occurrence") ? { daysAgo } : {};
          return [{ does: "send", signals: [{ kind: "track", event: 0, hasId, ...by, ...when }] }];
        }),
    },
    {
      weight: 3,
      arbitrary: fc
        .record({ change: changeOf, past: fc.constantFrom(false, false, true) })
        .map(({ change, past }): Happening[] => [{ does: "rule", rule: 0, change, past }]),
    },
    {
      weight: 2,
      arbitrary: fc.constantFrom({ email: 1, user: 0 }, { email: 0, device: 1 }).map((named): Happening[] => [
        { does: "send", signals: [{ kind: "identify", ...named }] },
        { does: "step", job: "link", times: 1 },
        { does: "step", job: "replace", times: 1 },
      ]),
    },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom(1, 29, 31)
        .map((days): Happening[] => [
          { does: "wait", ms: days * DAY_MS },
          ...(has.has("retention") ? drop.slice(1) : []),
        ]),
    },
  );
  const versions = fc
    .record({ steps: fc.array(versionsStep, { minLength: 3, maxLength: 10 }), by: detourOf })
    .map(({ steps, by }): Happening[] => [
      { does: "send", signals: [{ kind: "identify", email: 0, device: 0 }] },
      ...steps.flat(),
      { does: "finish" },
      ...(has.has("exclusions")
        ? [...by.map(({ exclusions }): Happening => ({ does: "preview", exclusions })), { does: "detour" as const, by }]
        : []),
    ]);
  // Signals whose payloads are in R2 are linked or rescored by a changed rule, first while R2 does not answer; or R2 has lost them.
  const away = fc
    .record({
      person: fc.nat(people - 1),
      device: fc.nat(ids - 1),
      change: changeOf,
      past: fc.boolean(),
      isLate: fc.boolean(),
      areLost: fc.boolean(),
    })
    .map(({ person, device, change, past, isLate, areLost }): Happening[] => {
      const identify: Happening = { does: "send", signals: [{ kind: "identify", email: person, device }] };
      return [
        { does: "send", signals: [{ kind: "track", event: 0, device }] },
        ...(isLate ? [] : [identify]),
        { does: "seal" },
        { does: "wait", ms: DAY_MS },
        { does: "step", job: "cold", times: 2 },
        ...(areLost && has.has("losses") ? [{ does: "lose" as const }] : []),
        { does: "rule", rule: 0, change, past },
        ...(isLate ? [identify] : []),
        { does: "outage", job: "link" },
        { does: "outage", job: "rule" },
      ];
    });
  const misfits: Happening[] = [
    { does: "wait", ms: 91 * DAY_MS },
    { does: "step", job: "misfits", times: 1 },
  ];
  // A person who keeps few ids loses the one that named a signal.
  const crowd = fc
    .record({ email: fc.nat(people - 1), user: fc.nat(ids - 1), next: fc.nat(ids - 1), device: fc.nat(ids - 1) })
    .map(({ email, user, next, device }): Happening[] => [
      { does: "send", signals: [{ kind: "identify", email, user }] },
      { does: "send", signals: [{ kind: "track", event: 0, user, device }] },
      { does: "send", signals: [{ kind: "identify", email, user: next }] },
    ]);
  return fc.oneof(
    { weight: 14, arbitrary: one },
    ...(has.has("misfits") ? [{ weight: 1, arbitrary: fc.constant(misfits) }] : []),
    ...(has.has("ids") ? [{ weight: 2, arbitrary: crowd }] : []),
    ...(has.has("outages") && has.has("rules") ? [{ weight: 2, arbitrary: away }] : []),
    { weight: 2, arbitrary: login },
    ...(has.has("rules") ? [{ weight: 2, arbitrary: versions }] : []),
    ...(has.has("retention") ? [{ weight: 1, arbitrary: fc.constant(drop) }] : []),
  );
}

/** @param without features that no life has. */
export function livesOf(most: number, without: readonly Feature[] = []): fc.Arbitrary<Life> {
  const possible = FEATURES.filter((feature) => !without.includes(feature));
  const scope = fc.record({
    has: fc.subarray(possible).map((features) => new Set<Feature>(features)),
    people: fc.integer({ min: 2, max: 3 }),
    ids: fc.constantFrom(1, 2, 2, 3),
    events: fc.constantFrom(1, 1, 2, 3),
  });
  return scope.chain((made) => {
    const { has } = made;
    return fc.record({
      rules: rulesOf(has),
      steps: fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 5 })),
      personIds: has.has("ids") ? fc.constantFrom(1, 1, 2) : fc.constant(null),
      wantsNotifications: fc.boolean(),
      happenings: fc
        .array(chapterOf(made), { minLength: 3, maxLength: most, size: "max" })
        .map((chapters) => chapters.flat()),
    });
  });
}

/** A life in few words. */
export function lifeInWords(life: Life): string {
  return JSON.stringify(life).replaceAll('"', "");
}
