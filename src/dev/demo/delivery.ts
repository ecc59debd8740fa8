/** What a sender of the demo delivers, and what must come of it. */
import type { Lead } from "./sender-payloads.ts";

/** The full keys of the demo's senders. */
export interface DemoKeys {
  campaigns: string;
  crm: { key: string; secret: string };
  accounts: string;
  retired: string;
}

export interface Call {
  path: string;
  body: string | Uint8Array<ArrayBuffer>;
  method?: string;
  headers?: Record<string, string>;
}

/** One line of the demo: calls of one kind, and what is expected of all of them. */
export interface DemoDelivery {
  what: string;
  calls: Call[];
  /** True: the calls are made at once. Most real senders make one after the other. */
  parallel?: boolean;
  status: number;
  /** The code of a problem, or of the first refused signal in a partial answer. */
  code?: string;
  /** Signals answered as accepted or held. */
  kept: number;
  /** Those of the kept signals that are found to be duplicates. */
  duplicates?: number;
  held?: number;
  /** Signals refused in an answer that keeps others. */
  refused?: number;
  points?: [Lead, number][];
}

export interface Sender {
  name: string;
  deliveries: DemoDelivery[];
}

export const JSON_TYPE = { "content-type": "application/json" };
