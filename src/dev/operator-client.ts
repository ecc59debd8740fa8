/** Client of the operator API for the development tools. */
import { setTimeout as sleep } from "node:timers/promises";

const SETTLE_MS = 60_000;
const POLL_MS = 50;

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export class OperatorClient {
  readonly #origin: string;
  readonly #token: string;

  constructor(origin: string, token: string) {
    this.#origin = origin;
    this.#token = token;
  }

  /** JSON of an answer; null without a body. @throws for a status other than 2xx. */
  async call<T>(method: Method, path: string, body?: object): Promise<T> {
    const response = await this.send(method, path, body === undefined ? undefined : JSON.stringify(body));
    return (response.status === 204 ? null : await response.json()) as T;
  }

  /** @throws for a status other than 2xx, and if nothing answers. */
  async send(method: Method, path: string, body?: string | Uint8Array<ArrayBuffer>): Promise<Response> {
    const response = await fetch(`${this.#origin}/operator/${path}`, {
      method,
      // A new connection for each call, because the local runtime may close an idle one at the moment of its next use.
      headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json", connection: "close" },
      ...(body === undefined ? {} : { body }),
    }).catch((error: unknown) => {
      throw new Error(`${this.#origin} does not answer: ${causeOf(error)}`, { cause: error });
    });
    if (!response.ok) throw new Error(`${method} /operator/${path}: ${response.status} ${await response.text()}`);
    return response;
  }

  get<T>(path: string): Promise<T> {
    return this.call<T>("GET", path);
  }

  post<T>(path: string, body: object = {}): Promise<T> {
    return this.call<T>("POST", path, body);
  }

  async list<T>(path: string): Promise<T[]> {
    const items: T[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const query: string = cursor === "" ? "" : `?cursor=${encodeURIComponent(cursor)}`;
      const page: { items: T[]; next: string | null } = await this.get(path + query);
      items.push(...page.items);
      cursor = page.next;
    }
    return items;
  }
}

export interface WorkspaceAnswer {
  id: string;
  slug: string;
}

export interface CreatedKeyAnswer {
  id: string;
  key: string;
  secret?: string;
}

export interface BooksAnswer {
  accepted: number;
  processed: number;
  duplicates: number;
  held: number;
  purged: number;
  dead_lettered: number;
  in_flight: number;
  balanced: boolean;
}

export interface UsageAnswer {
  period_start: string;
  period_end: string;
  signal_limit: number;
  accepted: number;
  held: number;
  rejected: number;
}

/** Waits until no signal is in flight. @throws after a minute. @param home the workspace's path below `/operator/`. */
export async function untilProcessed(operator: OperatorClient, home: string): Promise<void> {
  for (const untilMs = Date.now() + SETTLE_MS; ; await sleep(POLL_MS)) {
    const books = await operator.get<BooksAnswer>(`${home}/books`);
    if (books.in_flight === 0) return;
    if (Date.now() > untilMs) throw new Error(`Signals are still in flight: ${JSON.stringify(books)}`);
  }
}

/** Why a call got no answer, such as "connect ECONNREFUSED": `fetch` itself says only that it failed. */
export function causeOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return String(cause);
  // Of several addresses that all failed, the error has only a code.
  return cause.message || ((cause as NodeJS.ErrnoException).code ?? cause.name);
}
