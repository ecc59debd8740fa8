/**
 * The exclusion of programs that open mails and click links before people do, by their user agent. Those that imitate a browser are not
 * found. Applied by nobody: a workspace adds it as an exclusion of its own, and may change it.
 */
import type { ExclusionContent } from "../domain/rules/exclusion.ts";

/** Where senders put the user agent: CDPs, websites, and email services. */
const PATHS = [
  "payload.context.userAgent",
  "properties.user_agent",
  "properties.userAgent",
  "payload.user_agent",
  "payload.useragent",
  "payload.UserAgent",
  "payload.agent",
  "payload.event-data.client-info.user-agent",
];

const USER_AGENTS = [
  "HeadlessChrome",
  "PhantomJS",
  "Barracuda Sentinel",
  "Slackbot",
  "SkypeUriPreview",
  "facebookexternalhit",
  "bot/",
  "crawler",
  "spider",
  "python-requests",
  "python-urllib",
  "Go-http-client",
  "Apache-HttpClient",
  "libwww-perl",
  "curl/",
  "Wget/",
];

export const SCANNERS: ExclusionContent = {
  name: "Scanners and bots",
  match: "any",
  conditions: PATHS.map((path) => ({ path, operator: "contains_any", value: USER_AGENTS })),
};
