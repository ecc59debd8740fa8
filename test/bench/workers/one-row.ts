/** The baseline for durability: each call parses its body and calls one object, which writes one row. */
import { DurableObject } from "cloudflare:workers";
import { Hono } from "hono";

interface Env {
  ROWS: DurableObjectNamespace<Rows>;
}

export class Rows extends DurableObject<Env> {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)");
  }

  write(body: string): void {
    this.ctx.storage.sql.exec("INSERT INTO rows (body) VALUES (?)", body);
  }
}

const app = new Hono<{ Bindings: Env }>();

app.post("*", async (c) => {
  const body = await c.req.text();
  const signal: unknown = JSON.parse(body);
  await c.env.ROWS.getByName("bench").write(body);
  return c.json({ status: "accepted", present: signal !== null }, 202);
});

export default app;
