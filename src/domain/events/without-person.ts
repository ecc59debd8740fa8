/** Events without the data of people who were deleted. */
import type { AnyEvent } from "./workspace-event.ts";

/**
 * An event without these people; null: nothing is left of it. Each type is listed, so that a new one does not keep a
 * deleted person's data because nobody thought of it.
 */
export function withoutPerson<Event extends AnyEvent>(
  event: Event,
  isDeleted: (email: string) => boolean,
): Event | null {
  switch (event.type) {
    case "person.scored": {
      const left = event.data.scoring_signals.filter(({ email }) => !isDeleted(email));
      if (left.length === event.data.scoring_signals.length) return event;
      return left.length === 0 ? null : { ...event, data: { scoring_signals: left } };
    }
    case "person.score_crossed":
      return isDeleted(event.data.email) ? null : event;
    case "people.rescored":
      return event.data.email !== null && isDeleted(event.data.email) ? null : event;
    case "usage.level":
    case "period.closed":
    case "key.expiring":
    case "key.silent":
    case "refusals.burst":
    case "dead_letters.added":
    case "processing.late":
    case "destination.disabled":
    case "destination.test":
      return event;
    default:
      // A new type does not compile until it is listed above.
      event satisfies never;
      return null;
  }
}
