/** This service as deployed, with all billed operations counted. */
import service, {
  Destinations as Notifications,
  QuotaCounter as Counter,
  SignalStore as Store,
} from "../../../src/index.ts";
import { metered } from "./meter-objects.ts";
import { meteredWorker } from "./metered.ts";

export const Destinations = metered("Destinations", Notifications);
export const QuotaCounter = metered("QuotaCounter", Counter);
export const SignalStore = metered("SignalStore", Store);

export default meteredWorker(service, (env: Env) => ({
  Destinations: env.DESTINATIONS,
  QuotaCounter: env.QUOTA_COUNTER,
  SignalStore: env.SIGNAL_STORE,
}));
