/** What the test configuration adds to the Worker's environment. */
declare namespace Cloudflare {
  interface Env {
    D1_MIGRATIONS: import("cloudflare:test").D1Migration[];
  }
}
