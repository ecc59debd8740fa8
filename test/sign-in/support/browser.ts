/** The parts of a browser that sign-in needs: cookies for each host, links and redirects, forms. */
import { request, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";

export interface Answer {
  /** The address of the answer. */
  url: URL;
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

const HOPS = 12;

export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>();
  /** Every requested address, in order. */
  readonly visited: URL[] = [];

  cookies(origin: string): Map<string, string> {
    const known = this.#cookies.get(origin) ?? new Map<string, string>();
    this.#cookies.set(origin, known);
    return known;
  }

  /** One answer, redirects not followed. */
  async ask(url: string | URL, form?: Record<string, string>): Promise<Answer> {
    const address = new URL(url);
    this.visited.push(address);
    const jar = this.cookies(address.origin);
    const headers = {
      cookie: [...jar].map(([name, value]) => `${name}=${value}`).join("; "),
      "sec-fetch-mode": "navigate",
      ...(form === undefined
        ? {}
        : {
            origin: address.origin,
            "content-type": "application/x-www-form-urlencoded",
            "sec-fetch-site": "same-origin",
          }),
    };
    const incoming = await new Promise<IncomingMessage>((resolve, reject) => {
      request(address, { method: form === undefined ? "GET" : "POST", headers, agent: false }, resolve)
        .on("error", reject)
        .end(form === undefined ? "" : new URLSearchParams(form).toString());
    });
    for (const cookie of incoming.headers["set-cookie"] ?? []) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      if (value === "") jar.delete(name);
      else jar.set(name, value);
    }
    return { url: address, status: incoming.statusCode ?? 0, headers: incoming.headers, body: await text(incoming) };
  }

  /** Follows redirects to the end, or until `stop` accepts the next address. */
  async follow(url: string | URL, stop: (next: URL) => boolean = () => false): Promise<Answer> {
    let answer = await this.ask(url);
    for (let hops = 0; hops < HOPS && answer.headers.location !== undefined; hops++) {
      const next = new URL(answer.headers.location, answer.url);
      if (stop(next)) return answer;
      answer = await this.ask(next);
    }
    return answer;
  }
}

/** The target of a redirect. */
export function location(answer: Answer): URL {
  return new URL(answer.headers.location ?? "", answer.url);
}
