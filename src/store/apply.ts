/** What a signal does to people (spec §6, design §8.3): identities, traits, scores; and an account update to its account. */
import type { Accounts } from "./accounts/accounts.ts";
import type { People, Receipt } from "./people.ts";
import type { SignalToRecord } from "./protocol.ts";
import type { SignalRow } from "./tables.ts";

/** A signal that the consumer could make sense of. */
export type WorkedSignal = SignalToRecord & { work: { kind: "signal" | "identify" } };

export function isWorked(signal: SignalToRecord): signal is WorkedSignal {
  return signal.work.kind === "signal" || signal.work.kind === "identify";
}

export function receiptOf({ admission }: SignalToRecord): Receipt {
  return { receivedAtMs: admission.receivedAtMs, ordinal: admission.ordinal };
}

/** Spec §6, identify: without an email no person and no link. */
export function applyIdentify(row: SignalRow, people: People): void {
  const { signal } = row;
  if (row.status !== "processed" || !isWorked(signal) || signal.work.kind !== "identify") return;
  const { normalised } = signal.work;
  if (normalised.email === undefined) return;
  const receipt = receiptOf(signal);
  row.owner = people.ownerOf(normalised, receipt.receivedAtMs);
  if (row.owner === null) return;
  const { personId } = row.owner;
  people.link(normalised, personId, receipt.receivedAtMs);
  people.enrich(personId, normalised.traits, receipt);
  people.seen(personId, receipt.receivedAtMs);
}

/** Gives a processed signal to its person with what it scored; one whose visitor is unknown waits as anonymous. */
export function applySignal(row: SignalRow, people: People): void {
  const { signal } = row;
  if (row.status !== "processed" || !isWorked(signal) || signal.work.kind !== "signal") return;
  const { normalised, evaluation } = signal.work;
  const named = normalised.email ?? normalised.userId ?? normalised.anonymousId;
  if (named === undefined) return;
  const receipt = receiptOf(signal);
  row.owner = evaluation === null ? null : people.ownerOf(normalised, receipt.receivedAtMs);
  if (row.owner === null) {
    row.status = "anonymous";
    return;
  }
  const { personId } = row.owner;
  people.enrich(personId, normalised.traits, receipt);
  people.seen(personId, receipt.receivedAtMs);
  people.score(signal.admission.id, personId, evaluation?.matches ?? [], receipt.receivedAtMs);
}

/** Design §8.7. A held update takes no effect; one that its account has no room for becomes a dead letter, alone. */
export function applyAccount(row: SignalRow, accounts: Accounts): void {
  const { signal, status } = row;
  const { admission, work } = signal;
  if (status !== "processed" || work.kind !== "account") return;
  const reason = accounts.update(work.account, { ...receiptOf(signal), signalId: admission.id });
  if (reason === null) return;
  row.signal = { ...signal, work: { kind: "dead", reason } };
  row.kind = "unknown";
  row.status = "dead";
}
