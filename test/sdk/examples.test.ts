/** Each file of examples/ works as it stands, against the built service. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Service } from "../support/service.ts";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";

const EXAMPLES = path.join(import.meta.dirname, "../../examples");
const run = promisify(execFile);

let service: Service;
let workspace: ProvisionedWorkspace;
let receiver: ChildProcess | undefined;

beforeAll(async () => {
  service = await Service.make({ vars: { SIGN_IN: "local" } });
  workspace = await service.api.provision({ slug: "examples" });
});

afterAll(async () => {
  receiver?.kill();
  await service?.remove();
});

async function printedBy(command: string, file: string): Promise<string> {
  const env = {
    ...process.env,
    WEBHOOK_URL: `${service.origin}/api/signal-staging/webhook/${workspace.key}`,
    OPERATOR_URL: `${service.origin}/operator/workspaces/${workspace.id}`,
    OPERATOR_TOKEN: service.token,
  };
  const { stdout } = await run(command, [path.join(EXAMPLES, file)], { env });
  return stdout;
}

/** @returns the events of the recorded signals, by person. */
async function recorded(): Promise<string[]> {
  await service.api.settled(workspace.id);
  const signals = await service.api.list<{ event: string; email: string | null }>(`workspaces/${workspace.id}/signals`);
  return signals.map(({ event, email }) => `${event}, ${email}`);
}

test.each([
  ["sh", "curl.sh", '"status":"accepted"', ["Order Completed, jane@example.com"]],
  [process.execPath, "node.mjs", "status: 'accepted'", ["Signed Up, jane@example.com"]],
  ["python3", "python.py", "'status': 'accepted'", ["Opened Email, jane@example.com"]],
  [
    process.execPath,
    "batch.mjs",
    "202: 2 accepted\nsignal 2: event_missing",
    ["Attended Webinar, jane@example.com", "Attended Webinar, joe@example.com"],
  ],
  [process.execPath, "segment.mjs", "sent", ["Demo Requested, jane@example.com"]],
  [process.execPath, "template.mjs", "status: 'accepted'", ["form.submitted, jane@example.com"]],
])("%s examples/%s sends its signals", async (command, file, printed, events) => {
  // Python is the sender's, not a tool of this project.
  if (command === "python3" && !(await run("python3", ["--version"]).then(Boolean, () => false))) return;
  expect(await printedBy(command, file)).toContain(printed);
  expect(await recorded()).toEqual(expect.arrayContaining(events));
});

test("examples/receiver.mjs takes a signed notification once, and rejects any other call", async () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLasw";
  receiver = spawn(process.execPath, [path.join(EXAMPLES, "receiver.mjs")], {
    env: { ...process.env, SECRET: secret, PORT: "0" },
  });
  let printed = "";
  receiver.stdout?.on("data", (text: Buffer) => (printed += String(text)));
  await expect.poll(() => printed).toContain("listening on");
  const url = `http://127.0.0.1:${/listening on (\d+)/.exec(printed)?.[1]}/`;
  const { Webhook } = await import("standardwebhooks");
  const body = JSON.stringify({ type: "person.score_crossed", data: { email: "jane@example.com", score: 55 } });
  const at = new Date();
  const headers = {
    "webhook-id": "ntf_1",
    "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
    "webhook-signature": new Webhook(secret).sign("ntf_1", at, body),
  };
  const post = async (sent: string) => (await fetch(url, { method: "POST", headers, body: sent })).status;
  expect([await post(body), await post(body), await post(`${body} `)]).toEqual([204, 204, 400]);
  await expect.poll(() => printed.match(/person\.score_crossed/g)).toHaveLength(1);
});
