/** Workspaces of a given size, created and filled before the measurement. */
import { DAY_MS } from "../../src/domain/duration.ts";
import { OperatorApi } from "./operator-api.ts";
import type { BuiltWorker } from "./build.ts";
import type { FillOrder, FillerCall, LapseStep, StoreSize, TrafficName, Written, WorkspaceSize } from "./fill-order.ts";
import { rulesOf } from "./growth-traffic.ts";
import type { BenchRule } from "./rules.ts";
import { ask, start, startEmpty, type RunningWorker } from "./start.ts";

export interface FilledWorkspace {
  size: WorkspaceSize;
  id: string;
  slug: string;
  key: string;
  order: FillOrder;
  /** The number of the next signal. */
  sent: number;
}

/** A workspace to create, and its content. */
export interface WantedWorkspace {
  size: WorkspaceSize;
  traffic: TrafficName;
  rules: BenchRule[];
  /** The receipt of the first signal, at which the billing period begins, and of the last one. */
  startMs: number;
  endMs: number;
}

/** The request rate must not limit the bench. Everything else is as deployed. */
export const VARS = {
  REQUEST_RATE_PER_SECOND: "1000000",
  REQUEST_BURST: "1000000",
  OPERATOR_TOKEN: "bench",
  SIGN_IN: "local",
};
/** Age of the billing period of the growth bench and of its signals. */
const AGE_MS = 20 * DAY_MS;
/** Signals per call of the filler. */
const FILL_SIGNALS = 50_000;
/** Signals per recording if only the result matters. */
const FILL_BATCH = 2_000;

/**
 * Creates workspaces in the state folder for a service that starts on it afterwards. Payloads are in cold storage,
 * except the latest.
 */
export async function fillWorkspaces(
  service: BuiltWorker,
  filler: BuiltWorker,
  stateDir: string,
  sizes: readonly WorkspaceSize[],
): Promise<FilledWorkspace[]> {
  const endMs = Date.now();
  const wanted = sizes.map((size): WantedWorkspace => {
    return { size, traffic: "visits", rules: rulesOf(size.rules), startMs: endMs - AGE_MS, endMs };
  });
  const workspaces = await provision(service, stateDir, wanted);
  const filling = await Filler.start(filler, stateDir);
  try {
    for (const workspace of workspaces) {
      await filling.record(workspace.order);
      await filling.cool(workspace);
    }
  } finally {
    await filling.stop();
  }
  return workspaces;
}

/** Client of workers/fill.ts, which fills workspaces instead of the service. */
export class Filler {
  readonly running: RunningWorker;

  private constructor(running: RunningWorker) {
    this.running = running;
  }

  static async start(filler: BuiltWorker, stateDir: string): Promise<Filler> {
    return new Filler(await start(filler, { stateDir }));
  }

  /** @returns the rows that the store wrote. */
  async record(order: FillOrder): Promise<Written> {
    const written: Written = { recording: 0, linking: 0, chores: 0, alarms: 0, statements: {} };
    const step = Math.max(order.batch, FILL_SIGNALS - (FILL_SIGNALS % order.batch));
    for (let from = order.from; from < order.to; from += step) {
      const part = await this.#call<Written>({ call: "fill", ...order, from, to: Math.min(from + step, order.to) });
      for (const [statement, rows] of Object.entries(part.statements))
        written.statements[statement] = (written.statements[statement] ?? 0) + rows;
      for (const kind of ["recording", "linking", "chores", "alarms"] as const) written[kind] += part[kind];
    }
    return written;
  }

  /** Moves the payloads of sealed segments to R2. @returns the rows that the store wrote. */
  cool({ id }: { id: string }): Promise<Written> {
    return this.#call({ call: "cool", workspaceId: id });
  }

  size({ id }: { id: string }): Promise<StoreSize> {
    return this.#call({ call: "size", workspaceId: id });
  }

  lapse({ id }: { id: string }, nowMs: number): Promise<LapseStep> {
    return this.#call({ call: "lapse", workspaceId: id, nowMs });
  }

  stop(): Promise<void> {
    return this.running.stop();
  }

  #call<Answer>(call: FillerCall): Promise<Answer> {
    return ask(this.running.origin, call);
  }
}

/** Creates empty workspaces. */
export async function provision(
  service: BuiltWorker,
  stateDir: string,
  wanted: readonly WantedWorkspace[],
): Promise<FilledWorkspace[]> {
  const running = await startEmpty(service, { stateDir, vars: VARS });
  try {
    const api = new OperatorApi(running.origin, VARS.OPERATOR_TOKEN);
    const workspaces: FilledWorkspace[] = [];
    for (const [index, { size, traffic, rules, startMs, endMs }] of wanted.entries()) {
      const slug = `bench-${index}`;
      const { id, keyId, key } = await api.provision({ slug, rules, anchorMs: startMs });
      const range = { from: 0, to: size.signals, startMs, endMs };
      const order = { workspaceId: id, keyId, traffic, size, ...range, batch: FILL_BATCH, alarms: false };
      workspaces.push({ size, id, slug, key, order, sent: size.signals });
    }
    return workspaces;
  } finally {
    await running.stop();
  }
}
