/** Events that an object has raised, as a test reads them, and a fake of Destinations that can fail. */
import { afterEach, vi } from "vitest";
import { Destinations } from "../../src/notifications/destinations.ts";
import type { EventOf, EventType, WorkspaceEvent } from "../../src/domain/events/workspace-event.ts";
import type { RaisedEvents } from "../../src/notifications/raised-events.ts";
import type { Fault } from "./faults.ts";

/** Takes all pending events. */
export function takeRaised(raised: RaisedEvents): WorkspaceEvent[] {
  const events: WorkspaceEvent[] = [];
  for (let next = raised.next(); next !== null; next = raised.next()) {
    events.push(...next.events);
    raised.handedOn(next.lastRow);
  }
  return events;
}

export function ofType<Type extends EventType>(events: readonly WorkspaceEvent[], type: Type): EventOf<Type>["data"][] {
  return events.filter((event) => event.type === type).map(({ data }) => data as EventOf<Type>["data"]);
}

/** Replaces a workspace's Destinations until the test ends: records the events and can fail. */
export class TestDestinations {
  /** All received events, repetitions included. */
  readonly taken: WorkspaceEvent[] = [];
  /** The failures of the next calls, one each; later calls succeed. */
  faults: Fault[] = [];
  /** Calls wait for this promise first. */
  gate: Promise<void> = Promise.resolve();
  /** Calls of `raise`. */
  calls = 0;
  /** Emails of deleted persons, repetitions included. */
  readonly deleted: string[] = [];

  /** @param workspaceId calls for other workspaces are ignored: a call of a killed object may arrive late. */
  constructor(workspaceId: string) {
    this.#replace("raise", workspaceId, (events: WorkspaceEvent[]) => this.taken.push(...structuredClone(events)));
    this.#replace("deletePerson", workspaceId, (email: string) => this.deleted.push(email));
  }

  /** Calls wait until the returned function is called. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.gate = promise;
    return resolve;
  }

  #replace(method: "raise" | "deletePerson", workspaceId: string, take: (argument: never) => void): void {
    const call = async (argument: never) => {
      if (method === "raise") this.calls++;
      await this.gate;
      const fault = this.faults.shift() ?? "none";
      if (fault === "before") throw new Error("crash before the call");
      take(argument);
      if (fault === "after") throw new Error("crash after the call");
    };
    vi.spyOn(Destinations.prototype, method).mockImplementation(async function (this: Destinations, argument: never) {
      const { id } = Reflect.get(this, "ctx") as DurableObjectState;
      if (id.name === workspaceId) await call(argument);
    } as never);
  }

  /** The received events without repetitions. */
  get events(): WorkspaceEvent[] {
    return [...new Map(this.taken.map((event) => [event.id, event] as const)).values()];
  }
}

afterEach(() => {
  vi.restoreAllMocks();
});
