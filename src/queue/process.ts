/** Processes signals for the store. One that cannot be processed becomes a dead letter and does not affect others. */
import {
  duplicateKey,
  idempotencyDuplicateKey,
  mappedDuplicateKey,
  type DuplicateKey,
} from "../domain/signal/canonical-form.ts";
import type { CompiledRules } from "../domain/rules/mapping-rule.ts";
import { topicOf } from "../domain/signal/topic.ts";
import { normalise, problemsOf, type Problems } from "../domain/signal/normalise.ts";
import { occurredAt, timeProblemOf, type Occurred } from "../domain/signal/occurred-at.ts";
import {
  recordOfGroup,
  mapAccount,
  templateRejection,
  traitsProblemOf,
  type AccountRecord,
  type CompiledTemplate,
} from "../domain/accounts/payload-template.ts";
import { type JsonObject, isJsonObject, readPayload } from "../domain/json/json-value.ts";
import { KEY_TEMPLATE_VERSIONS, TEMPLATE_KEPT_DAYS } from "../limits.ts";
import { hashAtOnce } from "../platform/hashes.ts";
import type { Deduplication, RowToRecord, SignalToRecord } from "../store/protocol/stored-signals.ts";
import { TOO_MANY_STEPS, evaluate, type StepCount } from "../domain/rules/evaluate-rules.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import type { NormalisedSignal } from "../domain/signal/signal.ts";
import { applyTemplate, mapSignal } from "../domain/template/apply.ts";
import type { Surroundings } from "../domain/template/surroundings.ts";
import { counted } from "../domain/text.ts";
import type { WantedTemplate } from "../d1/key-templates.ts";
import type { CompiledKeyTemplate } from "../domain/template/key-template.ts";
import type { Admission, ReceivedRow, ReceivedSignal } from "../wire/message.ts";

interface ProcessingInput {
  rules: CompiledRules;
  /** By `templateKey`. */
  templates: ReadonlyMap<string, CompiledKeyTemplate>;
  /** Gets the steps of the rules added. */
  count?: StepCount;
}

const NO_TEMPLATE = `The payload template of its API key is no longer stored. A key keeps its ${KEY_TEMPLATE_VERSIONS} newest versions, until ${TEMPLATE_KEPT_DAYS} days after its end.`;

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

export function processSignal(sent: ReceivedSignal, input: ProcessingInput): SignalToRecord {
  const received = withVersionOfReplay(sent, input.templates);
  const { admission, payload } = received;
  try {
    if (admission.endpoint === "product_org") {
      return { admission, payload, work: accountWork(received, input.templates) };
    }
    const resent = itemOfReplay(received, input.templates);
    if (!resent.ok) return { admission, payload, work: { kind: "dead", ...resent.rejection } };
    return { ...resent.value, ...processedSignal(resent.value, input) };
  } catch (error) {
    return { admission, payload, work: { kind: "dead", reason: `Could not be processed: ${String(error)}` } };
  }
}

/** A signal that is held again after its replay is read with the same version at its release. */
function withVersionOfReplay(received: ReceivedSignal, templates: ProcessingInput["templates"]): ReceivedSignal {
  const { admission, payload } = received;
  if (admission.resent?.from !== "dead") return received;
  const template = templateOf(received, templates);
  return template === null ? received : { payload, admission: { ...admission, templateVersion: template.version } };
}

interface DeadReason {
  reason: string;
  isMisfit?: true;
}

/**
 * A misfit is the whole body if its template found no list in it. A newer template may find one: of a single signal, because a replay
 * counts nothing. Other signals return as they are.
 */
function itemOfReplay(
  received: ReceivedSignal,
  templates: ProcessingInput["templates"],
): Result<ReceivedSignal, DeadReason> {
  const { admission } = received;
  const template = templateOf(received, templates)?.signals ?? null;
  if (admission.resent?.from !== "dead" || template === null || template.items === null) return ok(received);
  const { headers, body } = JSON.parse(admission.around ?? "{}") as Surroundings;
  if (body !== undefined) return ok(received);
  const { pathSource: source, receivedAtMs } = admission;
  const applied = applyTemplate(template, readPayload(received.payload), { source, headers, receivedAtMs });
  if (!applied.ok) return reject({ reason: applied.rejection.detail, isMisfit: true });
  const { isList, items } = applied.value;
  if (!isList) return ok(received);
  const [item] = items;
  if (item === undefined || items.length > 1) {
    const reason = `The template finds ${counted(items.length, "signal")} in the body, and a replay makes one. Send the body again.`;
    return reject({ reason, isMisfit: true });
  }
  const around = item.around === undefined ? {} : { around: JSON.stringify(item.around) };
  return ok({ admission: { ...admission, ...around }, payload: JSON.stringify(item.payload) });
}

export function givenUpSignal({ admission, payload }: ReceivedSignal, reason: string): SignalToRecord {
  return { admission, payload, work: { kind: "dead", reason } };
}

function processedSignal(
  received: ReceivedSignal,
  { rules, templates, count }: ProcessingInput,
): Pick<SignalToRecord, "work" | "problems"> {
  const payload = readPayload(received.payload) as JsonObject;
  const read = readSignal(received, payload, templates);
  if (!read.ok) return { work: { kind: "dead", ...read.rejection } };
  const { normalised, occurred, problems: found, duplicate, mapped } = read.value;
  const { properties, groupTraits, ...kept } = normalised;
  const group = groupOf(normalised.traits.account, groupTraits);
  const problems = found === undefined ? {} : { problems: found };
  const topic = topicOf(normalised);
  const extracted = { ...mapped, ...(topic !== undefined && { topic }), ...group };
  const work = { kind: normalised.kind, normalised: kept, ...extracted, occurred, ...withHash(duplicate) };
  if (normalised.kind === "identify")
    return { work: { ...work, evaluation: { rulesTried: 0, matches: [] } }, ...problems };
  const { event, source, email } = normalised;
  const evaluated = { event, source, properties, payload, ...(email !== undefined && { email }) };
  const evaluation = evaluate(rules, evaluated, undefined, count);
  if (evaluation === null) return { work: { kind: "dead", reason: TOO_MANY_STEPS }, ...problems };
  // Rules that ask for the email wait until the person is known.
  const isWaiting = rules.asksForEmail && email === undefined;
  return { work: { ...work, evaluation: isWaiting ? null : evaluation }, ...problems };
}

interface ReadSignal {
  normalised: NormalisedSignal;
  occurred: Occurred;
  problems: Problems | undefined;
  duplicate: DuplicateKey | null;
  mapped: { mapped?: true; hasMappedId?: true };
}

/** Reads a signal as its template does; calls of CDPs, and signals of keys without one, as the specification does. Rejection: why it becomes a dead letter. */
function readSignal(
  received: ReceivedSignal,
  payload: JsonObject,
  templates: ProcessingInput["templates"],
): Result<ReadSignal, DeadReason> {
  const { admission } = received;
  const { pathSource, receivedAtMs } = admission;
  const idempotencyKey = idempotencyKeyOf(received);
  const template = templateOf(received, templates);
  if (template === null && admission.templateVersion !== undefined) return reject({ reason: NO_TEMPLATE });
  if (template !== null && template.signals !== null) {
    const around = admission.around === undefined ? undefined : (JSON.parse(admission.around) as Surroundings);
    const outcome = mapSignal(template.signals, payload, around, { source: pathSource, receivedAtMs });
    if (outcome.kind === "misfit") return reject({ reason: outcome.misfit.detail, isMisfit: true });
    if (outcome.kind === "rejected") return reject({ reason: outcome.rejection.detail });
    if (outcome.kind === "mapped") {
      const { normalised, occurred, problems, id } = outcome.signal;
      const { event, source } = normalised;
      if (id === undefined || idempotencyKey !== undefined) {
        const duplicate = duplicateKey({ payload, normalised, pathSource, idempotencyKey });
        return ok({ normalised, occurred, problems, duplicate, mapped: { mapped: true } });
      }
      const duplicate = mappedDuplicateKey({ keyId: template.firstKeyId, source, event, id });
      return ok({ normalised, occurred, problems, duplicate, mapped: { mapped: true, hasMappedId: true } });
    }
  }
  const normalised = normalise(payload, pathSource);
  const { groupTraits } = normalised;
  const problems = problemsOf(payload, {
    traits: groupTraits === undefined ? null : traitsProblemOf(groupTraits),
    time: timeProblemOf(payload, receivedAtMs),
  });
  const duplicate = duplicateKey({ payload, normalised, pathSource, idempotencyKey });
  return ok({ normalised, occurred: occurredAt(payload, receivedAtMs), problems, duplicate, mapped: {} });
}

export function groupOf(accountId: string | undefined, traits: JsonObject | undefined): { group?: AccountRecord } {
  return accountId === undefined || traits === undefined ? {} : { group: recordOfGroup(accountId, traits) };
}

/** The template that a signal needs; null: none. A replay takes the newest version of its key. */
export function templateWantedBy({ keyId, templateVersion, resent }: Admission): WantedTemplate | null {
  if (resent?.from === "dead") return { keyId, version: null };
  return templateVersion === undefined ? null : { keyId, version: templateVersion };
}

export function templateKey({ keyId, version }: WantedTemplate): string {
  return `${keyId} ${version ?? "newest"}`;
}

function templateOf(
  { admission }: ReceivedSignal,
  templates: ProcessingInput["templates"],
): CompiledKeyTemplate | null {
  const wanted = templateWantedBy(admission);
  return wanted === null ? null : (templates.get(templateKey(wanted)) ?? null);
}

/** The newest content wins even if it is a repetition, except with the same Idempotency-Key (design §8.2). */
function accountWork(received: ReceivedSignal, templates: ProcessingInput["templates"]): SignalToRecord["work"] {
  const template = templateOf(received, templates)?.accounts ?? null;
  if (template === null) return { kind: "dead", reason: NO_TEMPLATE };
  const key = idempotencyKeyOf(received);
  const duplicate = key === undefined ? null : idempotencyDuplicateKey(key);
  return { kind: "account", account: accountOf(received, template), ...withHash(duplicate) };
}

/** Scoped to the API key, because two senders may use the same numbers. */
function idempotencyKeyOf({ admission: { keyId, idempotencyKey } }: ReceivedSignal): string | undefined {
  return idempotencyKey === undefined ? undefined : `${keyId} ${idempotencyKey}`;
}

function withHash(duplicate: DuplicateKey | null): Deduplication {
  if (duplicate === null) return { contentHash: null, duplicateWindowMs: 0 };
  const contentHash = hashAtOnce(duplicate.text).digest("base64url");
  return { contentHash, duplicateWindowMs: duplicate.windowMs };
}

/** Maps again: the edge has checked that it maps, and queued the payload as sent. */
function accountOf({ payload: text }: ReceivedSignal, template: CompiledTemplate): AccountRecord {
  const payload: unknown = JSON.parse(text);
  if (!isJsonObject(payload)) throw new Error("an account update is a JSON object");
  const mapped = mapAccount(template, payload);
  if (!mapped.ok) throw new Error(templateRejection(mapped.rejection).detail);
  return mapped.value;
}
