import type { WantedNotifications } from "../../src/domain/notifications/notification.ts";

/** As if one destination wanted these types, or none if there are none. */
export function wanting(wanted: Partial<WantedNotifications>): WantedNotifications {
  const destinations = (wanted.types ?? []).length > 0 ? 1 : 0;
  return { types: [], thresholds: [], accountThresholds: [], destinations, ...wanted };
}
