export type MappingOperator =
  | "equals"
  | "not_equals"
  | "contains"
  | "not_contains"
  | "starts_with"
  | "ends_with"
  | "in"
  | "greater_than"
  | "greater_or_equal"
  | "less_than"
  | "less_or_equal"
  | "exists"
  | "not_exists"
  | "is_true"
  | "is_false";
export interface MappingCondition {
  path: string;
  operator: MappingOperator;
  value?: string | number | boolean | (string | number | boolean)[];
}
export interface MappingRule {
  id: string;
  version: number;
  event: string;
  match: "all" | "any";
  conditions: MappingCondition[];
  scoringSignal: string;
  points: number;
}
