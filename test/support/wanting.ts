import type { WantedEvents } from "../../src/domain/events/workspace-event.ts";

/** As if one destination wanted these types, or none if there are none. */
export function wanting(wanted: Partial<WantedEvents>): WantedEvents {
  const destinations = (wanted.types ?? []).length > 0 ? 1 : 0;
  return { types: [], thresholds: [], accountThresholds: [], destinations, ...wanted };
}
