/** Processes signals for the store. One that cannot be processed becomes a dead letter and does not affect others. */
import { duplicateKey, idempotencyDuplicateKey, type DuplicateKey } from "../domain/signal/canonical-form.ts";
import type { CompiledRules } from "../domain/rules/mapping-rule.ts";
import { isJsonObject } from "../domain/json/dot-path.ts";
import { normalise } from "../domain/signal/normalise.ts";
import { occurredAt } from "../domain/signal/occurred-at.ts";
import {
  recordOfGroup,
  mapAccount,
  templateRefusal,
  type AccountRecord,
  type CompiledTemplate,
} from "../domain/accounts/payload-template.ts";
import type { JsonObject } from "../domain/json/json-value.ts";
import { RULES_MAX_STEPS, TEMPLATE_KEPT_DAYS } from "../limits.ts";
import { hashAtOnce } from "../platform/hashes.ts";
import type { Deduplication, RowToRecord, SignalToRecord } from "../store/protocol/stored-signals.ts";
import { evaluate, type StepCount } from "../domain/rules/evaluate-rules.ts";
import type { ReceivedRow, ReceivedSignal } from "../wire/message.ts";

interface ProcessingInput {
  rules: CompiledRules;
  templates: ReadonlyMap<string, CompiledTemplate>;
  /** Gets the steps of the rules added. */
  count?: StepCount;
}

/** The rules of one signal never block the next (design §8.5). */
const TOO_MANY_STEPS = `The mapping rules take more than ${RULES_MAX_STEPS} steps for it: too many of them look at all elements of a large array, or through long texts.`;

const NO_TEMPLATE = `The payload template of its API key is no longer stored. It is deleted ${TEMPLATE_KEPT_DAYS} days after the key has ended.`;

export function rowsToRecord(
  rows: ReceivedRow[],
  process: (received: ReceivedSignal) => SignalToRecord,
): RowToRecord[] {
  return rows.map(({ row, signals }) => ({ row: row.row, signals: signals.map(process) }));
}

/** Steps of the rules after which other calls of the isolate run: 5 to 50 ms. */
const STEPS_A_TURN = 500_000;

/** As `rowsToRecord`. The slowest rules on the smallest signals would keep other workspaces waiting for seconds. */
export async function processRows(
  rows: ReceivedRow[],
  input: Omit<ProcessingInput, "count">,
  letOthersRun: () => Promise<void>,
): Promise<RowToRecord[]> {
  const count = { steps: 0 };
  const processed: RowToRecord[] = [];
  for (const { row, signals } of rows) {
    const toRecord: SignalToRecord[] = [];
    for (const signal of signals) {
      toRecord.push(processSignal(signal, { ...input, count }));
      if (count.steps < STEPS_A_TURN) continue;
      count.steps = 0;
      // oxlint-disable-next-line no-await-in-loop
      await letOthersRun();
    }
    processed.push({ row: row.row, signals: toRecord });
  }
  return processed;
}

export function processSignal(received: ReceivedSignal, input: ProcessingInput): SignalToRecord {
  const { admission, payload } = received;
  try {
    const isAccountUpdate = admission.endpoint === "product_org";
    const work = isAccountUpdate ? accountWork(received, input.templates) : signalWork(received, input);
    return { admission, payload, work };
  } catch (error) {
    return { admission, payload, work: { kind: "dead", reason: `Could not be processed: ${String(error)}` } };
  }
}

export function givenUpSignal({ admission, payload }: ReceivedSignal, reason: string): SignalToRecord {
  return { admission, payload, work: { kind: "dead", reason } };
}

function signalWork(received: ReceivedSignal, { rules, count }: ProcessingInput): SignalToRecord["work"] {
  const { admission, payload: text } = received;
  const { pathSource } = admission;
  const payload = JSON.parse(text) as JsonObject;
  const normalised = normalise(payload, pathSource);
  const idempotencyKey = idempotencyKeyOf(received);
  const duplicate = duplicateKey({ payload, text, normalised, pathSource, idempotencyKey });
  const { properties: _, groupTraits, ...kept } = normalised;
  const occurred = occurredAt(payload, admission.receivedAtMs);
  const group = groupOf(normalised.traits.account, groupTraits);
  const work = { kind: normalised.kind, normalised: kept, ...group, occurred, ...hashed(duplicate) };
  if (normalised.kind === "identify") return { ...work, evaluation: { rulesTried: 0, matches: [] } };
  const evaluation = evaluate(rules, normalised, undefined, count);
  if (evaluation === null) return { kind: "dead", reason: TOO_MANY_STEPS };
  // Rules that ask for the email wait until the person is known.
  return { ...work, evaluation: rules.asksForEmail && normalised.email === undefined ? null : evaluation };
}

export function groupOf(accountId: string | undefined, traits: JsonObject | undefined): { group?: AccountRecord } {
  return accountId === undefined || traits === undefined ? {} : { group: recordOfGroup(accountId, traits) };
}

/** The newest content wins even if it is a repetition, except with the same Idempotency-Key (design §8.2). */
function accountWork(
  received: ReceivedSignal,
  templates: ReadonlyMap<string, CompiledTemplate>,
): SignalToRecord["work"] {
  const template = templates.get(received.admission.keyId);
  if (template === undefined) return { kind: "dead", reason: NO_TEMPLATE };
  const key = idempotencyKeyOf(received);
  const duplicate = key === undefined ? null : idempotencyDuplicateKey(key);
  return { kind: "account", account: accountOf(received, template), ...hashed(duplicate) };
}

/** Scoped to the API key, because two senders may use the same numbers. */
function idempotencyKeyOf({ admission: { keyId, idempotencyKey } }: ReceivedSignal): string | undefined {
  return idempotencyKey === undefined ? undefined : `${keyId} ${idempotencyKey}`;
}

function hashed(duplicate: DuplicateKey | null): Deduplication {
  if (duplicate === null) return { contentHash: null, duplicateWindowMs: 0 };
  const contentHash = hashAtOnce(duplicate.text).digest("base64url");
  return { contentHash, duplicateWindowMs: duplicate.windowMs };
}

/** Maps again: the edge has checked that it maps, and queued the payload as sent. */
function accountOf({ payload: text }: ReceivedSignal, template: CompiledTemplate): AccountRecord {
  const payload: unknown = JSON.parse(text);
  if (!isJsonObject(payload)) throw new Error("an account update is a JSON object");
  const mapped = mapAccount(template, payload);
  if (!mapped.ok) throw new Error(templateRefusal(mapped.refusal).detail);
  return mapped.value;
}
