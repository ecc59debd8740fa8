/**
 * The queue's consumer (design §8): per workspace of a batch, process the signals, record them in one call, settle the
 * outbox rows, then acknowledge. A failure of one workspace delays its own messages only; every step may be repeated.
 */
import { normalise } from "../domain/normalise.ts";
import type { CompiledRules } from "../domain/mapping-rule.ts";
import type { JsonObject } from "../domain/signal.ts";
import { logEvent } from "../http/log.ts";
import { LINK_PAGE_SIGNALS } from "../limits.ts";
import type { LinkedSignal, SignalToRecord, UnlinkedSignal } from "../store/protocol.ts";
import type { SignalStore } from "../store/signal-store.ts";
import type { VisitorId } from "../store/link.ts";
import { retryDelaySeconds } from "./back-off.ts";
import { bury } from "./dead-letters.ts";
import { readMessage } from "./message.ts";
import type { ReceivedMessage } from "./message.ts";
import { evaluateSignal, processSignal } from "./process.ts";
import { rulesOf } from "./rules-cache.ts";
import type { WorkspaceRules } from "./rules-cache.ts";

/** Of the two queues, the one that holds what was given up; wrangler.toml names it. */
const DEAD_LETTER_QUEUE = /-dlq$/;

export interface WorkspaceMessages {
  messages: { queued: Message<string>; content: ReceivedMessage }[];
}

export async function consume(batch: MessageBatch<string>, env: Env): Promise<void> {
  const handle = DEAD_LETTER_QUEUE.test(batch.queue) ? bury : recordMessages;
  await Promise.all(
    [...byWorkspace(batch)].map(async ([workspaceId, { messages }]) => {
      const startedMs = Date.now();
      const contents = messages.map((message) => message.content);
      const fields = { queue: batch.queue, workspace: workspaceId, messages: messages.length };
      try {
        await handle(env, workspaceId, contents);
        for (const { queued } of messages) queued.ack();
        const signals = contents.reduce((sum, content) => sum + content.signals.length, 0);
        logEvent("batch", { ...fields, signals, ms: Date.now() - startedMs });
      } catch (error) {
        for (const { queued } of messages) queued.retry({ delaySeconds: retryDelaySeconds(queued.attempts) });
        logEvent("batch_failed", { ...fields, error: String(error), ms: Date.now() - startedMs });
      }
    }),
  );
}

/** A message that cannot be read is dropped with a log line: its rows stay in the outbox and are sent again. */
function byWorkspace(batch: MessageBatch<string>): Map<string, WorkspaceMessages> {
  const workspaces = new Map<string, WorkspaceMessages>();
  for (const queued of batch.messages) {
    try {
      const content = readMessage(queued.body);
      const workspace = workspaces.get(content.workspaceId) ?? { messages: [] };
      workspace.messages.push({ queued, content });
      workspaces.set(content.workspaceId, workspace);
    } catch (error) {
      logEvent("message_unreadable", { queue: batch.queue, error: String(error) });
      queued.ack();
    }
  }
  return workspaces;
}

async function recordMessages(env: Env, workspaceId: string, contents: ReceivedMessage[]): Promise<void> {
  const current = await rulesOf(env.DB, workspaceId);
  const batch = contents.flatMap((content) => content.signals.map((signal) => processSignal(signal, current.rules)));
  const store = env.SIGNAL_STORE.getByName(workspaceId);
  await store.record(batch, current.version);
  await linkVisitors(store, batch, current);
  const rows = contents.flatMap((content) => content.rows);
  await env.QUOTA_COUNTER.getByName(workspaceId).settle(rows);
}

/**
 * Earlier anonymous signals of the visitors that this batch has identified, run through the rules as they are now and
 * given to the person, a page at a time. What is left to do is read off the store, so a crash only delays it.
 */
async function linkVisitors(
  store: DurableObjectStub<SignalStore>,
  batch: SignalToRecord[],
  { rules, version }: WorkspaceRules,
): Promise<void> {
  const visitors = batch.flatMap((signal) => visitorsOf(signal));
  if (visitors.length === 0) return;
  for (;;) {
    // oxlint-disable-next-line no-await-in-loop -- each page is what the one before it left
    const unlinked = await store.unlinked(visitors, LINK_PAGE_SIGNALS);
    if (unlinked.length === 0) return;
    // oxlint-disable-next-line no-await-in-loop
    const linked = await store.link(
      unlinked.map((signal) => evaluateUnlinked(signal, rules)),
      version,
    );
    if (linked === 0) return;
  }
}

/** Ids that an identify call names, and those of a signal that waits for its owner's email. */
function visitorsOf({ work }: SignalToRecord): VisitorId[] {
  if (work.kind !== "identify" && !(work.kind === "signal" && work.evaluation === null)) return [];
  const { anonymousId, userId } = work.normalised;
  const visitors: VisitorId[] = [];
  if (anonymousId !== undefined) visitors.push({ kind: "anonymous_id", value: anonymousId });
  if (userId !== undefined) visitors.push({ kind: "user_id", value: userId });
  return visitors;
}

function evaluateUnlinked({ id, source, email, payload }: UnlinkedSignal, rules: CompiledRules): LinkedSignal {
  const normalised = normalise(JSON.parse(payload) as JsonObject, source);
  const evaluation = evaluateSignal(rules, normalised, email);
  const { traits } = normalised;
  return { id, traits, rulesTried: evaluation?.rulesTried ?? 0, matches: evaluation?.matches ?? [] };
}
