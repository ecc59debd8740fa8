/** The Worker, its Durable Objects with a backup of each moment that a test requests. */
import * as real from "../../src/index.ts";
import { withBackups } from "./point-in-time.ts";

export class QuotaCounter extends real.QuotaCounter {
  constructor(ctx: DurableObjectState, env: Env) {
    super(withBackups(ctx), env);
  }
}

export class SignalStore extends real.SignalStore {
  constructor(ctx: DurableObjectState, env: Env) {
    super(withBackups(ctx), env);
  }
}

export class Destinations extends real.Destinations {
  constructor(ctx: DurableObjectState, env: Env) {
    super(withBackups(ctx), env);
  }
}

export default real.default;
