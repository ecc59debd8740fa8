/** Body limits of the operator API and the pages; worker/ingest has those of the ingestion endpoints. */
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { OPERATOR_BODY_MAX_BYTES } from "../../../src/operator/operation.ts";
import { call } from "../../support/workspace.ts";

const OPERATOR = { authorization: `Bearer ${env.OPERATOR_TOKEN}` };

test.each(["/operator/plans", "/sign-in"])(
  "a GET of %s that comes with a body of unknown length is answered",
  async (path) => {
    const answer = await call(path, { headers: { ...OPERATOR, "transfer-encoding": "chunked" } });
    await answer.body?.cancel();
    expect(answer.status).toBe(200);
  },
);

test("limits the body of the operator API, with and without a declared length", async () => {
  const statusOf = async (bytes: number, headers: Record<string, string>) => {
    const body = "{}".padEnd(bytes);
    const answer = await call("/operator/plans/limited", { method: "PUT", headers: { ...OPERATOR, ...headers }, body });
    await answer.body?.cancel();
    return answer.status;
  };
  for (const headers of [{}, { "transfer-encoding": "chunked" }]) {
    expect(await statusOf(OPERATOR_BODY_MAX_BYTES, headers)).toBe(422);
    expect(await statusOf(OPERATOR_BODY_MAX_BYTES + 1, headers)).toBe(413);
  }
});
