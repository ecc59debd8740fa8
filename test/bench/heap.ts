/** The memory of a Worker and its objects after garbage collection, read from its inspector. */
import { once } from "node:events";
import type { Miniflare } from "miniflare";
import * as z from "zod";

const Targets = z.array(z.object({ title: z.string(), webSocketDebuggerUrl: z.string() }));
const Usage = z.object({ usedSize: z.number(), backingStorageSize: z.number().default(0) });

/** @param miniflare started with an inspector; `worker` is the name of a Worker of it. */
export async function heapBytes(miniflare: Miniflare, worker: string): Promise<number> {
  const { host } = await miniflare.getInspectorURL();
  const response = await fetch(`http://${host}/json/list`);
  const target = Targets.parse(await response.json()).find(({ title }) => title.endsWith(`:${worker}`));
  if (target === undefined) throw new Error(`there is no Worker ${worker} to inspect`);
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  await once(socket, "open");
  try {
    await ask(socket, 1, "HeapProfiler.enable");
    await ask(socket, 2, "HeapProfiler.collectGarbage");
    const { usedSize, backingStorageSize } = Usage.parse(await ask(socket, 3, "Runtime.getHeapUsage"));
    return usedSize + backingStorageSize;
  } finally {
    socket.close();
  }
}

function ask(socket: WebSocket, id: number, method: string): Promise<unknown> {
  return new Promise((resolve) => {
    const onMessage = ({ data }: MessageEvent): void => {
      const answer = JSON.parse(String(data)) as { id?: number; result?: unknown };
      if (answer.id !== id) return;
      socket.removeEventListener("message", onMessage);
      resolve(answer.result);
    };
    socket.addEventListener("message", onMessage);
    socket.send(JSON.stringify({ id, method }));
  });
}
