/**
 * The consumer of the signal queue. For each workspace of a batch it processes and records the signals,
 * settles the outbox rows, and acknowledges the messages. Many workspaces share a batch; a failure of one delays only
 * its own messages. Every step may be repeated.
 */
import { loadTemplates, type WantedTemplate } from "../d1/key-templates.ts";
import { controlDatabase } from "../d1/database.ts";
import {
  type RecordingWorkspace,
  rulesOf,
  rulesOfAll,
  recordingTerms,
  type RecordingTerms,
} from "../d1/stored-rules.ts";
import { isBefore } from "../domain/duration.ts";
import { compileKeyTemplate, type CompiledKeyTemplate } from "../domain/template/key-template.ts";
import { configuredJurisdiction, requireJurisdiction, queueKind } from "../env.ts";
import { CALL_TIMEOUT_MS, RECORD_TIMEOUT_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import { retryDelaySeconds, within } from "../platform/time-limit.ts";
import type { RecordResult } from "../store/protocol/stored-signals.ts";
import type { SignalStore } from "../store/signal-store.ts";
import { readMessage, type ReceivedMessage, type ReceivedRow, type ReceivedSignal } from "../wire/message.ts";
import { givenUpSignal, processRows, rowsToRecord, templateKey, templateWantedBy } from "./process.ts";

/**
 * A failure that the consumer survives is a fault, so the message is acknowledged and the outbox sends its rows again.
 * Fewer than max_retries in wrangler.toml, after which the queue drops the message.
 */
export const MESSAGE_MAX_ATTEMPTS = 6;
/** Messages of a workspace per call of its store: up to 60 KB each, some 1,500 signals. */
const RECORD_MAX_MESSAGES = 10;

interface WorkspaceMessage {
  queued: Message<ArrayBuffer>;
  content: ReceivedMessage;
}

interface WorkspaceRows {
  workspaceId: string;
  rows: ReceivedRow[];
  /** All rows of the workspace with a lower number are settled. */
  lowestUnsettledRow: number;
  /** Whether an earlier attempt at one of the messages has failed. */
  isRepeated: boolean;
}

type Handle = (env: Env, received: WorkspaceRows) => Promise<RecordResult>;

export async function consume(batch: MessageBatch<ArrayBuffer>, env: Env): Promise<void> {
  const workspaces = byWorkspace(batch);
  const isGivenUp = queueKind(batch.queue) === "dead_letters";
  const handle = isGivenUp ? moveToDeadLetters : recordWith(readRules(env, [...workspaces.keys()]));
  await Promise.all(
    [...workspaces].map(async ([workspaceId, messages]) => {
      for (let from = 0; from < messages.length; from += RECORD_MAX_MESSAGES) {
        // oxlint-disable-next-line no-await-in-loop -- one after the other: the store takes them so
        await consumeMessages(env, handle, batch.queue, workspaceId, messages.slice(from, from + RECORD_MAX_MESSAGES));
      }
    }),
  );
}

/** Makes one call of the workspace's store. Never throws. */
async function consumeMessages(
  env: Env,
  handle: Handle,
  queue: string,
  workspaceId: string,
  messages: WorkspaceMessage[],
): Promise<void> {
  const startedMs = Date.now();
  const rows = messages.flatMap((message) => message.content.rows);
  const signals = rows.reduce((sum, row) => sum + row.signals.length, 0);
  const fields = { queue, workspace: workspaceId, messages: messages.length };
  try {
    const isRepeated = messages.some(({ queued }) => queued.attempts > 1);
    const lowestUnsettledRow = Math.max(...messages.map(({ content }) => content.lowestUnsettledRow));
    const result = await handle(env, { workspaceId, rows, lowestUnsettledRow, isRepeated });
    const { outcome } = result;
    if (outcome === "full") await leaveInOutbox(env, workspaceId);
    else if (outcome === "recorded") await settleRows(env, workspaceId, rows, result.misfitsFull);
    else if (outcome === "gone") await settleRows(env, workspaceId, rows);
    for (const { queued, content } of messages) {
      if (content.newer > 0 || outcome === "paused") retryLater(queued);
      else queued.ack();
    }
    logEvent("batch", { ...fields, signals, outcome, ms: Date.now() - startedMs });
  } catch (error) {
    for (const { queued } of messages) retryLater(queued);
    logEvent("batch_failed", { ...fields, error: errorText(error), ms: Date.now() - startedMs });
  }
}

async function settleRows(env: Env, workspaceId: string, rows: ReceivedRow[], misfitsFull = false): Promise<void> {
  const numbers = rows.map(({ row }) => row.row);
  await within(CALL_TIMEOUT_MS, env.QUOTA_COUNTER.getByName(workspaceId).settle(numbers, misfitsFull));
}

/** The outbox still has the rows, and the counter probes the store. */
async function leaveInOutbox(env: Env, workspaceId: string): Promise<void> {
  logEvent("store_full", { workspace: workspaceId });
  await within(CALL_TIMEOUT_MS, env.QUOTA_COUNTER.getByName(workspaceId).storeFull());
}

/** Finally leaves the message to the outbox, which still has its rows. */
function retryLater(queued: Message<ArrayBuffer>): void {
  if (queued.attempts >= MESSAGE_MAX_ATTEMPTS) queued.ack();
  else queued.retry({ delaySeconds: retryDelaySeconds(queued.attempts) });
}

/** A message that somebody else has sent is not of bytes. It must not fail the others of its batch. */
function read(body: ArrayBuffer): ReceivedMessage {
  try {
    return readMessage(body);
  } catch {
    return { workspaceId: "", lowestUnsettledRow: 0, rows: [], unreadable: 1, newer: 0 };
  }
}

function byWorkspace(batch: MessageBatch<ArrayBuffer>): Map<string, WorkspaceMessage[]> {
  const workspaces = new Map<string, WorkspaceMessage[]>();
  for (const queued of batch.messages) {
    const content = read(queued.body);
    const { workspaceId, unreadable, newer } = content;
    const fields = { queue: batch.queue, workspace: workspaceId };
    if (unreadable > 0) logEvent("rows_unreadable", { ...fields, rows: unreadable });
    if (newer > 0) logEvent("rows_newer", { ...fields, rows: newer });
    if (content.rows.length === 0) {
      // During a deployment, a consumer of the newer version may get the message. Unreadable rows are still in the
      // outbox.
      if (newer > 0) retryLater(queued);
      else queued.ack();
      continue;
    }
    const messages = workspaces.get(workspaceId);
    if (messages === undefined) workspaces.set(workspaceId, [{ queued, content }]);
    else messages.push({ queued, content });
  }
  return workspaces;
}

/** One query for all workspaces. If it fails, for example because one has too many rules, each reads its own. */
function readRules(env: Env, workspaceIds: string[]): (workspaceId: string) => Promise<RecordingWorkspace> {
  const together = within(CALL_TIMEOUT_MS, rulesOfAll(env.DB, workspaceIds)).catch((error: unknown) => {
    logEvent("rules_failed", { workspaces: workspaceIds.length, error: errorText(error) });
    return null;
  });
  return async (workspaceId) =>
    (await together)?.(workspaceId) ?? within(CALL_TIMEOUT_MS, rulesOf(env.DB, workspaceId));
}

/** @throws JurisdictionError if the objects are elsewhere; then the messages are retried. */
function requireJurisdictionOf(env: Env, terms: RecordingTerms | null): void {
  if (terms !== null) requireJurisdiction(configuredJurisdiction(env), terms.jurisdiction);
}

function recordWith(rulesFor: (workspaceId: string) => Promise<RecordingWorkspace>): Handle {
  // One signal may be why a repeated message fails; the store then records the others without it.
  return async (env, { workspaceId, rows, lowestUnsettledRow, isRepeated }) => {
    const signals = rows.flatMap((row) => row.signals);
    const [current, templates] = await Promise.all([
      rulesFor(workspaceId),
      within(CALL_TIMEOUT_MS, templatesOf(env.DB, workspaceId, signals)),
    ]);
    const { terms } = current;
    requireJurisdictionOf(env, terms);
    if (terms?.state === "ended") return { outcome: "gone" };
    const batch = await processRows(rows, { rules: current.rules, templates }, () => scheduler.wait(0));
    const store = env.SIGNAL_STORE.getByName(workspaceId);
    const result = await within<RecordResult>(
      RECORD_TIMEOUT_MS,
      store.record(batch, {
        rulesVersion: current.version,
        lowestUnsettledRow,
        isolateFailures: isRepeated,
        ...(terms === null ? {} : { retentionDays: terms.retentionDays }),
      }),
    );
    if (result.outcome === "recorded" && result.linksWait) await linkWaiting(store, workspaceId);
    return result;
  };
}

/** D1 may have been restored to a moment before a version, and have given the number again. */
const COMPILED_MS = 60_000;

/** Up to 100 mappings each, by workspace, key and version. */
const compiled = new Lru<string, { template: CompiledKeyTemplate; readAtMs: number }>(1_000);

/** Returns templates by `templateKey`. A key that ended long ago has none: its signals become dead letters. */
async function templatesOf(
  d1: D1Database,
  workspaceId: string,
  signals: readonly ReceivedSignal[],
): Promise<ReadonlyMap<string, CompiledKeyTemplate>> {
  const templates = new Map<string, CompiledKeyTemplate>();
  const unknown = new Map<string, WantedTemplate>();
  const nowMs = Date.now();
  for (const { admission } of signals) {
    const wanted = templateWantedBy(admission);
    const key = wanted === null ? null : templateKey(wanted);
    if (wanted === null || key === null || templates.has(key) || unknown.has(key)) continue;
    const known = compiled.get(`${workspaceId} ${key}`);
    if (known !== undefined && isBefore(known.readAtMs + COMPILED_MS, nowMs, COMPILED_MS))
      templates.set(key, known.template);
    else unknown.set(key, wanted);
  }
  if (unknown.size === 0) return templates;
  const db = controlDatabase(d1.withSession("first-primary"));
  for (const { endpointType, stored, ...wanted } of await loadTemplates(db, workspaceId, [...unknown.values()])) {
    const fresh = compileKeyTemplate(endpointType, stored);
    const key = templateKey(wanted);
    // The newest version may change.
    if (wanted.version !== null) compiled.set(`${workspaceId} ${key}`, { template: fresh, readAtMs: nowMs });
    templates.set(key, fresh);
  }
  return templates;
}

/** If linking fails, the store's alarm links. */
async function linkWaiting(store: DurableObjectStub<SignalStore>, workspaceId: string): Promise<void> {
  try {
    await within(RECORD_TIMEOUT_MS, store.link());
  } catch (error) {
    logEvent("link_failed", { workspace: workspaceId, error: errorText(error) });
  }
}

const GIVEN_UP = "Could not be processed in all attempts: each ended the processing of its batch before it was done.";

/**
 * Messages that killed the consumer repeatedly; other failures are acknowledged before. Their signals become dead
 * letters and are settled, which keeps the books balanced. If this fails too, the outbox sends the rows again.
 */
async function moveToDeadLetters(env: Env, { workspaceId, rows }: WorkspaceRows): Promise<RecordResult> {
  const db = controlDatabase(env.DB.withSession("first-primary"));
  const terms = await within(CALL_TIMEOUT_MS, recordingTerms(db, [workspaceId]));
  requireJurisdictionOf(env, terms.get(workspaceId) ?? null);
  if (terms.get(workspaceId)?.state === "ended") return { outcome: "gone" };
  const batch = rowsToRecord(rows, (signal) => givenUpSignal(signal, GIVEN_UP));
  // The store must isolate a signal that cannot be recorded.
  return within<RecordResult>(
    RECORD_TIMEOUT_MS,
    env.SIGNAL_STORE.getByName(workspaceId).record(batch, { isolateFailures: true }),
  );
}
