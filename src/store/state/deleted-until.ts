/** How far retention has come. */

/** Receipt of the latest signal deleted so far, in milliseconds since 1970; 0 when there was none. */
export function deletedUntilMs(sql: SqlStorage): number {
  return sql.exec<{ at: number }>("SELECT deleted_until AS at FROM retention WHERE id = 1").toArray()[0]?.at ?? 0;
}
