import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { originOf, PROJECT_DIR, startFailure } from "../../../src/dev/local-service.ts";

test.each([
  [{ ip: "127.0.0.1", port: 8787 }, "http://127.0.0.1:8787"],
  [{ ip: "::", port: 8788 }, "http://localhost:8788"],
  // Wrangler names no port where it is the default of the protocol.
  [{ ip: "localhost", port: null }, "http://localhost:80"],
])("the service at %j is at %s", (ready, origin) => expect(originOf(ready, "80")).toBe(origin));

test("a mistyped option is named, without wrangler's help", () => {
  const output = "\u001b[31m✘ [ERROR]\u001b[0m \u001b[1mUnknown argument: prot\u001b[0m\n\nwrangler dev [script]\n";
  expect(startFailure(output)).toBe(
    "The service did not start: unknown option prot. `npm run dev -- --help` lists the options.",
  );
  expect(startFailure("Address in use")).toBe("The service did not start:\nAddress in use");
});

test("--help lists the options of npm run dev, and starts nothing", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    path.join(PROJECT_DIR, "src/dev/start.ts"),
    "--help",
  ]);
  for (const option of ["--port", "--persist-to", "--sample", "--help"]) expect(stdout).toContain(option);
  expect(stdout).not.toContain("Starting");
});
