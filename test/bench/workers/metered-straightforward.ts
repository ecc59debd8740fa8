/** The straightforward Worker, with all billed operations counted. */
import { metered } from "./meter-objects.ts";
import { meteredWorker } from "./metered.ts";
import straightforward, { SignalCounter as Counter } from "./straightforward.ts";

export const SignalCounter = metered("SignalCounter", Counter);

export default meteredWorker(straightforward, ({ SIGNAL_COUNTER }) => ({ SignalCounter: SIGNAL_COUNTER }));
