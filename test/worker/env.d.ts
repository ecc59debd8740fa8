/** What the test configuration adds to the Worker's environment. */
import type { D1Migration } from "cloudflare:test";

declare global {
  namespace Cloudflare {
    interface Env {
      D1_MIGRATIONS: D1Migration[];
    }
  }
}
