/** `wrangler dev` alone in a fresh clone: no tables, and no local sign-in. Its answers say what to run. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import worker from "../../../src/index.ts";
import { expectLogged } from "../../support/logged.ts";

async function answered(path: string, bindings: Env, init: RequestInit = {}) {
  const context = createExecutionContext();
  const answer = await worker.fetch(new Request(path, init), bindings, context);
  await waitOnExecutionContext(context);
  return { status: answer.status, text: await answer.text() };
}

describe("at localhost", () => {
  test("a call says that the database has no tables", async () => {
    expectLogged("error");
    const prepare = () => {
      throw new Error("D1_ERROR: no such table: api_keys: SQLITE_ERROR");
    };
    const bindings = { ...env, DB: { prepare, withSession: () => ({ prepare }) } as object as D1Database };
    const init = { headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` } };
    const here = await answered("http://localhost:8787/operator/plans", bindings, init);
    expect(here).toMatchObject({ status: 503, text: expect.stringContaining("npm run dev") });
    const elsewhere = await answered("https://signals.example/operator/plans", bindings, init);
    expect(elsewhere.status).toBe(503);
    expect(elsewhere.text).not.toContain("npm run dev");
  });

  test("a page says how local sign-in is switched on", async () => {
    const bindings = { ...env, SIGN_IN: "access", ACCESS_AUD: "aud" } as Env;
    const here = await answered("http://localhost:8787/w/acme", bindings);
    expect(here).toMatchObject({ status: 401, text: expect.stringContaining("npm run dev") });
    expect((await answered("https://signals.example/w/acme", bindings)).text).not.toContain("npm run dev");
  });
});
