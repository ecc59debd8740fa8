/**
 * The service's objects with a clock that is CLOCK_AHEAD_MS ahead of the real clock, or behind it. So no test waits until
 * signals are old. Alarms ring by the shifted clock.
 */
import { env } from "cloudflare:workers";
import { Destinations as Notifications } from "../../notifications/destinations.ts";
import { QuotaCounter as Counter } from "../../quota/quota-counter.ts";
import { SignalStore as Store } from "../../store/signal-store.ts";
import { shiftAlarms } from "./shift-alarms.ts";
import { shiftDate } from "./shift-date.ts";

const aheadMs = Number((env as { CLOCK_AHEAD_MS?: string }).CLOCK_AHEAD_MS ?? 0);
shiftDate(aheadMs);

export class QuotaCounter extends Counter {
  constructor(ctx: DurableObjectState, bindings: Env) {
    shiftAlarms(ctx.storage, aheadMs);
    super(ctx, bindings);
  }
}

export class SignalStore extends Store {
  constructor(ctx: DurableObjectState, bindings: Env) {
    shiftAlarms(ctx.storage, aheadMs);
    super(ctx, bindings);
  }
}

export class Destinations extends Notifications {
  constructor(ctx: DurableObjectState, bindings: Env) {
    shiftAlarms(ctx.storage, aheadMs);
    super(ctx, bindings);
  }
}
