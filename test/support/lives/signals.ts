/** The signals of a random life: what a sender sends, and its payload. */
import { DAY_MS } from "../../../src/domain/duration.ts";
import type { JsonObject } from "../../../src/domain/json/json-value.ts";

/** Few people, user ids, devices and accounts, so that they overlap. */
export const EMAILS = ["ann@example.com", "bob@example.com", "cyd@example.com"] as const;
export const USERS = ["user-0", "user-1", "user-2"] as const;
export const DEVICES = ["device-0", "device-1", "device-2"] as const;
export const ACCOUNTS = ["acme", "blue"] as const;
export const EVENTS = ["A", "B", "C"] as const;

export interface Draft {
  kind: "track" | "identify" | "alias" | "group" | "account";
  /** Numbers of an email, a user id and a device. Without one, the signal does not name it. */
  email?: number;
  user?: number;
  device?: number;
  /** A track: the number of its event. */
  event?: number;
  /** An identify, a group call or an account update: the number of its account. */
  account?: number;
  /** An identify or a track: whether it sends the person's name. */
  isNamed?: boolean;
  /** An alias: whether the other id is a user id, `device` then counts among the user ids. */
  joinsUsers?: boolean;
  /** A group call or an account update: the plan that it sends. */
  plan?: string;
  /** Whether a repetition is recognized by an id. */
  hasId?: boolean;
  /** Days between the occurrence and the sending; without it the payload has no time. */
  daysAgo?: number;
}

/** An id: its kind and its text. The same text can be a user id and a device's. */
export type Id = `${"user" | "device"} ${string}`;

/** A payload with the fields that the model reads. Repetitions share it. */
export interface Content extends Draft {
  /** Text that only this payload has. */
  mark: string;
  text: string;
  payload: JsonObject;
  emailName: string | null;
  userName: string | null;
  deviceName: string | null;
  /** An alias: the other id. */
  previousName: string | null;
  /** The ids that say who the signal's person is, the strongest first. */
  ids: Id[];
  /** With the other id of an alias, which says too whose the call is. */
  callIds: Id[];
  /** The pairs of ids of one visitor that the signal says. */
  pairs: [Id, Id][];
  accountName: string | null;
  /** Null: the receipt. */
  sentTimeMs: number | null;
  /** Null: a repetition is no duplicate. */
  duplicateWindowMs: number | null;
}

const MINUTE_MS = 60_000;

export function contentOf(draft: Draft, number: number, nowMs: number): Content {
  const { kind, daysAgo, hasId = false } = draft;
  const mark = `mark${number}x`;
  const emailName = kind === "alias" ? null : nameOf(EMAILS, draft.email);
  const userName = nameOf(USERS, draft.user);
  const deviceName = kind === "alias" ? null : nameOf(DEVICES, draft.device);
  const previousName = kind === "alias" ? nameOf(draft.joinsUsers === true ? USERS : DEVICES, draft.device) : null;
  const accountName = nameOf(ACCOUNTS, draft.account);
  const sentTimeMs = daysAgo === undefined ? null : nowMs - daysAgo * DAY_MS;
  const names = { emailName, userName, deviceName, previousName, accountName };
  const payload = payloadOf(draft, { ...names, mark, sentTimeMs });
  const windowMs = hasId ? 7 * DAY_MS : 10 * MINUTE_MS;
  const isNeverDuplicate =
    kind === "account" ||
    (!hasId && emailName === null && userName === null && deviceName === null) ||
    (!hasId && kind === "identify" && sentTimeMs === null);
  const duplicateWindowMs = isNeverDuplicate ? null : windowMs;
  return {
    ...draft,
    ...names,
    mark,
    payload,
    text: JSON.stringify(payload),
    sentTimeMs,
    duplicateWindowMs,
    ids: idsOf(names),
    callIds: callIdsOf(names),
    pairs: pairsOf(kind, names),
  };
}

function idsOf({ userName, deviceName }: Pick<Content, "userName" | "deviceName">): Id[] {
  return [
    ...(userName === null ? [] : [`user ${userName}` as const]),
    ...(deviceName === null ? [] : [`device ${deviceName}` as const]),
  ];
}

function callIdsOf(names: Pick<Content, "userName" | "deviceName" | "previousName">): Id[] {
  const { previousName } = names;
  return previousName === null ? idsOf(names) : [...idsOf(names), `user ${previousName}`, `device ${previousName}`];
}

/** An identify without an email pairs its ids. An alias pairs its user id with the other id, which may be of either kind. */
function pairsOf(
  kind: Draft["kind"],
  names: Pick<Content, "emailName" | "userName" | "deviceName" | "previousName">,
): [Id, Id][] {
  const { emailName, userName, deviceName, previousName } = names;
  if (userName === null) return [];
  const user = `user ${userName}` as const;
  if (kind === "identify" && emailName === null && deviceName !== null) return [[user, `device ${deviceName}`]];
  if (kind === "alias" && previousName !== null) {
    return [
      [`device ${previousName}`, user],
      [`user ${previousName}`, user],
    ];
  }
  return [];
}

type Named = Pick<
  Content,
  "mark" | "emailName" | "userName" | "deviceName" | "previousName" | "accountName" | "sentTimeMs"
>;

function payloadOf(draft: Draft, named: Named): JsonObject {
  const { kind, isNamed = false, hasId = false, event = 0, plan } = draft;
  const { mark, emailName, userName, deviceName, previousName, accountName, sentTimeMs } = named;
  const name = isNamed ? { name: `Name ${mark}` } : {};
  const common = {
    type: kind,
    ...(userName === null ? {} : { userId: userName }),
    ...(deviceName === null ? {} : { anonymousId: deviceName }),
    ...(hasId ? { messageId: `id ${mark}` } : {}),
    ...(sentTimeMs === null ? {} : { timestamp: new Date(sentTimeMs).toISOString() }),
  };
  switch (kind) {
    case "track":
      return {
        ...common,
        event: EVENTS[event] ?? "A",
        ...(emailName === null ? {} : { email: emailName }),
        properties: { mark },
        context: { traits: name },
      };
    case "identify": {
      const email = emailName === null ? {} : { email: emailName };
      const company = accountName === null ? {} : { company: { id: accountName } };
      return { ...common, traits: { ...email, ...name, ...company }, properties: { mark } };
    }
    case "alias":
      return { ...common, previousId: previousName, properties: { mark } };
    case "group":
      return {
        ...common,
        groupId: accountName,
        properties: { mark },
        ...(plan === undefined ? {} : { traits: { plan } }),
      };
    case "account":
      return { id: accountName, ...(plan === undefined ? {} : { plan }) };
  }
}

function nameOf<Name extends string>(names: readonly Name[], number: number | undefined): Name | null {
  return number === undefined ? null : (names[number % names.length] ?? null);
}

/** The name that the person gets from the payload. */
export function traitOf({ kind, isNamed = false, mark }: Content): string | null {
  return isNamed && (kind === "identify" || kind === "track") ? `Name ${mark}` : null;
}

/** The same in the body of a sender that needs a template. */
export function misfitOf({ payload: { type: _type, ...fields } }: Content): string {
  return JSON.stringify(fields);
}
