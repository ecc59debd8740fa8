/** Brings a Signal Store's tables to the newest schema. */
import { drizzle } from "drizzle-orm/durable-sqlite";
import { migrate } from "drizzle-orm/durable-sqlite/migrator";
import migrations from "../../migrations/signal-store/migrations.js";

export function migrateStore(storage: DurableObjectStorage): Promise<void> {
  return migrate(drizzle(storage), migrations);
}
