/** Hono environment of the Worker, and typed access to its variables. limits.ts has the defaults and units. */
import {
  DELIVERY_LEASE_MS,
  DRAIN_PACE_MS,
  OUTBOX_MAX_BYTES,
  REQUEST_BURST,
  REQUEST_RATE_PER_SECOND,
  STORE_MAX_BYTES,
} from "./limits.ts";

export interface AppEnv {
  Bindings: Env & {
    /** A secret; only if the OpenID provider requires a client secret. */
    OIDC_CLIENT_SECRET?: string;
    /** A secret: a second valid operator token, for rotations. */
    OPERATOR_TOKEN_NEXT?: string;
  };
  Variables: {
    requestId: `req_${string}`;
    /** Further fields of the log line. Never a path, a key or a payload. */
    logFields: Record<string, string | number | boolean | null>;
    /** The caller has a valid token or session, or asks for what costs nothing: the answer is not delayed. */
    isKnown?: true;
  };
}

/** A RequestRate (domain/quota/request-rate.ts). */
export function configuredRate(env: Env): { perSecond: number; burst: number } {
  return {
    perSecond: Number(env.REQUEST_RATE_PER_SECOND) || REQUEST_RATE_PER_SECOND,
    burst: Number(env.REQUEST_BURST) || REQUEST_BURST,
  };
}

/** Only tests set the variable. */
export function storeMaxBytes(env: Env & { STORE_MAX_BYTES?: string }): number {
  return Number(env.STORE_MAX_BYTES) || STORE_MAX_BYTES;
}

export function configuredOutboxBytes(env: Env & { OUTBOX_MAX_BYTES?: string }): number {
  return Number(env.OUTBOX_MAX_BYTES) || OUTBOX_MAX_BYTES;
}

/** 0 is allowed: no pause. */
export function configuredPaceMs(env: Env & { DRAIN_PACE_MS?: string }): number {
  return env.DRAIN_PACE_MS === undefined ? DRAIN_PACE_MS : Number(env.DRAIN_PACE_MS);
}

export function configuredLeaseMs(env: Env & { DELIVERY_LEASE_MS?: string }): number {
  return Number(env.DELIVERY_LEASE_MS) || DELIVERY_LEASE_MS;
}

/** Then only local requests are answered: routes call `rejectIfRemote` (http/loopback.ts). */
export function isLocal(env: Env): boolean {
  return env.SIGN_IN === "local";
}

/** Where the watch posts alarms; null: nowhere. Both are secrets. The address of a Slack channel needs no signing secret. */
export function configuredAlarms(
  env: Env & { ALARM_URL?: string; ALARM_SECRET?: string },
): { url: string; secret: string | null } | null {
  const { ALARM_URL: url = "", ALARM_SECRET: secret = "" } = env;
  return url === "" ? null : { url, secret: secret === "" ? null : secret };
}

/** The used part of the platform's `send_email` binding. */
export interface EmailBinding {
  send(message: {
    from: string;
    to: string;
    subject: string;
    text: string;
    headers: Record<string, string>;
  }): Promise<unknown>;
}

/** Null: the deployment sends no email. */
export function configuredEmail(env: Env & { EMAIL?: EmailBinding }): { binding: EmailBinding; from: string } | null {
  return env.EMAIL === undefined || env.EMAIL_FROM === "" ? null : { binding: env.EMAIL, from: env.EMAIL_FROM };
}

// The jurisdiction in which a deployment's Durable Objects run and store their data (docs/deploy.md). In another jurisdiction the
// same name means another, empty object. So D1 records the jurisdiction of each workspace, and a deployment with another value
// does not use the workspace.

/** Empty: no jurisdiction. */
export function configuredJurisdiction({ JURISDICTION }: { JURISDICTION?: string }): string {
  return JURISDICTION ?? "";
}

/**
 * Empty: no restriction. An object uses its own jurisdiction instead of JURISDICTION, so it finds its workspace's
 * objects.
 */
export function inJurisdiction(env: Env, jurisdiction: string): Env {
  if (jurisdiction === "") return env;
  const restricted = <T extends Rpc.DurableObjectBranded>(all: DurableObjectNamespace<T>): PropertyDescriptor => ({
    // Only on use: the platform throws if it does not have the jurisdiction.
    get: () => all.jurisdiction(jurisdiction as DurableObjectJurisdiction),
    enumerable: true,
  });
  return Object.create(env, {
    QUOTA_COUNTER: restricted(env.QUOTA_COUNTER),
    SIGNAL_STORE: restricted(env.SIGNAL_STORE),
    DESTINATIONS: restricted(env.DESTINATIONS),
  }) as Env;
}

const JURISDICTIONS: readonly string[] = ["eu", "us"];

/** The deployment's variable does not fit its data. Nothing was read, stored or changed. */
export class JurisdictionError extends Error {}

/**
 * Why a deployment must not use a workspace; null: it may.
 *
 * @param configured the variable JURISDICTION. Empty: the platform chooses the place of each object.
 * @param recorded the jurisdiction of the workspace's objects, from D1. Empty: none.
 */
export function jurisdictionProblem(configured: string, recorded: string): string | null {
  const isSupported = configured === "" || JURISDICTIONS.includes(configured);
  if (configured === recorded && isSupported) return null;
  const named = JSON.stringify(configured);
  if (!isSupported) return `JURISDICTION is ${named}, which is none of "eu", "us" and "". Correct it.`;
  const data = recorded === "" ? "in no jurisdiction" : `in "${recorded}"`;
  return (
    `JURISDICTION is ${named}, but this deployment's data is ${data}. Set JURISDICTION = ${JSON.stringify(recorded)} ` +
    "again: with another value the service would find other, empty objects."
  );
}

/** @throws JurisdictionError if the deployment must not use a workspace with this jurisdiction. */
export function requireJurisdiction(configured: string, recorded: string): void {
  const problem = jurisdictionProblem(configured, recorded);
  if (problem !== null) throw new JurisdictionError(problem);
}

// The names of the queues differ between environments but share a word.

/** A batch contains only the queue's name. */
export type QueueKind = "signals" | "dead_letters" | "deliveries";

export const QUEUE_WORDS = { dead_letters: "dlq", deliveries: "deliveries" } as const;

/** `deliveries-staging` carries deliveries, `signals-dlq` and `staging-dlq-signals` dead letters; all others carry signals. */
export function queueKind(queue: string): QueueKind {
  const words = queue.split(/[^A-Za-z0-9]+/);
  if (words.includes(QUEUE_WORDS.deliveries)) return "deliveries";
  return words.includes(QUEUE_WORDS.dead_letters) ? "dead_letters" : "signals";
}
