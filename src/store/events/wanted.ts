/** Notification types that the store must raise. Stored in the head, so that unwanted types cost nothing. */
import type { EventType, WantedEvents } from "../../domain/events/workspace-event.ts";
import type { StoreState } from "../state/store-state.ts";

/** Sets the wanted types from the next transaction on. The caller writes the head. */
export function wantEvents({ books }: StoreState, wanted: WantedEvents): void {
  books.wanted = wanted.types.length === 0 ? null : wanted;
  if (!wanted.types.includes("dead_letters.added")) books.deadLetterNews = null;
}

export function wants({ books }: StoreState, type: EventType): boolean {
  return books.wanted !== null && books.wanted.types.includes(type);
}
