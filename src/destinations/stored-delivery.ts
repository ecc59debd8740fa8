/** One delivery as it is stored, and how it is read from its row and shown to callers. */
import type { AttemptResult } from "../domain/events/attempts.ts";
import type { AnyEventType } from "../domain/events/workspace-event.ts";
import type { Delivery, DeliveryEnd, DeliveryState } from "./destination-calls.ts";

/**
 * The kinds of deliveries that do not wait for each other: tests go whatever the state of their destination, gathered events
 * a second apart.
 */
export const KINDS = { test: 0, event: 1, gathered: 2 } as const;
export type Kind = (typeof KINDS)[keyof typeof KINDS];

export interface StoredDelivery {
  id: string;
  destinationId: string;
  message: number;
  kind: Kind;
  state: DeliveryState;
  endReason: DeliveryEnd | null;
  dueMs: number | null;
  /** Number of the next attempt, from 1. */
  attempt: number;
  /** Attempts that have failed since the delivery was last asked for. */
  failed: number;
  attempts: AttemptResult[];
  createdMs: number;
}

export function deliveryKind(type: AnyEventType): Kind {
  if (type === "destination.test") return KINDS.test;
  return type === "person.scored" ? KINDS.gathered : KINDS.event;
}

/** A row of `deliveries`. */
export type DeliveryRow = {
  id: string;
  destination_id: string;
  message: number;
  kind: Kind;
  state: DeliveryState;
  end_reason: DeliveryEnd | null;
  due_ms: number | null;
  attempt: number;
  failed: number;
  attempts: string;
  created_ms: number;
};

export function toStoredDelivery(row: DeliveryRow): StoredDelivery {
  const { id, message, kind, state, attempt, failed } = row;
  return {
    id,
    message,
    kind,
    state,
    attempt,
    failed,
    destinationId: row.destination_id,
    endReason: row.end_reason,
    dueMs: row.due_ms,
    attempts: JSON.parse(row.attempts) as AttemptResult[],
    createdMs: row.created_ms,
  };
}

/** A delivery as callers see it. */
export function shownDelivery(one: StoredDelivery, eventId: string, type: AnyEventType): Delivery {
  const { id, destinationId, state, endReason, attempts } = one;
  const times = { createdAtMs: one.createdMs, dueAtMs: one.dueMs };
  return { id, destinationId, eventId, type, state, endReason, ...times, attempts };
}
