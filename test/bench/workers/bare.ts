/** The baseline: parses the JSON body of any POST and answers 202, without decisions or storage. */
import { Hono } from "hono";

const app = new Hono();

app.post("*", async (c) => {
  const signal: unknown = await c.req.json();
  return c.json({ status: "accepted", present: signal !== null }, 202);
});

export default app;
