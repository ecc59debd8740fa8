/** The monthly bill of whole deployments, derived from the cost of a million signals of each shape. */

/** In US dollars per million signals. */
export interface ShapeCost {
  /** The name of the shape in the tables. */
  name: string;
  dollars: number;
}

interface Deployment {
  name: string;
  workspaces: number;
  /** Total of all workspaces. */
  signalsPerSecond: number;
  /** The shape of the traffic; the nearest measured one. */
  shape: string;
}

const MONTH_SECONDS = (365.25 / 12) * 86_400;
/** `GET /operator/health` every five minutes: a call of each of a workspace's two objects. */
const HEALTH_CALLS = (2 * MONTH_SECONDS) / 300;

export const DEPLOYMENTS: readonly Deployment[] = [
  { name: "10 workspaces, one signal a second each", workspaces: 10, signalsPerSecond: 10, shape: "alone, 1/s" },
  { name: "1,000 workspaces, one in ten seconds each", workspaces: 1_000, signalsPerSecond: 100, shape: "alone, 1/s" },
  {
    name: "10,000 workspaces, one in ten seconds each",
    workspaces: 10_000,
    signalsPerSecond: 1_000,
    shape: "alone, 1/s",
  },
  { name: "the same, in batches of 100", workspaces: 10_000, signalsPerSecond: 1_000, shape: "batches of 100" },
  { name: "one workspace, 5,000 a second in batches", workspaces: 1, signalsPerSecond: 5_000, shape: "batches of 100" },
];

/**
 * A Markdown table.
 *
 * @param keptDollars for a million signals stored for a month. @param callDollars for a million calls of objects.
 */
export function reportCapacity(costs: readonly ShapeCost[], keptDollars: number, callDollars: number): string {
  const rows = DEPLOYMENTS.map(({ name, workspaces, signalsPerSecond, shape }) => {
    const cost = costs.find((measured) => measured.name === shape);
    if (cost === undefined) throw new Error(`${shape} was not measured`);
    const millions = (signalsPerSecond * MONTH_SECONDS) / 1_000_000;
    const health = ((workspaces * HEALTH_CALLS) / 1_000_000) * callDollars;
    return [
      name,
      `${whole(millions)} million`,
      `$${cost.dollars.toFixed(2)}`,
      dollars(millions * cost.dollars),
      dollars(millions * keptDollars),
      dollars(health),
    ];
  });
  const head = [
    "Deployment",
    "Signals a month",
    "A million",
    "A month",
    "They, kept a month",
    "Health, every 5 minutes",
  ];
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n") + "\n";
}

function dollars(amount: number): string {
  return amount < 10 ? `$${amount.toFixed(2)}` : `$${whole(amount)}`;
}

/** Three digits, because the figures are no more exact. */
function whole(amount: number): string {
  return Number(amount.toPrecision(3)).toLocaleString("en");
}
