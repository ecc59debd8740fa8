/** The straightforward Worker's mapping rules, with the operators that the bench's rules use. */

export interface Signal {
  event: string;
  source?: string;
  email?: string;
  properties?: Record<string, unknown>;
}

export interface Rule {
  id: string;
  event: string;
  match: "all" | "any";
  conditions: { path: string; operator: string; value?: string | number | string[] }[];
  scoring_signal: string;
  points: number;
}

export function matches(rule: Rule, signal: Signal): boolean {
  if (rule.event !== signal.event && rule.event !== "*") return false;
  const holds = (condition: Rule["conditions"][number]): boolean =>
    compare(condition.operator, valueAt(signal, condition.path), condition.value);
  return rule.match === "all" ? rule.conditions.every(holds) : rule.conditions.some(holds);
}

function valueAt(signal: Signal, path: string): unknown {
  let value: unknown = signal;
  for (const name of path.split(".")) {
    if (!isObject(value)) return undefined;
    value = value[name];
  }
  return value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function compare(operator: string, actual: unknown, wanted: unknown): boolean {
  const left = String(actual).toLowerCase();
  const right = String(wanted).toLowerCase();
  switch (operator) {
    case "equals":
      return left === right;
    case "contains":
      return left.includes(right);
    case "starts_with":
      return left.startsWith(right);
    case "ends_with":
      return left.endsWith(right);
    case "in":
      return Array.isArray(wanted) && wanted.some((value) => String(value).toLowerCase() === left);
    case "greater_than":
      return Number(actual) > Number(wanted);
    case "less_than":
      return Number(actual) < Number(wanted);
    case "exists":
      return actual !== undefined && actual !== null;
    default:
      return false;
  }
}
