/** A WebSocket that stays: opened anew before the server ends it, and after a fault, less and less often. */

/** `lost`: the connection is gone, and is being opened again. */
type StreamState = "connecting" | "live" | "lost";

const PING_MS = 25_000;
const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 30_000;

export class Stream {
  state: StreamState = "connecting";
  readonly #url: string;
  readonly #lifeMs: number;
  readonly #told: (message: unknown) => void;
  readonly #changed: () => void;
  #socket: WebSocket | null = null;
  #failures = 0;

  /** @param lifeMs milliseconds after which the server ends a connection. */
  constructor(url: string, lifeMs: number, told: (message: unknown) => void, changed: () => void) {
    this.#url = url;
    this.#lifeMs = lifeMs;
    this.#told = told;
    this.#changed = changed;
    this.#open();
  }

  #open(): void {
    const socket = new WebSocket(this.#url);
    const before = this.#socket;
    this.#socket = socket;
    let heard = true;
    const ping = setInterval(() => {
      // A ping that nothing came back for: the connection is dead, although nobody has said so.
      if (!heard) return lost();
      heard = false;
      if (socket.readyState === WebSocket.OPEN) socket.send("ping");
    }, PING_MS);
    let renew: ReturnType<typeof setTimeout> | undefined;
    const lost = (): void => {
      clearInterval(ping);
      clearTimeout(renew);
      socket.close();
      if (this.#socket !== socket) return;
      this.#socket = null;
      this.#become("lost");
      const waitMs = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** this.#failures++);
      setTimeout(() => this.#open(), waitMs * (0.5 + Math.random() / 2));
    };
    socket.addEventListener("open", () => {
      // The old connection ends only when the new one is open, so that nothing is missed in between.
      before?.close();
      this.#failures = 0;
      this.#become("live");
      renew = setTimeout(() => this.#open(), this.#lifeMs * 0.9);
    });
    socket.addEventListener("message", ({ data }) => {
      heard = true;
      if (data !== "pong") this.#told(JSON.parse(String(data)));
    });
    socket.addEventListener("close", lost);
  }

  #become(state: StreamState): void {
    this.state = state;
    this.#changed();
  }
}
