/** What a plan's overages cost, where its operator tells. Nothing is billed by this service. */
export interface OveragePrice {
  /** The price of 1,000 overages, in units of the currency. */
  perThousand: number;
  /** ISO 4217, such as `EUR`. */
  currency: string;
}

/** What so many overages cost, in units of the currency. */
export function overageCost(overages: number, { perThousand }: OveragePrice): number {
  return (Math.max(0, overages) * perThousand) / 1_000;
}
