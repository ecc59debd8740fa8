/**
 * Invariant 2 on a full disk: the built Worker on a small file system in memory, filled to the last page by a ballast
 * file. `npm run test:longer -- crash --disk 64M`: mounting requires root rights, so that it is no part of `npm test`.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";
import { expectProcessed } from "./support/until-killed.ts";
import { Service } from "../support/service.ts";
import { note } from "../support/amount.ts";

const DISK = process.env["CRASH_DISK"];
const CONNECTIONS = 8;
const CALLS_WHILE_FULL = 200;
/** The free space beside the ballast: about 100 signals. */
const LEFT_BYTES = 6 * 1024 * 1024;
const PAYLOAD_BYTES = 20_000;

let service: Service | undefined;
let workspace: ProvisionedWorkspace;
let sent = 0;
const acknowledged: string[] = [];

/** Whether a file system of that size could be mounted where the service keeps its state. */
function mount(directory: string, size: string): boolean {
  mkdirSync(directory);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", directory], { stdio: "pipe" });
    return true;
  } catch (error) {
    note(`full disk: skipped, for nothing can be mounted here: ${String(error)}`);
    return false;
  }
}

beforeAll(async () => {
  if (DISK === undefined) return;
  const built = await Service.shifted();
  if (!mount(built.stateDir, DISK)) return built.remove();
  service = built;
  await service.startEmpty();
  workspace = await service.api.provision();
});

afterAll(async () => {
  await service?.stop();
  if (service !== undefined) execFileSync("umount", [service.stateDir]);
  await service?.remove();
});

/** Posts an incompressible signal. @returns the status: 202, or 503 with a Retry-After. */
async function post(): Promise<number> {
  if (service === undefined) throw new Error("there is no service");
  const text = Buffer.from(crypto.getRandomValues(new Uint8Array((PAYLOAD_BYTES * 3) / 4))).toString("base64");
  const n = sent++;
  const signal = { email: `p${n % 20}@example.com`, event: "Visit", messageId: `message ${n}`, text };
  const answer = await service.post(`signal-staging/webhook/${workspace.key}`, signal);
  const answerText = await answer.text();
  expect([202, 503], answerText).toContain(answer.status);
  if (answer.status === 202) acknowledged.push((JSON.parse(answerText) as { id: string }).id);
  else expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
  return answer.status;
}

async function postMany(calls: number): Promise<number[]> {
  const statuses: number[] = [];
  const sender = async () => {
    while (statuses.length < calls) statuses.push(await post());
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, sender));
  return statuses;
}

test("a full disk answers 503, loses no acknowledged signal, and recovers once there is room", async ({ skip }) => {
  if (service === undefined) return skip("needs --disk, and the right to mount");
  const { stateDir } = service;
  const ballast = path.join(stateDir, "ballast");
  await postMany(50);
  const { bavail, bsize } = statfsSync(stateDir);
  writeFileSync(ballast, new Uint8Array(bavail * bsize - LEFT_BYTES));

  const filling = await postMany(1_000);
  expect(filling).toContain(503);
  expect(statfsSync(stateDir).bavail * bsize).toBeLessThan(LEFT_BYTES);
  const whileFull = await postMany(CALLS_WHILE_FULL);
  expect(whileFull).toContain(503);

  rmSync(ballast);
  await expect.poll(post, { timeout: 120_000, interval: 500 }).toBe(202);
  const rejected = [...filling, ...whileFull].filter((status) => status === 503).length;
  note(`full disk: ${acknowledged.length} answered with 202, ${rejected} with 503`);
  await expectProcessed(service, workspace, acknowledged);
}, 600_000);
