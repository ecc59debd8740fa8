/** The Hono environment of the whole Worker, and what its variables configure. */
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
    /** A secret, where the OpenID provider wants one of its clients. */
    OIDC_CLIENT_SECRET?: string;
    /** A secret: an operator token that is valid besides OPERATOR_TOKEN, while the one is exchanged for the other. */
    OPERATOR_TOKEN_NEXT?: string;
  };
  Variables: {
    /** `req_` + UUIDv7; it stands in every log line and problem body. */
    requestId: string;
    /** What the request log says beyond route, status and duration. Never a path, a key or a payload. */
    logFields: Record<string, string | number | boolean | null>;
  };
}

/** The request rate per key: wrangler.toml's variables, else limits.ts. */
export function configuredRate(env: Env): RequestRate {
  return {
    perSecond: Number(env.REQUEST_RATE_PER_SECOND) || REQUEST_RATE_PER_SECOND,
    burst: Number(env.REQUEST_BURST) || REQUEST_BURST,
  };
}

/** Where the Signal Store is full, in bytes: a variable that only tests set, else limits.ts. */
export function storeMaxBytes(env: Env & { STORE_MAX_BYTES?: string }): number {
  return Number(env.STORE_MAX_BYTES) || STORE_MAX_BYTES;
}

/** Bytes of a Quota Counter's database from which on it takes no new calls: a variable where one is set, else limits.ts. */
export function configuredOutboxBytes(env: Env & { OUTBOX_MAX_BYTES?: string }): number {
  return Number(env.OUTBOX_MAX_BYTES) || OUTBOX_MAX_BYTES;
}

/** Milliseconds between two messages of a workspace that are not full: a variable where one is set, else limits.ts. */
export function configuredPaceMs(env: Env & { DRAIN_PACE_MS?: string }): number {
  return env.DRAIN_PACE_MS === undefined ? DRAIN_PACE_MS : Number(env.DRAIN_PACE_MS);
}

/** How long the deliveries' consumer has to report, in milliseconds: a variable where one is set, else limits.ts. */
export function configuredLeaseMs(env: Env & { DELIVERY_LEASE_MS?: string }): number {
  return Number(env.DELIVERY_LEASE_MS) || DELIVERY_LEASE_MS;
}

/** Whether this is a developer's machine, which is answered only there (http/loopback.ts). */
export function isLocal(env: Env): boolean {
  return env.SIGN_IN === "local";
}

/** The platform's `send_email` binding, as far as it is used here. */
export interface EmailBinding {
  send(message: {
    from: string;
    to: string;
    subject: string;
    text: string;
    headers: Record<string, string>;
  }): Promise<unknown>;
}

/** How email is sent, where the deployment does that. */
export function configuredEmail(env: Env & { EMAIL?: EmailBinding }): { binding: EmailBinding; from: string } | null {
  return env.EMAIL === undefined || env.EMAIL_FROM === "" ? null : { binding: env.EMAIL, from: env.EMAIL_FROM };
}
