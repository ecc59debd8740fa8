/** `npm run workspace`, between two services: the second knows nothing of the workspace. */
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { VISIT_RULE } from "../bench/rules.ts";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";
import { runProgram } from "../support/run-program.ts";
import { Service } from "../support/service.ts";

const SIGNAL_LIMIT = 30;
let from: Service;
let to: Service;
let folder = "";
let source: ProvisionedWorkspace;

beforeAll(async () => {
  [from, to] = await Promise.all([Service.make(), Service.make()]);
  folder = mkdtempSync(path.join(os.tmpdir(), "workspace-file-"));
  source = await from.api.provision({ slug: "acme", signalLimit: SIGNAL_LIMIT, rules: [VISIT_RULE] });
  // Ten people, three signals each, of which they have a point each; five more signals are held.
  for (let n = 0; n < SIGNAL_LIMIT + 5; n++) await send(from, visit(n));
  await from.api.settled(source.id);
}, 180_000);

afterAll(async () => {
  await Promise.all([from.remove(), to.remove()]);
  rmSync(folder, { recursive: true, force: true });
});

const visit = (n: number) => ({ event: "Visit", email: `p${n % 10}@example.com`, properties: { n } });

async function send(service: Service, body: object): Promise<unknown> {
  const answer = await service.post(`signal-staging/webhook/${source.key}`, body);
  return [answer.status, ((await answer.json()) as { status?: string; code?: string }).status];
}

const command = (token: string, ...args: string[]) =>
  runProgram("src/dev/workspace.ts", args, { OPERATOR_TOKEN: token });
const exported = (into: string) => command(from.token, "export", source.id, into, "--origin", from.origin);
const imported = (...more: string[]) => command(to.token, "import", folder, "--origin", to.origin, ...more);

/** What senders, admins and bills see of a workspace. Statistics of calls are not in the file. */
async function facts(service: Service, home: string) {
  const [books, usage, people, rules, keys] = await Promise.all([
    service.api.get<object>(`${home}/books`),
    service.api.get<{ accepted: number; held: number; period_end: string }>(`${home}/usage`),
    service.api.list<{ email: string; score: number }>(`${home}/people`),
    service.api.list<object>(`${home}/rules`),
    service.api.list<{ last_used_at: string | null }>(`${home}/keys`),
  ]);
  const { accepted, held, period_end } = usage;
  const lasting = keys.map(({ last_used_at: _used, ...key }) => key);
  return { books, usage: { accepted, held, period_end }, people, rules, keys: lasting };
}

test("a command that cannot work says why, before it sends anything", async () => {
  const cases: [string, string[], string][] = [
    ["x", ["export", source.id, folder], "Usage: npm run workspace"],
    ["x", ["move", source.id, "--origin", from.origin], "Usage: npm run workspace"],
    ["x", ["export", source.id, folder, "--origins", from.origin], "Unknown option '--origins'"],
    ["", ["export", source.id, folder, "--origin", from.origin], "Set OPERATOR_TOKEN"],
    ["x", ["export", source.id, folder, "--origin", "http://signals.example.com"], "--origin is an address like"],
    ["wrong", ["export", source.id, folder, "--origin", from.origin], "/exports: 401"],
    [to.token, ["import", folder, "--origin", to.origin], "has no manifest.json"],
  ];
  for (const [token, args, text] of cases) {
    const { code, output } = await command(token, ...args);
    expect([code, output]).toEqual([1, expect.stringContaining(text)]);
    // Without the lines of an error in the program.
    expect(output).not.toMatch(/ {4}at /);
  }
  expect(await from.api.list(`${source.home}/exports`).catch(() => [])).toEqual([]);
}, 60_000);

test("the copy in another deployment has the same books, scores, rules and keys, and senders go on", async () => {
  const written = await exported(folder);
  expect(written).toMatchObject({ code: 0, output: expect.stringContaining("has the workspace acme.") });
  const before = await facts(from, source.home);
  expect(before).toMatchObject({ usage: { accepted: SIGNAL_LIMIT, held: 5 }, books: { balanced: true } });

  expect(await imported()).toMatchObject({ code: 1, output: expect.stringContaining("plan_differs") });
  await to.api.call("PUT", "plans/acme", { name: "acme", signal_limit: SIGNAL_LIMIT, paid: true });
  const part = readdirSync(folder).find((name) => name.startsWith("part-")) ?? "";
  const kept = path.join(from.scratch, part);
  copyFileSync(path.join(folder, part), kept);
  writeFileSync(path.join(folder, part), "not that part");
  expect(await imported()).toMatchObject({
    code: 1,
    output: expect.stringContaining("is not the one of the manifest"),
  });
  copyFileSync(kept, path.join(folder, part));
  expect(await imported()).toMatchObject({ code: 1, output: expect.stringContaining("deletions") });
  expect(await send(to, visit(0))).toEqual([503, 503]);
  // It goes on with the same workspace, and sends no part again.
  expect(await imported("--without-deletions")).toMatchObject({
    code: 0,
    output: expect.stringMatching(/^ws_\S+ is complete; 0 deletions/),
  });
  const copies = await to.api.list<{ id: string; slug: string }>("workspaces");
  expect(copies.map(({ slug }) => slug)).toEqual(["acme"]);
  const home = `workspaces/${copies[0]?.id}`;
  expect(await facts(to, home)).toEqual(before);
  // The key is the same, and so are its limit and what it has sent.
  expect(await send(to, visit(99))).toEqual([202, "held"]);
  expect(await send(to, visit(0))).toEqual([202, "held"]);
  expect(await to.api.settled(copies[0]?.id ?? "")).toMatchObject({ held: 7, balanced: true });

  expect(await imported()).toMatchObject({
    code: 1,
    output: expect.stringContaining(`was imported as ${copies[0]?.id}`),
  });
  // A new file in the same folder is another one, and begins another import.
  expect(await exported(folder)).toMatchObject({ code: 0 });
  const table = path.join(from.scratch, "deletions.json");
  writeFileSync(table, JSON.stringify([{ results: [{ workspace_id: "ws_other", email_hash: "of somebody else" }] }]));
  expect(await imported("--slug", "again", "--deleted-people", table)).toMatchObject({
    code: 1,
    output: expect.stringContaining("key_in_use"),
  });
}, 180_000);
