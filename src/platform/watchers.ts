/**
 * People who watch what a Durable Object does, over WebSockets that let it sleep (hibernation). With nobody watching the
 * cost is one look at a boolean: nothing is read, built or sent. Nothing here may delay or fail what is watched.
 */
import type { LiveMessage } from "./live-message.ts";
import { LIVE_SOCKET_MS } from "../limits.ts";
import { errorText, logEvent } from "./log.ts";
import { RestorableObject } from "./restorable-object.ts";

/** People who may watch one workspace's signals at a time, and as many its refusals: each costs every message. */
export const LIVE_MAX_WATCHERS = 50;
/** Rows a second that a watcher is sent, more than anyone reads; the rest is summed up. */
export const LIVE_ROWS_PER_SECOND = 20;
/** Connections of one watcher: tabs, each with two while it is renewed. */
export const LIVE_MAX_OF_ONE_WATCHER = 10;

/** Close code of a connection that has lived long enough: to be opened again, which asks for sign-in and membership. */
const LIVE_AGAIN = 4000;

/** Header of the upgrade that names the watcher, by whom the connection is known until it is ended. */
export const WATCHER_HEADER = "x-watcher";

const SECOND_MS = 1_000;

class Watchers<Row> {
  readonly #ctx: DurableObjectState;
  #watched: boolean;
  #rows: Row[] = [];
  #more = 0;
  #timer = false;
  #sentAtMs = 0;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    // Connections outlive the object's memory.
    this.#watched = ctx.getWebSockets().length > 0;
  }

  /** Answers the upgrade of somebody who may watch: whether they may has been decided by the caller. */
  accept(request: Request): Response {
    if (request.headers.get("upgrade") !== "websocket") return new Response(null, { status: 426 });
    this.#endOld(Date.now());
    const watcher = request.headers.get(WATCHER_HEADER) ?? "";
    // One watcher's tabs must not keep others from watching.
    if (this.#ctx.getWebSockets(watcher).length >= LIVE_MAX_OF_ONE_WATCHER) return new Response(null, { status: 429 });
    if (this.#ctx.getWebSockets().length >= LIVE_MAX_WATCHERS) return new Response(null, { status: 503 });
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [watcher]);
    server.serializeAttachment(Date.now() + LIVE_SOCKET_MS);
    // The ping, by which a page notices a dead connection, is answered without waking the object.
    this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    this.#watched = true;
    return new Response(null, { status: 101, webSocket: client });
  }

  /**
   * Tells of `count` things that have happened.
   *
   * @param read gives the first `limit` of them, or fewer; called only when somebody watches and there is room.
   */
  tell(count: number, read: (limit: number) => Row[]): void {
    if (!this.#watched) return;
    try {
      const limit = Math.min(count, LIVE_ROWS_PER_SECOND - this.#rows.length);
      if (limit > 0) this.#rows.push(...read(limit));
      this.#more += count - Math.max(0, limit);
      this.#sendSoon();
    } catch (error) {
      logEvent("live_failed", { error: errorText(error) });
    }
  }

  /** Ends the connections of somebody who may not watch any more; another session of theirs opens its own anew. */
  end(watcher: string): void {
    for (const socket of this.#ctx.getWebSockets(watcher)) quietly(() => socket.close(LIVE_AGAIN, "again"));
  }

  /** To be called when a connection has closed. */
  left(socket: WebSocket): void {
    this.#watched = this.#ctx.getWebSockets().some((other) => other !== socket);
  }

  /** Sends what is to be told: at once, and at most once a second. */
  #sendSoon(): void {
    if (this.#timer) return;
    this.#timer = true;
    setTimeout(
      () => {
        this.#timer = false;
        this.#send();
      },
      Math.max(0, this.#sentAtMs + SECOND_MS - Date.now()),
    );
  }

  #send(): void {
    const message: LiveMessage<Row> = { rows: this.#rows, more: this.#more };
    this.#rows = [];
    this.#more = 0;
    if (message.rows.length === 0 && message.more === 0) return;
    this.#sentAtMs = Date.now();
    const text = JSON.stringify(message);
    this.#endOld(this.#sentAtMs);
    for (const socket of this.#ctx.getWebSockets()) quietly(() => socket.send(text));
  }

  #endOld(nowMs: number): void {
    const sockets = this.#ctx.getWebSockets();
    const old = sockets.filter((socket) => Number(socket.deserializeAttachment()) <= nowMs);
    for (const socket of old) quietly(() => socket.close(LIVE_AGAIN, "again"));
    this.#watched = sockets.length > old.length;
  }
}

/** A Durable Object that can be watched. Its `fetch` takes nothing but the upgrade that the Worker has let through. */
export class WatchedObject<Row> extends RestorableObject {
  protected readonly watchers: Watchers<Row>;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.watchers = new Watchers<Row>(ctx);
  }

  override fetch(request: Request): Response {
    return this.watchers.accept(request);
  }

  /** Ends the connections of one person. */
  endWatching(watcher: string): void {
    this.watchers.end(watcher);
  }

  /** Watchers have nothing to say; the `ping` is answered without the object. */
  override webSocketMessage(socket: WebSocket): void {
    quietly(() => socket.close(1008, "not understood"));
  }

  override webSocketClose(socket: WebSocket): void {
    // Closing from this end too completes the handshake.
    quietly(() => socket.close());
    this.watchers.left(socket);
  }

  override webSocketError(socket: WebSocket): void {
    this.watchers.left(socket);
  }
}

/** A connection that is gone already is no fault. */
function quietly(act: () => void): void {
  try {
    act();
  } catch {
    // The close event of a connection that is gone follows.
  }
}
