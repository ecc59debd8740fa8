/** The built service, once for all browser tests, with local sign-in and its state in a temporary folder. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestProject } from "vitest/node";
import { CLOCK_AHEAD, clockAheadMs, SHIFTED_WORKER } from "../../../src/dev/clock-ahead.ts";
import { SERVICE_CONFIG, build } from "../../bench/build.ts";
import { startEmpty } from "../../bench/start.ts";
import { fillDemo, type Demo } from "./demo.ts";

const TOKEN = "e2e-operator";

declare module "vitest" {
  interface ProvidedContext {
    /** Such as `http://127.0.0.1:40123`. */
    origin: string;
    operatorToken: string;
    /** A workspace with records of every kind, for read-only tests. */
    demo: Demo;
  }
}

export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const scratch = await mkdtemp(path.join(tmpdir(), "signal-ingestion-e2e-"));
  const entry = clockAheadMs === 0 ? undefined : SHIFTED_WORKER;
  const built = await build(SERVICE_CONFIG, path.join(scratch, "worker"), entry);
  const vars = { OPERATOR_TOKEN: TOKEN, SIGN_IN: "local", [CLOCK_AHEAD]: String(clockAheadMs) };
  const running = await startEmpty(built, { stateDir: path.join(scratch, "state"), vars });
  const tearDown = async (): Promise<void> => {
    await running.stop();
    await rm(scratch, { recursive: true, force: true });
  };
  try {
    project.provide("origin", running.origin);
    project.provide("operatorToken", TOKEN);
    project.provide("demo", await fillDemo(running, TOKEN));
  } catch (error) {
    await tearDown();
    throw error;
  }
  return tearDown;
}
