/**
 * Held signals that are released and dead letters that are replayed: a page at a time from the store into the Quota
 * Counter's outbox, from where they go the way of every signal. The store gives up the old record when the new one
 * comes, so an interruption at any point leaves nothing lost and nothing doubled.
 */
import type { Verdict } from "../domain/signal/signal.ts";
import type { SignalAgain } from "../quota/protocol.ts";
import type { StoredSignal } from "../store/protocol/signals-to-record.ts";
import type { SignalStore } from "../store/signal-store.ts";
import { envelopeAgain } from "../wire/admission.ts";
import { writeSignal } from "../wire/message.ts";

/** Held signals or dead letters that are sent again in one step: at 64 KB each some 13 MB, half an RPC's limit. */
const AGAIN_PAGE_SIGNALS = 200;

export interface Released {
  released: number;
  stillHeld: number;
}

/** Releases as many held signals as now fit, oldest first, each counted once; this is never automatic (design §6). */
export async function releaseHeld(env: Env, workspaceId: string): Promise<Released> {
  const counter = env.QUOTA_COUNTER.getByName(workspaceId);
  const store = env.SIGNAL_STORE.getByName(workspaceId);
  const usage = await counter.usage();
  // What is held is asked of the store, not of the counter: a duplicate among the held ordinals is held no longer.
  const { held } = await store.totals(usage?.periodStartMs ?? 0);
  let released = 0;
  for (let cursor = 0, full = usage === null; !full;) {
    // oxlint-disable-next-line no-await-in-loop -- each page begins where the one before it ended
    const page: StoredSignal[] = await store.held(usage?.periodEndMs ?? 0, cursor, AGAIN_PAGE_SIGNALS);
    if (page.length === 0) break;
    // oxlint-disable-next-line no-await-in-loop
    const result = await counter.release(page.map((signal) => signalAgain(signal, "accepted")));
    released += result.released;
    ({ full } = result);
    cursor = page.at(-1)?.cursor ?? cursor;
  }
  return { released, stillHeld: Math.max(0, held - released) };
}

/** Replays all dead letters, or those with the given ids; fewer where the outbox has no room. Returns how many. */
export async function replayDeadLetters(env: Env, workspaceId: string, ids: string[] | null): Promise<number> {
  const counter = env.QUOTA_COUNTER.getByName(workspaceId);
  let replayed = 0;
  for await (const page of deadPages(env.SIGNAL_STORE.getByName(workspaceId), ids)) {
    const sent = await counter.replay(page.map((signal) => signalAgain(signal, signal.admission.verdict)));
    replayed += sent;
    if (sent < page.length) break;
  }
  return replayed;
}

async function* deadPages(store: DurableObjectStub<SignalStore>, ids: string[] | null): AsyncGenerator<StoredSignal[]> {
  /* oxlint-disable no-await-in-loop -- each page begins where the one before it ended */
  if (ids !== null) {
    for (let at = 0; at < ids.length; at += AGAIN_PAGE_SIGNALS) {
      yield await store.deadById(ids.slice(at, at + AGAIN_PAGE_SIGNALS));
    }
    return;
  }
  for (let cursor: number | undefined = 0; cursor !== undefined;) {
    const page: StoredSignal[] = await store.dead(cursor, AGAIN_PAGE_SIGNALS);
    yield page;
    cursor = page.at(-1)?.cursor;
  }
  /* oxlint-enable no-await-in-loop */
}

function signalAgain(signal: StoredSignal, verdict: Verdict): SignalAgain {
  const { admission, payload, from, place } = signal;
  const text = writeSignal(envelopeAgain({ ...admission, verdict, again: { from, place } }), payload);
  return { id: admission.id, periodStartMs: admission.periodStartMs, text, bytes: Buffer.byteLength(text) };
}
