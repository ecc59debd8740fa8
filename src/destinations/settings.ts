/** What holds for all destinations of the workspace: the thresholds, and whether its sources have yet to be told of a change. */

export class Settings {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  get thresholds(): number[] {
    return JSON.parse(this.#read("thresholds") ?? "[]") as number[];
  }

  set thresholds(thresholds: number[]) {
    this.#write("thresholds", JSON.stringify(thresholds));
  }

  /** Id of the latest change that the sources have not been told; null: they know all. */
  get untold(): string | null {
    return this.#read("untold");
  }

  /** Notes that what the sources are to raise may have changed. */
  changed(): void {
    this.#write("untold", crypto.randomUUID());
  }

  /** Notes that the sources know of a change, unless there was another one meanwhile. */
  told(change: string): void {
    this.#sql.exec("DELETE FROM settings WHERE name = 'untold' AND value = ?", change);
  }

  /** When the keys were last looked at, and deliveries that are over were cleared away, in milliseconds since 1970. */
  get choreMs(): number {
    return Number(this.#read("chore_ms") ?? 0);
  }

  set choreMs(atMs: number) {
    this.#write("chore_ms", String(atMs));
  }

  #read(name: string): string | null {
    const [row] = this.#sql.exec<{ value: string }>("SELECT value FROM settings WHERE name = ?", name).toArray();
    return row?.value ?? null;
  }

  #write(name: string, value: string): void {
    this.#sql.exec("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", name, value);
  }
}
