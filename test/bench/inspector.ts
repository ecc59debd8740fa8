/** The inspector of a running Worker and its objects: they share one isolate. */
import { once } from "node:events";
import type { Miniflare } from "miniflare";
import * as z from "zod";

const Targets = z.array(z.object({ title: z.string(), webSocketDebuggerUrl: z.string() }));

export type Ask = (method: string, params?: object) => Promise<unknown>;

/** @param miniflare started with an inspector; `worker` is the name of a Worker of it. */
export async function inspect<T>(miniflare: Miniflare, worker: string, act: (ask: Ask) => Promise<T>): Promise<T> {
  const { host } = await miniflare.getInspectorURL();
  const response = await fetch(`http://${host}/json/list`);
  const target = Targets.parse(await response.json()).find(({ title }) => title.endsWith(`:${worker}`));
  if (target === undefined) throw new Error(`there is no Worker ${worker} to inspect`);
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  await once(socket, "open");
  let calls = 0;
  try {
    return await act((method, params = {}) => ask(socket, ++calls, method, params));
  } finally {
    socket.close();
  }
}

function ask(socket: WebSocket, id: number, method: string, params: object): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onMessage = ({ data }: MessageEvent): void => {
      const answer = JSON.parse(String(data)) as { id?: number; result?: unknown; error?: { message: string } };
      if (answer.id !== id) return;
      socket.removeEventListener("message", onMessage);
      if (answer.error === undefined) resolve(answer.result);
      else reject(new Error(`${method}: ${answer.error.message}`));
    };
    socket.addEventListener("message", onMessage);
    socket.send(JSON.stringify({ id, method, params }));
  });
}
