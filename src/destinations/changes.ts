/**
 * How the object is changed: in one transaction, all or nothing. Then what is due goes on its way, the alarm is set for what
 * is to come, and whoever must know what is wanted now is told.
 */
import { RETRY_MIN_SECONDS, SAFETY_ALARM_MS } from "../limits.ts";
import { Alarm } from "../platform/alarm.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { Courier } from "./courier.ts";
import type { EventFlow } from "./event-flow.ts";
import type { DueDelivery } from "./destination-calls.ts";
import type { StoredParts } from "./stored-parts.ts";
import type { Upkeep } from "./upkeep.ts";

export class Changes {
  readonly alarm: Alarm;
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #stored: StoredParts;
  readonly #flow: EventFlow;
  readonly #courier: Courier;
  readonly #upkeep: Upkeep;

  constructor(
    ctx: DurableObjectState,
    env: Env,
    { stored, flow, courier, upkeep }: { stored: StoredParts; flow: EventFlow; courier: Courier; upkeep: Upkeep },
  ) {
    this.alarm = new Alarm(ctx);
    this.#ctx = ctx;
    this.#env = env;
    this.#stored = stored;
    this.#flow = flow;
    this.#courier = courier;
    this.#upkeep = upkeep;
  }

  get #workspaceId(): string {
    return this.#ctx.id.name ?? "";
  }

  /** Runs a change that leaves what the sources are to raise as it is. */
  run<T>(change: (nowMs: number) => T): T {
    const nowMs = Date.now();
    try {
      return this.#ctx.storage.transactionSync(() => {
        const changed = change(nowMs);
        this.#flow.gather(nowMs);
        return changed;
      });
    } catch (error) {
      this.#stored.rolledBack();
      throw error;
    } finally {
      this.#send(nowMs);
    }
  }

  /** Runs a change after which the sources may have to raise other events than before, and tells them. */
  async runAndTell<T>(change: (nowMs: number) => T): Promise<T> {
    const changed = this.run((nowMs) => {
      this.#stored.settings.changed();
      return change(nowMs);
    });
    await this.tell();
    return changed;
  }

  /** Tells whoever must know of a change. Never throws: what cannot be told now is told by the alarm. */
  async tell(): Promise<void> {
    try {
      await this.#upkeep.tell(this.#workspaceId);
    } catch (error) {
      logEvent("wanted_not_told", { workspace: this.#workspaceId, error: errorText(error) });
      this.alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
  }

  /** Hands deliveries that are due to the queue; those that it refuses are due again soon. */
  #send(nowMs: number): void {
    const due = this.#courier.takeDue(nowMs);
    this.alarm.by(Math.min(this.#courier.nextMs(nowMs), this.#flow.nextMs(), this.#upkeep.nextMs()));
    // The alarm is set in case the object is killed before the sources have been told of a change.
    if (this.#stored.settings.untold !== null) this.alarm.by(nowMs + SAFETY_ALARM_MS);
    if (due.length === 0) return;
    const workspaceId = this.#workspaceId;
    const messages = due.map(({ id, attempt }) => ({
      body: JSON.stringify({ workspaceId, deliveryId: id, attempt } satisfies DueDelivery),
    }));
    const failed = (error: unknown) => {
      logEvent("deliveries_not_sent", { workspace: workspaceId, deliveries: due.length, error: errorText(error) });
      const againMs = Date.now() + RETRY_MIN_SECONDS * 1_000;
      for (const { id } of due) this.#courier.failed(id, againMs);
      this.alarm.by(againMs);
    };
    this.#ctx.waitUntil(this.#env.DELIVERIES.sendBatch(messages).catch(failed));
  }
}
