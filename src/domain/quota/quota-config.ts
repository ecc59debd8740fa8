/** Plan and billing of a workspace, as `configure` sets it (design §6). */
export interface QuotaConfig {
  /** The plan's signal limit (the allowance) per billing period. */
  signalLimit: number;
  /** Only paid plans can lose the extra room (spec §8.5). */
  paid: boolean;
  /** Whether signals beyond the limit are accepted and metered (pay-as-you-go). */
  overages: boolean;
  /** Billing periods are calendar months from this time on. Fixed by the first `configure`. */
  anchorMs: number;
  /**
   * Version of the configuration, and the time since which it holds, in milliseconds since 1970. D1 raises it with every
   * change to `max(old + 1, now)`.
   */
  configVersion: number;
}
