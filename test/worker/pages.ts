/** The workspace pages as a signed-in member sees and uses them. */
import { call } from "./workspace.ts";

/** A browser of one person: keeps the session, sends forms as a browser would, follows no redirect by itself. */
export class Browser {
  readonly #cookie: string;

  constructor(email: string) {
    this.#cookie = `session=${email}`;
  }

  get(path: string): Promise<Response> {
    return call(path, { headers: { cookie: this.#cookie }, redirect: "manual" });
  }

  /** The page's text; it must be there. */
  async see(path: string): Promise<string> {
    const response = await this.get(path);
    if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.text();
  }

  post(path: string, form: Record<string, string> | [string, string][] = {}): Promise<Response> {
    return call(path, {
      method: "POST",
      headers: {
        cookie: this.#cookie,
        origin: "https://signals.example",
        "content-type": "application/x-www-form-urlencoded",
      },
      body: new URLSearchParams(form).toString(),
      redirect: "manual",
    });
  }
}
