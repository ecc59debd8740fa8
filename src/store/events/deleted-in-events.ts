/** Events that have not been handed on name nobody who has been deleted. */
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import type { StoreState } from "../state/store-state.ts";

/** Takes a person out of events that wait. @param email trimmed and lower-cased, as events have it. */
export function deleteFromEvents({ raised }: StoreState, email: string): void {
  raised.rewrite((event) => without(event, email));
}

function without(event: WorkspaceEvent, email: string): WorkspaceEvent | null {
  switch (event.type) {
    case "person.scored": {
      const left = event.data.scoring_signals.filter((signal) => signal.email !== email);
      return left.length === 0 ? null : { ...event, data: { scoring_signals: left } };
    }
    case "person.score_crossed":
    case "people.rescored":
      return event.data.email === email ? null : event;
    default:
      return event;
  }
}
