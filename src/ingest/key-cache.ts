/**
 * What an isolate remembers of the keys it has seen: facts that never change, so that nothing here can accept a key that
 * was deactivated, the version of the workspace's configuration, and its own notes of their calls. Unknown keys are not remembered: a new key works at once. Plain data,
 * no promises: requests of one isolate may share it.
 */
import { findKeyFacts } from "../control/key-facts.ts";
import { digestHex } from "../platform/hashes.ts";
import type { KeyFacts } from "../control/key-facts.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { RefusedCalls } from "../domain/keys/rejection.ts";
import { FULL_BUCKET, type RateBucket } from "../domain/quota/request-rate.ts";
import { Lru } from "../platform/lru.ts";
import { within } from "../platform/time-limit.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { compileTemplate } from "../domain/accounts/payload-template.ts";
import type { CompiledTemplate } from "../domain/accounts/payload-template.ts";

/** How long an isolate remembers a key's unchanging facts. Bounds how soon a moved expiration is seen. */
export const KEY_CACHE_MS = 60_000;
/** How long it goes by a key's facts while the database does not answer. Rotation's shortest overlap is longer. */
export const KEY_STALE_MS = 10 * 60_000;
/** Keys remembered per isolate: about 300 bytes each, and each mapping of a payload template counts as one more. */
const KEY_CACHE_ENTRIES = 20_000;
/** Keys per isolate that are remembered as deactivated, so that what still comes with them costs nothing. */
const DEACTIVATED_KEYS = 5_000;

export interface KnownKey extends Omit<KeyFacts, "payloadTemplate"> {
  /** The payload template of a `product_org` key, null for others. */
  template: CompiledTemplate | null;
  /** Whether the Quota Counter has said that the key is deactivated. */
  isDeactivated: boolean;
  /** This isolate's own view of the key's request rate, to shed floods before they reach the object. */
  shedBucket: RateBucket;
  /** From then on one call of a flood is let through, to ask whether the key is still active. */
  shedAskAtMs: number;
  /** Calls that did not authenticate and of which the counter has not been told yet. */
  refused: RefusedCalls[];
  /** By when a call under way has told the counter of `refused`; 0: none is about to. */
  refusedToldMs: number;
  /** The counter is not told of `refused` before this time, for it has been told enough for now. */
  refusedPauseMs: number;
  /** The workspace's configuration is not pushed to its counter before this time: a push has just begun or failed. */
  configPushFromMs: number;
}

interface CachedKey {
  key: KnownKey;
  readAtMs: number;
  /** Until then a call asks for the key anew, or has just asked in vain: the others go by what is known. */
  askedUntilMs: number;
}

const entries = new Lru<string, CachedKey>(KEY_CACHE_ENTRIES);

/** Keys that the Quota Counter has called deactivated. They are so for ever: nothing is forgotten but for the bound. */
const deactivated = new Lru<string, KnownKey>(DEACTIVATED_KEYS);

/** The key if this isolate knows that it is deactivated. */
export function deactivatedKey(value: string): KnownKey | undefined {
  return deactivated.get(value);
}

export function rememberDeactivated(value: string, key: KnownKey): void {
  if (deactivated.has(value)) return;
  deactivated.set(value, { ...key, isDeactivated: true, template: null, refused: [], refusedToldMs: 0 });
}

/** The key if it was read less than KEY_CACHE_MS ago, or if another call is about to read it again. */
export function cachedKey(value: string, nowMs: number): KnownKey | undefined {
  const entry = entries.get(value);
  if (entry === undefined) return undefined;
  const ageMs = nowMs - entry.readAtMs;
  return ageMs < KEY_CACHE_MS || (nowMs < entry.askedUntilMs && ageMs < KEY_STALE_MS) ? entry.key : undefined;
}

/** Whether the key existed when it was last looked up, however long ago. */
export function wasKnown(value: string): boolean {
  return entries.has(value);
}

/**
 * Looks a key up at the nearest replica, and what that does not have at the primary. While the database does not answer, a
 * key that was known a short time ago is good enough: what is cached of it never changes.
 */
export async function lookUpKey(d1: D1Database, value: string, nowMs: number): Promise<KnownKey | undefined> {
  const entry = entries.get(value);
  if (entry !== undefined) entry.askedUntilMs = nowMs + CALL_TIMEOUT_MS;
  try {
    return await within(CALL_TIMEOUT_MS, readKey(d1, value, nowMs));
  } catch (error) {
    if (entry === undefined || nowMs - entry.readAtMs >= KEY_STALE_MS) throw error;
    logEvent("key_lookup_failed", { workspace: entry.key.workspaceId, error: errorText(error) });
    return entry.key;
  }
}

async function readKey(d1: D1Database, value: string, nowMs: number): Promise<KnownKey | undefined> {
  const hash = await digestHex(value);
  const nearest = await findKeyFacts(d1.withSession("first-unconstrained"), hash);
  const facts =
    nearest.facts === null && !nearest.byPrimary
      ? (await findKeyFacts(d1.withSession("first-primary"), hash)).facts
      : nearest.facts;
  if (facts === null) return undefined;
  const { payloadTemplate, ...asRead } = facts;
  const template = payloadTemplate === null ? null : compileTemplate(payloadTemplate);
  // A key that is known keeps its notes: else calls that look it up at the same time would each have a full bucket.
  const notes = entries.get(value)?.key ?? {
    isDeactivated: false,
    shedBucket: FULL_BUCKET,
    shedAskAtMs: 0,
    refused: [],
    refusedToldMs: 0,
    refusedPauseMs: 0,
    configPushFromMs: 0,
  };
  const key: KnownKey = Object.assign(notes, asRead, { template });
  entries.set(value, { key, readAtMs: nowMs, askedUntilMs: 0 }, 1 + (template?.length ?? 0));
  return key;
}
