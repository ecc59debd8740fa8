/** Runs a migration of an object's tables once more: its statements, as drizzle-kit divides them. */
export function migrate(sql: SqlStorage, migration: string): void {
  for (const statement of migration.split("--> statement-breakpoint")) sql.exec(statement);
}
