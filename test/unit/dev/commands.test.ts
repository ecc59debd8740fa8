/** What the commands of the repository say when they are called in a wrong way. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import os from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { readSections } from "../../../src/dev/deploy/deploy-checks.ts";
import { OperatorClient } from "../../../src/dev/operator-client.ts";
import { runProgram } from "../../support/run-program.ts";

test.each([
  ["demo.ts", ["--help"], "Usage: npm run demo"],
  ["demo.ts", ["--origin"], "Usage: npm run demo"],
  ["deploy/setup.ts", [], "Usage: npm run deploy:setup"],
  ["deploy/setup.ts", ["--help"], "Usage: npm run deploy:setup"],
  ["deploy/setup.ts", ["eu"], "Usage: npm run deploy:setup"],
  ["deploy/setup.ts", ["--jurisdiction", "eu", "--env", "none"], "wrangler.toml has no [env.none]."],
  ["workspace.ts", ["--help"], "Usage: npm run workspace"],
  ["start.ts", ["--port"], "--port needs a value."],
  ["start.ts", ["--persist-to", import.meta.filename], `--persist-to ${import.meta.filename}: EEXIST`],
])("%s %j answers in words, without the lines of an error in the program", async (file, args, text) => {
  const { code, output } = await runProgram(path.join("src/dev", file), args, {});
  expect([code, output]).toEqual([1, expect.stringContaining(text)]);
  expect(output).not.toMatch(/^ {4}at /m);
});

test("a fault in wrangler.toml is named with its line", () => {
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), "sections-")), "wrangler.toml");
  writeFileSync(file, 'name = "x"\n[vars\n');
  expect(() => readSections(file)).toThrow("wrangler.toml, line 2 cannot be used:\n\nInvalid TOML document");
});

test("a deployment that does not answer is named, with the cause", async () => {
  const client = new OperatorClient("http://localhost:1", "token");
  await expect(client.get("plans")).rejects.toThrow(
    /^http:\/\/localhost:1 does not answer: .*(?:ECONNREFUSED|bad port)/,
  );
});

test("Ctrl-C ends npm run workspace while it waits for an answer", async () => {
  const server = createServer().listen(0);
  const asked = once(server, "request");
  const { port } = server.address() as AddressInfo;
  const args = ["src/dev/workspace.ts", "export", "ws_1", os.tmpdir(), "--origin", `http://localhost:${port}`];
  const child = spawn(process.execPath, args, { env: { ...process.env, OPERATOR_TOKEN: "token" } });
  try {
    await asked;
    child.kill("SIGINT");
    expect(await once(child, "close")).toEqual([null, "SIGINT"]);
  } finally {
    child.kill("SIGKILL");
    server.closeAllConnections();
    server.close();
  }
}, 20_000);

test("deploy:setup names a database that the account has and wrangler.toml has not, and makes none", async () => {
  const asked: string[] = [];
  const databases = [{ uuid: "0b6a1f6e-1111-4222-8333-444455556666", name: "signal-ingestion" }];
  const account = createServer((request, response) => {
    asked.push(`${request.method} ${request.url?.split("?")[0]}`);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ success: true, errors: [], messages: [], result: databases }));
  }).listen(0);
  const { port } = account.address() as AddressInfo;
  try {
    const { code, output } = await runProgram("src/dev/deploy/setup.ts", ["--jurisdiction", "none"], {
      CLOUDFLARE_API_BASE_URL: `http://localhost:${port}`,
      CLOUDFLARE_API_TOKEN: "token",
      CLOUDFLARE_ACCOUNT_ID: "account",
      WRANGLER_SEND_METRICS: "false",
      WRANGLER_LOG: "log",
    });
    expect([code, output]).toEqual([
      1,
      expect.stringContaining('If it is yours: database_id = "0b6a1f6e-1111-4222-8333-444455556666"'),
    ]);
    expect(asked).toEqual(["GET /accounts/account/d1/database"]);
  } finally {
    account.closeAllConnections();
    account.close();
  }
}, 60_000);
