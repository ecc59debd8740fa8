/** Hono environment of the Worker, and typed access to its variables. limits.ts has the defaults and units. */
import type { RequestRate } from "./domain/quota/request-rate.ts";
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

export function configuredRate(env: Env): RequestRate {
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

/** Empty: no jurisdiction (domain/jurisdiction.ts). */
export function configuredJurisdiction({ JURISDICTION }: { JURISDICTION?: string }): string {
  return JURISDICTION ?? "";
}

/** Then only local requests are answered (http/loopback.ts). */
export function isLocal(env: Env): boolean {
  return env.SIGN_IN === "local";
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
