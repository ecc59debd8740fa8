/**
 * The service's objects with a clock that is CLOCK_AHEAD_MS ahead of the real clock, or behind it. So no test waits until
 * signals are old. Alarms ring by the shifted clock.
 */
import { env } from "cloudflare:workers";
import { Destinations as Notifications } from "../../../src/notifications/destinations.ts";
import { QuotaCounter as Counter } from "../../../src/quota/quota-counter.ts";
import { SignalStore as Store } from "../../../src/store/signal-store.ts";

const aheadMs = Number((env as { CLOCK_AHEAD_MS?: string }).CLOCK_AHEAD_MS ?? 0);
const realNow = Date.now.bind(Date);
Date.now = () => realNow() + aheadMs;

export class QuotaCounter extends Counter {
  constructor(ctx: DurableObjectState, bindings: Env) {
    shiftAlarms(ctx.storage);
    super(ctx, bindings);
  }
}

export class SignalStore extends Store {
  constructor(ctx: DurableObjectState, bindings: Env) {
    shiftAlarms(ctx.storage);
    super(ctx, bindings);
  }
}

export class Destinations extends Notifications {
  constructor(ctx: DurableObjectState, bindings: Env) {
    shiftAlarms(ctx.storage);
    super(ctx, bindings);
  }
}

/** The platform uses its own clock. */
function shiftAlarms(storage: DurableObjectStorage): void {
  const [setAlarm, getAlarm] = [storage.setAlarm.bind(storage), storage.getAlarm.bind(storage)];
  storage.setAlarm = (at) => setAlarm(Number(at) - aheadMs);
  storage.getAlarm = async () => {
    const at = await getAlarm();
    return at === null ? null : at + aheadMs;
  };
}
