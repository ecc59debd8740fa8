/** The rules that were in force when something was recorded, linked, or applied to the past. */
export interface RuleVersions {
  /** The version of all of a workspace's rules together; 0: nothing was applied. */
  workspace: number;
  rules: [ruleId: string, version: number][];
}
