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
  calls = 0;
  /** Emails of deleted persons, repetitions included. */
  readonly deleted: string[] = [];

  /** @param workspaceId of any other's events nothing is known: a call of an object that was killed may come late. */
  constructor(workspaceId: string) {
    const take = (events: WorkspaceEvent[]) => this.#take(events);
    vi.spyOn(Destinations.prototype, "raise").mockImplementation(async function (
      this: Destinations,
      events: WorkspaceEvent[],
    ) {
      const { id } = Reflect.get(this, "ctx") as DurableObjectState;
      if (id.name === workspaceId) await take(events);
    } as unknown as Destinations["raise"]);
    const deletePerson = (email: string) => this.#delete(email);
    vi.spyOn(Destinations.prototype, "deletePerson").mockImplementation(async function (
      this: Destinations,
      email: string,
    ) {
      const { id } = Reflect.get(this, "ctx") as DurableObjectState;
      if (id.name === workspaceId) await deletePerson(email);
    } as unknown as Destinations["deletePerson"]);
  }

  async #delete(email: string): Promise<void> {
    await this.gate;
    const fault = this.faults.shift() ?? "none";
    if (fault === "before") throw new Error("crash before the call");
    this.deleted.push(email);
    if (fault === "after") throw new Error("crash after the call");
  }

  async #take(events: WorkspaceEvent[]): Promise<void> {
    this.calls++;
    await this.gate;
    const fault = this.faults.shift() ?? "none";
    if (fault === "before") throw new Error("crash before the call");
    this.taken.push(...structuredClone(events));
    if (fault === "after") throw new Error("crash after the call");
  }

  /** Each once. */
  get events(): WorkspaceEvent[] {
    return [...new Map(this.taken.map((event) => [event.id, event] as const)).values()];
  }
}

afterEach(() => {
  vi.restoreAllMocks();
});
