/** Which rules have been applied to what is stored. */

/** Whether rules of this version of the workspace are older than one that is, or was, applied to what is stored. */
export function isStale(sql: SqlStorage, rulesVersion: number): boolean {
  return sql.exec("SELECT 1 FROM rule_jobs WHERE rules_version > ? LIMIT 1", rulesVersion).toArray().length > 0;
}
