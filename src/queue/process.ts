/** One received signal, made ready for the store. A signal that cannot be processed becomes a dead letter, alone. */
import { createHash } from "node:crypto";
import { duplicateKey } from "../domain/canonical-form.ts";
import type { DuplicateKey } from "../domain/canonical-form.ts";
import { storedHash } from "../domain/content-hash.ts";
import type { CompiledRules } from "../domain/mapping-rule.ts";
import { isJsonObject } from "../domain/dot-path.ts";
import { normalise } from "../domain/normalise.ts";
import { mapAccount, templateRefusal } from "../domain/payload-template.ts";
import type { AccountRecord } from "../domain/payload-template.ts";
import type { JsonObject } from "../domain/signal.ts";
import type { Admission, SignalToRecord } from "../store/protocol.ts";
import { evaluateSignal } from "../store/rule-signals.ts";
import type { ReceivedSignal } from "./message.ts";
import type { Templates } from "./template-cache.ts";

/** What it takes to make sense of the signals of a batch. */
export interface Workings {
  rules: CompiledRules;
  templates: Templates;
}

export function processSignal(received: ReceivedSignal, workings: Workings): SignalToRecord {
  const admission = admissionOf(received);
  const { payload } = received;
  try {
    return { admission, payload, work: workFor(received, workings) };
  } catch (error) {
    return { admission, payload, work: { kind: "dead", reason: `Could not be processed: ${String(error)}` } };
  }
}

/** What a message carries, given up as a whole. */
export function buriedSignal(received: ReceivedSignal, reason: string): SignalToRecord {
  return { admission: admissionOf(received), payload: received.payload, work: { kind: "dead", reason } };
}

function workFor(received: ReceivedSignal, { rules, templates }: Workings): SignalToRecord["work"] {
  const { envelope, endpoint, payload: text, row } = received;
  if (endpoint === "product_org") return { kind: "account", account: accountOf(received, templates) };
  const payload = JSON.parse(text) as JsonObject;
  const normalised = normalise(payload, envelope.source);
  // Each key counts its own: two senders of one workspace may number their requests alike.
  const idempotencyKey = envelope.idem === undefined ? undefined : `${envelope.key} ${envelope.idem}`;
  const duplicate = duplicateKey({ payload, text, normalised, pathSource: envelope.source, idempotencyKey });
  const { properties: _, ...kept } = normalised;
  return {
    kind: normalised.kind,
    normalised: kept,
    contentHash: duplicate === null ? null : hashOf(duplicate, row.at),
    duplicateWindowMs: duplicate?.windowMs ?? 0,
    evaluation: normalised.kind === "signal" ? evaluateSignal(rules, normalised) : { rulesTried: 0, matches: [] },
  };
}

function hashOf({ text, windowMs, contentMs }: DuplicateKey, receivedAtMs: number): string {
  const hash = createHash("sha256").update(text).digest("base64url");
  return storedHash(hash, { windowMs, receivedAtMs, contentMs });
}

/** Mapped at the edge already, where it was checked; what was queued is the payload as it was sent. */
function accountOf({ envelope, payload: text }: ReceivedSignal, templates: Templates): AccountRecord {
  const template = templates.get(envelope.key);
  if (template === undefined) throw new Error(`there is no payload template of key ${envelope.key}`);
  const payload: unknown = JSON.parse(text);
  if (!isJsonObject(payload)) throw new Error("an account update is a JSON object");
  const mapped = mapAccount(template, payload);
  if (!mapped.ok) throw new Error(templateRefusal(mapped.refusal).detail);
  return mapped.value;
}

function admissionOf({ envelope, row, verdict, ordinal, endpoint }: ReceivedSignal): Admission {
  return {
    id: envelope.id,
    keyId: envelope.key,
    endpoint,
    verdict,
    ordinal,
    signalLimit: row.limit,
    receivedAtMs: row.at,
    periodStartMs: row.period_start,
    periodEndMs: row.period_end,
    ...(envelope.source === undefined ? {} : { pathSource: envelope.source }),
    ...(envelope.idem === undefined ? {} : { idempotencyKey: envelope.idem }),
  };
}
