/**
 * The queue's consumer (design §8): per workspace of a batch, process the signals, record them in one call, settle the
 * outbox rows, then acknowledge. A failure of one workspace delays its own messages only; every step may be repeated.
 */
import { normalise } from "../domain/normalise.ts";
import type { CompiledRules } from "../domain/mapping-rule.ts";
import type { JsonObject } from "../domain/signal.ts";
import { errorText, logEvent } from "../http/log.ts";
import { LINK_PAGE_SIGNALS, MESSAGE_MAX_ATTEMPTS } from "../limits.ts";
import type { LinkedSignal, SignalToRecord, UnlinkedSignal } from "../store/protocol.ts";
import type { SignalStore } from "../store/signal-store.ts";
import type { VisitorId } from "../store/link.ts";
import { retryDelaySeconds } from "./back-off.ts";
import { bury } from "./dead-letters.ts";
import { readMessage } from "./message.ts";
import type { ReceivedMessage, ReceivedSignal } from "./message.ts";
import { evaluateSignal, processSignal } from "./process.ts";
import { rulesOf } from "./rules-cache.ts";
import { templatesOf } from "./template-cache.ts";
import type { WorkspaceRules } from "./rules-cache.ts";

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
      const contents = messages.map((message) => message.content);
      const fields = { queue: batch.queue, workspace: workspaceId, messages: messages.length };
      try {
        const signals = contents.flatMap((content) => content.signals);
        await handle(env, workspaceId, signals);
        await env.QUOTA_COUNTER.getByName(workspaceId).settle(contents.flatMap((content) => content.rows));
        for (const { queued } of messages) queued.ack();
        logEvent("batch", { ...fields, signals: signals.length, ms: Date.now() - startedMs });
      } catch (error) {
        for (const { queued } of messages) letWait(queued);
        logEvent("batch_failed", { ...fields, error: errorText(error), ms: Date.now() - startedMs });
      }
    }),
  );
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

async function recordSignals(env: Env, workspaceId: string, signals: ReceivedSignal[]): Promise<void> {
  const accountKeys = signals.filter((signal) => signal.endpoint === "product_org").map(({ envelope }) => envelope.key);
  const [current, templates] = await Promise.all([
    rulesOf(env.DB, workspaceId),
    templatesOf(env.DB, workspaceId, accountKeys),
  ]);
  const batch = signals.map((signal) => processSignal(signal, { rules: current.rules, templates }));
  const store = env.SIGNAL_STORE.getByName(workspaceId);
  await store.record(batch, current.version);
  await linkVisitors(store, batch, current);
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
