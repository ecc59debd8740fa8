/**
 * The queue's consumer (design §8): per workspace of a batch, process the signals, record them, settle the outbox rows, then
 * acknowledge. A batch holds messages of many workspaces, so that a trickle of each does not cost an invocation of its own;
 * a failure of one delays its own messages only. Every step may be repeated.
 */
import { controlDatabase } from "../control/database.ts";
import { type RecordingWorkspace, rulesOf, rulesOfAll } from "../control/rules-cache.ts";
import { recordingTerms } from "../control/workspaces.ts";
import { CALL_TIMEOUT_MS, RECORD_TIMEOUT_MS } from "../limits.ts";
import { retryDelaySeconds } from "../platform/back-off.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { RecordResult } from "../store/protocol/signals-to-record.ts";
import type { SignalStore } from "../store/signal-store.ts";
import { readMessage, type ReceivedMessage, type ReceivedRow } from "../wire/message.ts";
import { buriedSignal, processSignal, rowsToRecord } from "./process.ts";
import { carriedBy } from "./queue-names.ts";
import { templatesOf } from "./template-cache.ts";

/**
 * Attempts at a message before it is let go: what fails in a way that the consumer lives to see is a fault, not a bad
 * signal, and the outbox sends it again. Fewer than max_retries in wrangler.toml, after which the queue gives up itself.
 */
export const MESSAGE_MAX_ATTEMPTS = 6;
/** Messages of one workspace that are recorded in one call: of up to 60 KB, some 1,500 signals. */
const RECORD_MAX_MESSAGES = 10;

interface WorkspaceMessage {
  queued: Message<string>;
  content: ReceivedMessage;
}

/** Rows of a workspace's messages. */
interface WorkspaceRows {
  workspaceId: string;
  rows: ReceivedRow[];
  /** All rows of the workspace with a lower number are settled. */
  low: number;
  /** Whether some of them have come before, and have failed then. */
  again: boolean;
}

/** While a restore changes the workspace's objects nothing is recorded: the messages wait. */
const RESTORING = { outcome: "restoring" } as const;

/** Records rows, or buries them. */
type Handle = (env: Env, received: WorkspaceRows) => Promise<RecordResult | typeof RESTORING>;

export async function consume(batch: MessageBatch<string>, env: Env): Promise<void> {
  const workspaces = byWorkspace(batch);
  const isGivenUp = carriedBy(batch.queue) === "dead_letters";
  const handle = isGivenUp ? buryUnlessRestoring : recordWith(readRules(env, [...workspaces.keys()]));
  await Promise.all(
    [...workspaces].map(async ([workspaceId, messages]) => {
      for (let from = 0; from < messages.length; from += RECORD_MAX_MESSAGES) {
        // oxlint-disable-next-line no-await-in-loop -- one after the other: the store takes them so
        await consumeSome(env, handle, batch.queue, workspaceId, messages.slice(from, from + RECORD_MAX_MESSAGES));
      }
    }),
  );
}

/** Consumes messages of one workspace, in one call of its store. Never throws. */
async function consumeSome(
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
    const again = messages.some(({ queued }) => queued.attempts > 1);
    const low = Math.max(...messages.map(({ content }) => content.low));
    const result = await handle(env, { workspaceId, rows, low, again });
    if (result.outcome === "full") await leaveInOutbox(env, workspaceId);
    else if (result.outcome === "recorded") await settleRows(env, workspaceId, rows);
    for (const { queued, content } of messages) {
      if (content.newer > 0 || result.outcome === "restoring") letWait(queued);
      else queued.ack();
    }
    logEvent("batch", { ...fields, signals, outcome: result.outcome, ms: Date.now() - startedMs });
  } catch (error) {
    for (const { queued } of messages) letWait(queued);
    logEvent("batch_failed", { ...fields, error: errorText(error), ms: Date.now() - startedMs });
  }
}

/** Settles the rows that the store has recorded. */
async function settleRows(env: Env, workspaceId: string, rows: ReceivedRow[]): Promise<void> {
  const numbers = rows.map(({ row }) => row.row);
  await within(CALL_TIMEOUT_MS, env.QUOTA_COUNTER.getByName(workspaceId).settle(numbers));
}

/** The store is full: what the messages were made of is still in the outbox, and the counter finds out when to send it. */
async function leaveInOutbox(env: Env, workspaceId: string): Promise<void> {
  logEvent("store_full", { workspace: workspaceId });
  await within(CALL_TIMEOUT_MS, env.QUOTA_COUNTER.getByName(workspaceId).storeFull());
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
    const { workspaceId, unreadable, newer } = content;
    const fields = { queue: batch.queue, workspace: workspaceId };
    if (unreadable > 0) logEvent("rows_unreadable", { ...fields, rows: unreadable });
    if (newer > 0) logEvent("rows_newer", { ...fields, rows: newer });
    if (content.rows.length === 0) {
      // A message that cannot be read is let go: what it was made of is still in the outbox. One of a version yet to come
      // waits for a consumer of that version: both run while the one takes the other's place.
      if (newer > 0) letWait(queued);
      else queued.ack();
      continue;
    }
    const messages = workspaces.get(workspaceId);
    if (messages === undefined) workspaces.set(workspaceId, [{ queued, content }]);
    else messages.push({ queued, content });
  }
  return workspaces;
}

/**
 * Reads the terms and rules of all workspaces of a batch in one go, begun at once. Where they cannot be had together, because those
 * of one are too much to read, say, each workspace reads its own.
 */
function readRules(env: Env, workspaceIds: string[]): (workspaceId: string) => Promise<RecordingWorkspace> {
  const together = within(CALL_TIMEOUT_MS, rulesOfAll(env.DB, workspaceIds)).catch((error: unknown) => {
    logEvent("rules_failed", { workspaces: workspaceIds.length, error: errorText(error) });
    return null;
  });
  return async (workspaceId) =>
    (await together)?.(workspaceId) ?? within(CALL_TIMEOUT_MS, rulesOf(env.DB, workspaceId));
}

async function buryUnlessRestoring(env: Env, received: WorkspaceRows): Promise<RecordResult | typeof RESTORING> {
  const { workspaceId } = received;
  const db = controlDatabase(env.DB.withSession("first-primary"));
  const terms = await within(CALL_TIMEOUT_MS, recordingTerms(db, [workspaceId]));
  return (terms.get(workspaceId)?.restoring ?? null) === null ? bury(env, received) : RESTORING;
}

function recordWith(rulesFor: (workspaceId: string) => Promise<RecordingWorkspace>): Handle {
  // Rows that come `again` have failed before, maybe because of one signal: the store is to leave that one out.
  return async (env, { workspaceId, rows, low, again }) => {
    const signals = rows.flatMap((row) => row.signals);
    const ofAccounts = signals.filter(({ admission }) => admission.endpoint === "product_org");
    const [current, templates] = await Promise.all([
      rulesFor(workspaceId),
      within(
        CALL_TIMEOUT_MS,
        templatesOf(env.DB, workspaceId, new Set(ofAccounts.map(({ admission }) => admission.keyId))),
      ),
    ]);
    const { terms } = current;
    if (terms !== null && terms.restoring !== null) return RESTORING;
    const batch = rowsToRecord(rows, (signal) => processSignal(signal, { rules: current.rules, templates }));
    const store = env.SIGNAL_STORE.getByName(workspaceId);
    const result = await within<RecordResult>(
      RECORD_TIMEOUT_MS,
      store.record(batch, {
        rulesVersion: current.version,
        low,
        carefully: again,
        ...(terms === null ? {} : { retentionDays: terms.retentionDays }),
      }),
    );
    if (result.outcome === "recorded" && result.linksWait) await linkAtOnce(store, workspaceId);
    return result;
  };
}

/** Links at once what the store has noted to be linked. Should this fail, the store's alarm does it. */
async function linkAtOnce(store: DurableObjectStub<SignalStore>, workspaceId: string): Promise<void> {
  try {
    await within(RECORD_TIMEOUT_MS, store.link());
  } catch (error) {
    logEvent("link_failed", { workspace: workspaceId, error: errorText(error) });
  }
}

// The end of the queue: messages that the consumer did not survive, time after time; what fails in a way that it lives
// to see is let go before that, and comes again from the outbox. Their signals are recorded as dead
// letters, with the reason, and settled: given up is a place of its own in the books. Should even this fail, the rows
// are still in the outbox and are sent again later.

const REASON = "Could not be processed in all attempts: each ended the processing of its batch before it was done.";

async function bury(
  env: Env,
  { workspaceId, rows }: { workspaceId: string; rows: ReceivedRow[] },
): Promise<RecordResult> {
  const batch = rowsToRecord(rows, (signal) => buriedSignal(signal, REASON));
  // These rows are recorded carefully: that they are here says that they have failed before.
  return within<RecordResult>(
    RECORD_TIMEOUT_MS,
    env.SIGNAL_STORE.getByName(workspaceId).record(batch, { carefully: true }),
  );
}
