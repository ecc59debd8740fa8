/** Notifications that an object has raised, as a test reads them, and a fake of Destinations that can fail. */
import { afterEach, vi } from "vitest";
import { Destinations } from "../../src/notifications/destinations.ts";
import type { NotificationOf, NotificationType, Notification } from "../../src/domain/notifications/notification.ts";
import type { RaisedNotifications } from "../../src/notifications/raised-notifications.ts";
import type { Fault } from "./faults.ts";

/** Takes all pending notifications. */
export function takeRaised(raised: RaisedNotifications): Notification[] {
  const notifications: Notification[] = [];
  for (let next = raised.next(); next !== null; next = raised.next()) {
    notifications.push(...next.notifications);
    raised.forwarded(next.lastRow);
  }
  return notifications;
}

export function ofType<Type extends NotificationType>(
  notifications: readonly Notification[],
  type: Type,
): NotificationOf<Type>["data"][] {
  return notifications
    .filter((notification) => notification.type === type)
    .map(({ data }) => data as NotificationOf<Type>["data"]);
}

/** Replaces a workspace's Destinations until the test ends: records the notifications and can fail. */
export class TestDestinations {
  /** All received notifications, repetitions included. */
  readonly taken: Notification[] = [];
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
    this.#replace("raise", workspaceId, (notifications: Notification[]) =>
      this.taken.push(...structuredClone(notifications)),
    );
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

  /** The received notifications without repetitions. */
  get notifications(): Notification[] {
    return [...new Map(this.taken.map((notification) => [notification.id, notification] as const)).values()];
  }
}

afterEach(() => {
  vi.restoreAllMocks();
});
