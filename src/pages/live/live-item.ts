/** A line of the live page, as the server and the page's script make it from a signal or a refused call. */
import type { Rejection } from "../../domain/keys/rejection.ts";
import type { LiveSignal, SignalStatus } from "../../store/protocol/recorded-signals.ts";
import { REFUSALS } from "../../http/refusal-table.ts";
import { keyLabel } from "../views/key-label.ts";
import { CAUSE_COPY } from "../../workspace/refusal-copy.ts";

export type LiveStatus = SignalStatus | "rejected";

export interface LiveItem {
  /** Identifies the line: what comes twice has the same key both times. */
  key: string;
  atMs: number;
  status: LiveStatus;
  /** A signal's event, else its kind; a refused call's reason. */
  what: string;
  email: string;
  /** The signal's source, or the key of a refused call. */
  from: string;
  reason: string;
  /** Id of the signal to follow; null for a refused call, which left none. */
  signalId: string | null;
}

export interface LiveFilter {
  status: string;
  /** Text to be found anywhere in the line; letter case does not matter. */
  text: string;
}

const WHY = {
  processed: ({ points }) => (points === 0 ? "" : `${points > 0 ? "+" : ""}${points} points`),
  held: () => "Beyond the signal limit",
  anonymous: () => "Its visitor is not known yet",
  duplicate: ({ duplicateOf }) => `The same as ${duplicateOf ?? "one before"}`,
  purged: () => "Its billing period had ended",
  dead: ({ deadReason }) => deadReason ?? "",
} as const satisfies Record<SignalStatus, (signal: LiveSignal) => string>;

const KIND = {
  signal: "(no event)",
  identify: "Identify",
  account: "Account update",
  unknown: "(could not be read)",
} as const satisfies Record<LiveSignal["kind"], string>;

export function signalItem(signal: LiveSignal): LiveItem {
  const { id, receivedAtMs, status, kind, event, source, email } = signal;
  return {
    key: `${id} ${status}`,
    atMs: receivedAtMs,
    status,
    what: event ?? KIND[kind],
    email: email ?? "",
    from: source ?? "",
    reason: WHY[status](signal),
    signalId: id,
  };
}

export function rejectionItem(rejection: Rejection, keyNames: Readonly<Record<string, string>>): LiveItem {
  const { lastAtMs, keyId, code, cause, detail, requestId, calls, signals } = rejection;
  const many = calls > 1 ? `${calls} calls. ` : signals > 1 ? `${signals} signals. ` : "";
  return {
    key: `${requestId} ${code}`,
    atMs: lastAtMs,
    status: "rejected",
    what: REFUSALS[code].label,
    email: "",
    from: keyNames[keyId] ?? keyLabel(keyId),
    reason: many + (cause === null ? detail : CAUSE_COPY[cause]),
    signalId: null,
  };
}

export function isShown(item: LiveItem, { status, text }: LiveFilter): boolean {
  if (status !== "" && item.status !== status) return false;
  const within = `${item.what}\n${item.email}\n${item.from}\n${item.reason}`.toLowerCase();
  return within.includes(text.trim().toLowerCase());
}
