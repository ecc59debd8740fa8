/** Why an address is no destination, in words for whoever typed it. */
import type { UrlProblem } from "../domain/events/destination.ts";

export const TARGET_PROBLEMS = {
  not_a_url: "not a URL",
  too_long: "too long",
  not_https: "must begin with https://",
  credentials: "must hold no user name and no password",
  address: "must have a name as its host, not an address",
  not_public: "must have a public name as its host",
  port: "must have no port, or one from 1024 on",
  own_host: "leads to this service itself",
  not_an_email: "not an email address",
} as const satisfies Record<UrlProblem | "not_an_email", string>;
