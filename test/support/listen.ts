/** An HTTP server on a free port of this machine. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

export interface Listener {
  origin: string;
  /** Also ends the open connections. */
  close(): void;
}

export async function listen(handle: RequestListener): Promise<Listener> {
  const server = createServer(handle);
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** A receiver of notifications that accepts everything. */
export function listenAndAccept(): Promise<Listener> {
  return listen((request, response) => void request.resume().once("end", () => response.end()));
}
