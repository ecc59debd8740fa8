/** Runs a migration of an object's tables again, split into statements as drizzle-kit does. */
export function migrate(sql: SqlStorage, migration: string): void {
  for (const statement of migration.split("--> statement-breakpoint")) sql.exec(statement);
}
