/** `npm run demo -- --origin`, against a service that runs already: it proves the promises there, and leaves no workspace. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { runProgram } from "../support/run-program.ts";
import { Service } from "../support/service.ts";

let service: Service;

beforeAll(async () => {
  service = await Service.make();
}, 120_000);

afterAll(() => service.remove());

const prove = (origin: string, token = "") =>
  runProgram("src/dev/demo.ts", ["--origin", origin], { OPERATOR_TOKEN: token });

test("a running deployment keeps the promises, and has one workspace less afterwards", async () => {
  const before = await service.api.list("workspaces");
  const { code, output } = await prove(service.origin, service.token);
  expect(output).not.toContain("✗");
  expect(output.match(/✓/g)).toHaveLength(7);
  expect(output).toContain("200 accepted, 200 held, 50 rejected");
  expect(output).toMatch(/signals +\d+ +\d+ +\d+ +\d+\n/);
  expect(code).toBe(0);
  expect(await service.api.list("workspaces")).toEqual(before);
}, 180_000);

test.each([
  [
    "a wrong token",
    () => [service.origin, "wrong"],
    "Check --origin and OPERATOR_TOKEN.\nPUT /operator/plans/proof: 401",
  ],
  ["no token", () => [service.origin], "Set OPERATOR_TOKEN"],
  ["an address that nobody answers", () => ["http://127.0.0.1:1", "x"], "Check --origin and OPERATOR_TOKEN."],
  ["an address without TLS", () => ["http://signals.example.com", "x"], "--origin is an address like https://"],
] as const)("%s is named, and nothing is sent", async (_, made, text) => {
  const [origin, token] = made();
  const { code, output } = await prove(origin ?? "", token);
  expect(output).toContain(text);
  expect(code).toBe(1);
});
