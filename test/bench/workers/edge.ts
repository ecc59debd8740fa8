/** This service with a counter that accepts every signal and stores none, so that only the edge is measured. */
import service, { QuotaCounter as Counter } from "../../../src/index.ts";
import type { AdmitCall, AdmitResult } from "../../../src/quota/protocol.ts";

export { Destinations, SignalStore } from "../../../src/index.ts";

export class QuotaCounter extends Counter {
  override admit(call: AdmitCall): AdmitResult {
    return {
      outcome: "counted",
      accepted: call.sizes.length,
      held: 0,
      rejected: 0,
      rejection: null,
      // Newer than any version, so that no configuration is pushed.
      configVersion: Number.MAX_SAFE_INTEGER,
      rate: { remaining: 1, resetMs: 0 },
      period: { remaining: null, ceiling: null, periodEndMs: Date.now() },
    };
  }
}

export default service;
