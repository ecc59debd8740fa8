/**
 * What is missing before the service can be deployed: in the configuration by itself, and in the account by what wrangler
 * says of it. Each thing comes with the command or the line that makes it.
 */
import { FIT_SIGN_INS, signInSettings } from "../../pages/session/sign-in-settings.ts";
import { carriedBy, QUEUE_WORDS } from "../../queue/queue-names.ts";
import type { Carried } from "../../queue/queue-names.ts";

/** What of wrangler.toml matters here, for one environment, as wrangler reads it. */
export interface DeployConfig {
  name: string | undefined;
  /** The environments of the file; for one that is not among them wrangler takes everything from the top level. */
  definedEnvironments?: string[] | undefined;
  vars: Record<string, unknown>;
  d1_databases: { binding: string; database_name?: string | undefined; database_id?: string | undefined }[];
  r2_buckets: { binding: string; bucket_name?: string | undefined; jurisdiction?: string | undefined }[];
  queues: {
    producers?: { binding: string; queue: string }[] | undefined;
    consumers?: { queue: string; dead_letter_queue?: string | undefined }[] | undefined;
  };
  durable_objects: { bindings: { name: string }[] };
  ratelimits?: { name: string }[] | undefined;
  send_email?: { name: string }[] | undefined;
  observability?:
    | { logs?: { invocation_logs?: boolean | undefined }; traces?: { enabled?: boolean | undefined } | undefined }
    | undefined;
  logpush?: boolean | undefined;
}

export interface Missing {
  what: string;
  /** The command that makes it, or what to write where. */
  how: string;
}

/** What is in the account; `unknown` says why it could not be asked. */
export interface CloudflareAccount {
  databases: { uuid: string; name: string }[] | Unknown;
  /** Whether each queue that the configuration names exists. */
  queues: Record<string, boolean | Unknown>;
  buckets: Record<string, boolean | Unknown>;
  /** Names of the Worker's secrets; empty before it is deployed. */
  secrets: string[] | Unknown;
  /** What answers at each of the Worker's hosts, on the paths of webhooks and of pages. */
  hosts: { host: string; webhooks: Front; pages: Front }[];
}

export interface Unknown {
  unknown: string;
}

/** What answers first at a path; `nobody`: nothing does yet. */
export type Front = "access" | "worker" | "nobody";

const NO_DATABASE = /^[0-]*$/;

export function missingInConfig(config: DeployConfig, base: DeployConfig, environment: string | undefined): Missing[] {
  if (environment !== undefined && !(base.definedEnvironments ?? []).includes(environment)) {
    const how = `[env.${environment}] in wrangler.toml with bindings of its own: without it, those of the top level are taken`;
    return [{ what: `There is no environment ${environment}.`, how }];
  }
  const section = environment === undefined ? "wrangler.toml" : `[env.${environment}] of wrangler.toml`;
  const flag = environment === undefined ? "" : ` --env ${environment}`;
  const said = (name: string): string => {
    const value = config.vars[name];
    return typeof value === "string" ? value : "";
  };
  const missing: Missing[] = [...missingBindings(config, base, section), ...wrongQueues(config, section)];
  if (environment !== undefined) missing.push(...sharedWithTopLevel(config, base, section));
  const add = (is: boolean, what: string, how: string): void => void (is && missing.push({ what, how }));

  for (const { database_id: id = "", database_name: name = "", binding } of config.d1_databases) {
    add(
      NO_DATABASE.test(id),
      `${binding} has no database yet.`,
      `npx wrangler d1 create ${name}, and its id as database_id into ${section}`,
    );
  }
  const signIn = said("SIGN_IN");
  const settings = signInSettings(signIn);
  add(
    settings === null || settings.unfit !== null,
    settings === null ? `SIGN_IN is ${JSON.stringify(signIn)}.` : `SIGN_IN is ${signIn}, which ${settings.unfit}.`,
    `SIGN_IN = ${FIT_SIGN_INS.map((name) => JSON.stringify(name)).join(" or ")} in ${section}`,
  );
  for (const { variable, from } of settings?.needs ?? []) {
    add(
      said(variable) === "",
      `${variable} is empty: nobody gets to the pages.`,
      `${from === undefined ? "" : `${from}, as `}${variable} in ${section}`,
    );
  }
  add(
    (said("EMAIL_FROM") === "") !== ((config.send_email ?? []).length === 0),
    "EMAIL_FROM and the binding EMAIL belong together, and one of them is missing.",
    `both, or neither, in ${section}`,
  );
  const { logs, traces } = config.observability ?? {};
  add(
    logs?.invocation_logs !== false || traces?.enabled === true || config.logpush === true,
    "The platform would log URLs, and the API key is part of them.",
    `invocation_logs = false, traces off and no logpush in ${section}`,
  );
  add(config.name === undefined, "The Worker has no name.", `name in ${section}${flag}`);
  return missing;
}

/** Bindings that an environment lacks: it inherits none, and has its own of each. */
function missingBindings(config: DeployConfig, base: DeployConfig, section: string): Missing[] {
  const has = new Set(bindingsOf(config));
  const lacks = bindingsOf(base).filter((name) => !has.has(name));
  return lacks.map((name) => ({
    what: `${name} is missing.`,
    how: `its lines, as at the top level, under a name of its own, in ${section}`,
  }));
}

/** What an environment would share with the top level's service, where that is deployed too: a copy that kept its names. */
function sharedWithTopLevel(config: DeployConfig, base: DeployConfig, section: string): Missing[] {
  if (base.d1_databases.every(({ database_id: id = "" }) => NO_DATABASE.test(id))) return [];
  const kept = (of: DeployConfig): string[] => [
    ...of.d1_databases.flatMap(({ database_id: id }) => id ?? []),
    ...of.r2_buckets.flatMap(({ bucket_name: name }) => name ?? []),
    ...queuesOf(of),
  ];
  const ofTopLevel = new Set(kept(base));
  const shared = kept(config).filter((name) => ofTopLevel.has(name));
  return shared.map((name) => ({ what: `${name} is the top level's.`, how: `one of its own, in ${section}` }));
}

/** Queues that nobody consumes, or of which the Worker would take what they carry for something else. */
function wrongQueues({ queues: { producers = [], consumers = [] } }: DeployConfig, section: string): Missing[] {
  const carried: { queue: string; as: Carried }[] = [
    ...producers.map(
      ({ binding, queue }) => ({ queue, as: binding === "DELIVERIES" ? "deliveries" : "signals" }) as const,
    ),
    ...consumers.flatMap(({ dead_letter_queue: queue }) =>
      queue === undefined ? [] : [{ queue, as: "dead_letters" } as const],
    ),
  ];
  const wrong: Missing[] = [];
  for (const { queue, as } of carried) {
    if (!consumers.some((consumer) => consumer.queue === queue)) {
      wrong.push({
        what: `Nobody consumes the queue ${queue}.`,
        how: `a consumer with queue = "${queue}" in ${section}`,
      });
    }
    if (carriedBy(queue) !== as) {
      const word = as === "signals" ? `neither ${Object.values(QUEUE_WORDS).join(" nor ")}` : QUEUE_WORDS[as];
      wrong.push({
        what: `The queue ${queue} would be taken for one of ${carriedBy(queue).replace("_", " ")}.`,
        how: `a name with ${word} as a word, such as ${as === "signals" ? "signals-staging" : `staging-${word}`}, in ${section}`,
      });
    }
  }
  return wrong;
}

function bindingsOf(config: DeployConfig): string[] {
  return [
    ...config.d1_databases.map(({ binding }) => binding),
    ...config.r2_buckets.map(({ binding }) => binding),
    ...(config.queues.producers ?? []).map(({ binding }) => binding),
    // Queues have other names in each environment: what counts is that as many are consumed.
    ...(config.queues.consumers ?? []).map((_, index) => `queue consumer ${index + 1}`),
    ...config.durable_objects.bindings.map(({ name }) => name),
    ...(config.ratelimits ?? []).map(({ name }) => name),
    ...Object.keys(config.vars),
  ];
}

export function queuesOf({ queues: { producers = [], consumers = [] } }: DeployConfig): string[] {
  const named = [...producers, ...consumers].map(({ queue }) => queue);
  const dead = consumers.flatMap(({ dead_letter_queue: queue }) => queue ?? []);
  return [...new Set([...named, ...dead])];
}

export function missingInAccount(
  config: DeployConfig,
  account: CloudflareAccount,
  environment: string | undefined,
): Missing[] {
  const flag = environment === undefined ? "" : ` --env ${environment}`;
  const missing: Missing[] = [];
  const notAsked: { what: string; unknown: string }[] = [];
  /** @param there whether it exists; where that could not be asked, it is listed as such. */
  const need = (what: string, there: boolean | Unknown | undefined, how: string): void => {
    if (typeof there === "object") notAsked.push({ what, ...there });
    else if (there !== true) missing.push({ what: `There is no ${what}.`, how });
  };
  for (const { database_id: id = "", database_name: name = "" } of config.d1_databases) {
    if (NO_DATABASE.test(id)) continue;
    const { databases } = account;
    const isThere = "unknown" in databases ? databases : databases.some(({ uuid }) => uuid === id);
    const other = "unknown" in databases ? undefined : databases.find((one) => one.name === name)?.uuid;
    const how = other === undefined ? `npx wrangler d1 create ${name}` : `database_id = "${other}" in wrangler.toml`;
    need(`database ${id}`, isThere, how);
  }
  for (const queue of queuesOf(config)) {
    need(`queue ${queue}`, account.queues[queue], `npx wrangler queues create ${queue}`);
  }
  for (const { bucket_name: bucket = "", jurisdiction } of config.r2_buckets) {
    const where = jurisdiction === undefined ? "" : ` --jurisdiction ${jurisdiction}`;
    need(`bucket ${bucket}`, account.buckets[bucket], `npx wrangler r2 bucket create ${bucket}${where}`);
  }
  const { secrets } = account;
  need(
    "secret OPERATOR_TOKEN, without which nobody can make a workspace",
    "unknown" in secrets ? secrets : secrets.includes("OPERATOR_TOKEN"),
    `openssl rand -base64 32 | npx wrangler secret put OPERATOR_TOKEN${flag}`,
  );
  for (const [unknown, what] of Map.groupBy(notAsked, (one) => one.unknown)) {
    missing.push({
      what: `Wrangler could not be asked for ${what.map((one) => one.what).join(", ")}: ${unknown}`,
      how: "npx wrangler login, or the variable CLOUDFLARE_API_TOKEN",
    });
  }
  return [...missing, ...account.hosts.flatMap((host) => wrongFront(config, host))];
}

function wrongFront(config: DeployConfig, { host, webhooks, pages }: CloudflareAccount["hosts"][number]): Missing[] {
  const wrong: Missing[] = [];
  if (webhooks === "access") {
    wrong.push({
      what: `Access stands in front of the webhooks at ${host}: senders get a sign-in page.`,
      how: `the Access application with the paths ${host}/w and ${host}/sign-in only`,
    });
  }
  if (pages === "worker" && signInSettings(String(config.vars["SIGN_IN"]))?.behindAccess) {
    wrong.push({
      what: `Access does not stand in front of the pages at ${host}: nobody gets to them.`,
      how: `an Access application with the paths ${host}/w and ${host}/sign-in`,
    });
  }
  return wrong;
}

/** What is missing, as text for a terminal. */
export function missingText(missing: readonly Missing[]): string {
  if (missing.length === 0) return "Nothing is missing.";
  const lines = missing.map(({ what, how }) => `  ${what}\n      ${how}`);
  return [`${missing.length === 1 ? "One thing is" : `${missing.length} things are`} missing:`, ...lines].join("\n\n");
}
