/** The cost of notifying two destinations: some of the shapes' traffic again, in a workspace with destinations. */
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { startService } from "../contestants.ts";
import type { BuiltWorkers, Contestant } from "../contestants.ts";
import { OperatorApi } from "../operator-api.ts";
import { BATCHES, SLOW, STEADY, measureShapes } from "./shapes.ts";
import type { Measured, Shape } from "./shapes.ts";

const SHAPES_MEASURED: readonly Shape[] = [SLOW, STEADY, BATCHES];
const DESTINATIONS = 2;
const EVENTS = ["person.scored", "person.score_crossed", "usage.level", "period.closed", "dead_letters.added"];
/** Every score is compared with it and none reaches it, because a crossing is a separate delivery; see events.ts. */
const THRESHOLDS = [1_000_000];
const TOKEN = "bench";

export interface Telling {
  contestant: Contestant;
  receivers: Server[];
}

export async function startTelling(
  workers: Pick<BuiltWorkers, "service" | "sink">,
  stateDir: string,
): Promise<Telling> {
  // Receivers on this machine are allowed only with local sign-in.
  const contestant = await startService("service", workers, stateDir, { SIGN_IN: "local" });
  const api = new OperatorApi(contestant.running.origin, TOKEN);
  const found = (await api.list<{ id: string; slug: string }>("workspaces")).find(({ slug }) => slug === "bench");
  if (found === undefined) throw new Error("there is no workspace to tell of");
  const receivers = await Promise.all(Array.from({ length: DESTINATIONS }, listen));
  for (const [index, receiver] of receivers.entries()) {
    const target = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
    const wanted = { name: `Receiver ${index}`, type: "webhook", target, events: EVENTS };
    await api.post(`workspaces/${found.id}/destinations`, wanted);
  }
  await api.call("PUT", `workspaces/${found.id}/thresholds`, { thresholds: THRESHOLDS });
  return { contestant, receivers };
}

export async function measureDestinations({ contestant, receivers }: Telling): Promise<Measured[]> {
  try {
    return (await measureShapes(contestant, SHAPES_MEASURED)).measured;
  } finally {
    for (const receiver of receivers) receiver.close();
  }
}

/** Takes everything. */
function listen(): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume().once("end", () => response.end());
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(server));
  });
}
