/**
 * The queue's consumer (design §8): per workspace of a batch, process the signals, record them in one call, settle the
 * outbox rows, then acknowledge. A failure of one workspace delays its own messages only; every step may be repeated.
 */
import { rulesOf } from "../control/rules-cache.ts";
import { errorText, logEvent } from "../http/log.ts";
import { MESSAGE_MAX_ATTEMPTS } from "../limits.ts";
import type { RecordResult } from "../store/protocol.ts";
import type { SignalStore } from "../store/signal-store.ts";
import { retryDelaySeconds } from "./back-off.ts";
import { bury } from "./dead-letters.ts";
import { readMessage } from "./message.ts";
import type { ReceivedMessage, ReceivedRow } from "./message.ts";
import { processSignal, rowsToRecord } from "./process.ts";
import { templatesOf } from "./template-cache.ts";

/** Of the two queues, the one that holds what was given up; wrangler.toml names it. */
const DEAD_LETTER_QUEUE = /-dlq$/;

interface WorkspaceMessage {
  queued: Message<string>;
  content: ReceivedMessage;
}

export async function consume(batch: MessageBatch<string>, env: Env): Promise<void> {
  const handle = DEAD_LETTER_QUEUE.test(batch.queue) ? bury : recordSignals;
  await Promise.all(
    [...byWorkspace(batch)].map(async ([workspaceId, messages]) => {
      const startedMs = Date.now();
      const rows = messages.flatMap((message) => message.content.rows);
      const signals = rows.reduce((sum, row) => sum + row.signals.length, 0);
      const fields = { queue: batch.queue, workspace: workspaceId, messages: messages.length };
      try {
        const again = messages.some(({ queued }) => queued.attempts > 1);
        const result = await handle(env, workspaceId, rows, again);
        if (result.outcome === "full") await leaveInOutbox(env, workspaceId);
        else await settle(env, workspaceId, rows, result.refused);
        for (const { queued } of messages) queued.ack();
        logEvent("batch", { ...fields, signals, outcome: result.outcome, ms: Date.now() - startedMs });
      } catch (error) {
        for (const { queued } of messages) letWait(queued);
        logEvent("batch_failed", { ...fields, error: errorText(error), ms: Date.now() - startedMs });
      }
    }),
  );
}

/** Rows that the store has refused stay in the outbox. */
async function settle(env: Env, workspaceId: string, rows: ReceivedRow[], refused: number[]): Promise<void> {
  if (refused.length > 0) logEvent("rows_refused", { workspace: workspaceId, rows: refused.length });
  const isRefused = new Set(refused);
  const recorded = rows.map(({ row }) => row.row).filter((row) => !isRefused.has(row));
  await env.QUOTA_COUNTER.getByName(workspaceId).settle(recorded);
}

/** The store is full: what the messages were made of is still in the outbox, and the counter finds out when to send it. */
async function leaveInOutbox(env: Env, workspaceId: string): Promise<void> {
  logEvent("store_full", { workspace: workspaceId });
  await env.QUOTA_COUNTER.getByName(workspaceId).storeFull();
}

/** A fault delays: the message comes again, later and later, and in the end from the outbox, where its rows still are. */
function letWait(queued: Message<string>): void {
  if (queued.attempts >= MESSAGE_MAX_ATTEMPTS) queued.ack();
  else queued.retry({ delaySeconds: retryDelaySeconds(queued.attempts) });
}

function byWorkspace(batch: MessageBatch<string>): Map<string, WorkspaceMessage[]> {
  const workspaces = new Map<string, WorkspaceMessage[]>();
  for (const queued of batch.messages) {
    const content = readMessage(queued.body);
    const { workspaceId, unreadable } = content;
    if (unreadable > 0) logEvent("rows_unreadable", { queue: batch.queue, workspace: workspaceId, rows: unreadable });
    if (content.rows.length === 0) {
      // Nothing to do with it: what it was made of is still in the outbox.
      queued.ack();
      continue;
    }
    const messages = workspaces.get(workspaceId);
    if (messages === undefined) workspaces.set(workspaceId, [{ queued, content }]);
    else messages.push({ queued, content });
  }
  return workspaces;
}

/** @param again it has failed before, maybe because of one of the signals: then the store is to leave that one out. */
async function recordSignals(
  env: Env,
  workspaceId: string,
  rows: ReceivedRow[],
  again: boolean,
): Promise<RecordResult> {
  const signals = rows.flatMap((row) => row.signals);
  const accountKeys = signals.filter((signal) => signal.endpoint === "product_org").map(({ envelope }) => envelope.key);
  const [current, templates] = await Promise.all([
    rulesOf(env.DB, workspaceId),
    templatesOf(env.DB, workspaceId, accountKeys),
  ]);
  const batch = rowsToRecord(rows, (signal) => processSignal(signal, { rules: current.rules, templates }));
  const store = env.SIGNAL_STORE.getByName(workspaceId);
  const result = await store.record(batch, current.version, again);
  if (result.outcome === "recorded" && result.linksWait) await link(store, workspaceId);
  return result;
}

/** Only so that it is done at once: the store has noted what is to be linked, and its alarm sees to it. */
async function link(store: DurableObjectStub<SignalStore>, workspaceId: string): Promise<void> {
  try {
    await store.link();
  } catch (error) {
    logEvent("link_failed", { workspace: workspaceId, error: errorText(error) });
  }
}
