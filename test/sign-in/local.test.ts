/**
 * Design §10: local sign-in as `npm run dev` runs it, behind the development proxy, against a page whose host name
 * resolves to this machine (DNS rebinding). Its scripts choose every header except those that only a browser may set.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { OperatorClient, type WorkspaceAnswer } from "../../src/dev/operator-client.ts";
import { applyMigrations, startService, type Service } from "../../src/dev/local-service.ts";

const EVIL = "evil.example:8787";
const MEMBER = "owner@acme.example";
const TOKEN = "local-test-operator";

let scratch: string;
let service: Service;

beforeAll(async () => {
  scratch = await mkdtemp(path.join(tmpdir(), "signal-ingestion-local-"));
  const vars = path.join(scratch, "test.vars");
  await writeFile(vars, `OPERATOR_TOKEN=${TOKEN}\n`);
  await applyMigrations(scratch);
  const args = ["--inspector-port", "0", "--env-file", vars, "--var", "SIGN_IN:local"];
  service = await startService({ stateDir: scratch, port: "0", args });
  const operator = new OperatorClient(service.origin, TOKEN);
  const { id } = await operator.post<WorkspaceAnswer>("workspaces", { slug: "acme", name: "Acme", plan: "free" });
  await operator.post(`workspaces/${id}/members`, { email: MEMBER, role: "owner" });
});

afterAll(async () => {
  await service?.stop();
  await rm(scratch, { recursive: true, force: true });
});

/** `fetch` sets the Host header itself. */
function ask(
  method: "GET" | "POST",
  to: string,
  headers: Record<string, string>,
): Promise<{ status: number; body: string; cookies: string[] }> {
  return new Promise((resolve, reject) => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    const asked = request(service.origin + to, { method, headers: { ...form, ...headers } }, (answer) => {
      let body = "";
      answer.setEncoding("utf8").on("data", (text: string) => (body += text));
      answer.on("end", () => {
        resolve({ status: answer.statusCode ?? 0, body, cookies: answer.headers["set-cookie"] ?? [] });
      });
    });
    asked.on("error", reject).end(method === "POST" ? `email=${MEMBER}` : undefined);
  });
}

/** The value that the proxy takes as the address, and so as the Host header. */
const renamed = (to: string) => ({ host: EVIL, "mf-original-url": service.origin + to });

test("a browser at this machine's own name sees the members and signs in as any of them", async () => {
  const seen = await ask("GET", "/sign-in", { "sec-fetch-site": "none" });
  expect([seen.status, seen.body.includes(MEMBER)]).toEqual([200, true]);
  const signedIn = await ask("POST", "/sign-in/local", { origin: service.origin });
  expect([signedIn.status, signedIn.cookies.length]).toEqual([303, 1]);
});

test("under another host name local sign-in answers nothing, even with the right operator token", async () => {
  for (const to of ["/sign-in", "/w/", "/operator/workspaces", "/docs", "/healthz"]) {
    const answer = await ask("GET", to, { host: EVIL, authorization: `Bearer ${TOKEN}`, "sec-fetch-site": "none" });
    expect([to, answer.status]).toEqual([to, 403]);
  }
});

test("a script on another host that sends this host's name sees no members and cannot sign in", async () => {
  for (const disguise of [{}, { "mf-sec-fetch-mode": "navigate" }]) {
    const seen = await ask("GET", "/sign-in", { ...renamed("/sign-in"), ...disguise });
    expect(seen.body).not.toContain(MEMBER);
    // A script cannot omit or change the headers that the browser sets itself.
    for (const origin of [`http://${EVIL}`, "null"]) {
      const posted = await ask("POST", "/sign-in/local", { ...renamed("/sign-in/local"), ...disguise, origin });
      expect([posted.status, posted.cookies]).toEqual([403, []]);
    }
  }
});
