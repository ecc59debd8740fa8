/** The findings of `npm run deploy:check` in the configuration and in wrangler's output. A deployment with findings is refused. */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import {
  argumentsOf,
  missingInAccount,
  missingInConfig,
  missingText,
  readAccount,
  readSections,
} from "../../../../src/dev/deploy/deploy-steps.ts";
import type { DeployConfig, Section, Wrangler } from "../../../../src/dev/deploy/deploy-steps.ts";
import { WRANGLER } from "../../../../src/dev/local-service.ts";
import { isLongRun } from "../../../support/amount.ts";

const ROOT = path.resolve(import.meta.dirname, "../../../..");
const FILE = path.join(ROOT, "wrangler.toml");
const TOML = readFileSync(FILE, "utf8");
const [{ config: BASE }] = readSections(FILE) as [Section];
const ID = "0b6a1f6e-1111-4222-8333-444455556666";
const QUEUES = ["signals", "deliveries", "signals-dlq"];

const configured = (vars: Record<string, string> = {}): DeployConfig => ({
  ...BASE,
  vars: { ...BASE.vars, ACCESS_AUD: "a1b2", ...vars },
  d1_databases: BASE.d1_databases.map((database) => ({ ...database, database_id: ID })),
});
const section = (config: DeployConfig, environment?: string, hosts: string[] = []): Section => ({
  environment,
  config,
  hosts,
});
/** Findings in this section of the file. For an environment, the file also has a top level in another account. */
const inConfig = (config: DeployConfig, environment?: string) =>
  missingInConfig(
    environment === undefined
      ? [section(config)]
      : [section({ ...BASE, account_id: "a" }), section({ ...config, account_id: "b" }, environment)],
    environment,
  ).map(({ what, how }) => `${what} → ${how}`);

/** Findings in a section of a file with this text. */
function inFile(toml: string, environment?: string): string[] {
  const folder = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-toml-"));
  const file = path.join(folder, "wrangler.toml");
  try {
    writeFileSync(file, toml);
    return missingInConfig(readSections(file), environment).map(({ what }) => what);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The file without its environments. */
const TOP_LEVEL = TOML.slice(0, TOML.indexOf("\n# Staging:"));
const PRODUCTION = TOP_LEVEL.replace(/database_id = ".*"/, `database_id = "${ID}"`)
  .replace('ACCESS_AUD = ""', 'ACCESS_AUD = "a1b2"')
  .replace("[vars]", '[[routes]]\npattern = "signals.example.com"\ncustom_domain = true\n\n[vars]');

/** A complete section of an environment: it repeats every binding and renames those that must differ. */
function environmentLike(name: string, change: (lines: string) => string = (lines) => lines): string {
  const bindings = /\[vars\][\s\S]*?(?=\[\[migrations\]\])/.exec(PRODUCTION)?.[0] ?? "";
  const queuesAndLimits =
    /\[\[queues\.producers\]\][\s\S]*?(?=# The signal store's migrations)/.exec(PRODUCTION)?.[0] ?? "";
  const renamed = `${bindings}${queuesAndLimits}`
    .replaceAll(/^(\[+)(?=[a-z])/gm, `$1env.${name}.`)
    .replaceAll(/^(queue|dead_letter_queue|bucket_name|database_name) = "(.*)"/gm, `$1 = "$2-${name}"`)
    .replace(ID, ID.replace("0b6a", name.length.toString().padStart(4, "0")))
    .replaceAll(/namespace_id = "(.*)"/g, `namespace_id = "${name.length}$1"`);
  const routes = `[[env.${name}.routes]]\npattern = "${name}.example.com"\ncustom_domain = true\n`;
  return `\n[env.${name}]\n${change(`${routes}${renamed}`)}`;
}

describe("the configuration", () => {
  test("of the repository lacks a database and an audience, and nothing else", () => {
    expect(missingInConfig([section(BASE)], undefined)).toEqual([
      {
        what: "DB has no database yet.",
        how: "npx wrangler d1 create signal-ingestion, and its id as database_id into wrangler.toml",
      },
      { what: "ACCESS_AUD is empty: nobody gets to the pages.", how: expect.stringContaining("AUD") },
    ]);
    expect(inConfig(configured())).toEqual([]);
    const unset = ["DB has no database yet.", "ACCESS_AUD is empty: nobody gets to the pages."];
    for (const { environment } of readSections(FILE)) expect(inFile(TOML, environment)).toEqual(unset);
    expect(readSections(FILE).map(({ environment }) => environment)).toEqual([undefined, "staging"]);
  });

  test("of an environment is that of the top level but for the names", () => {
    const unnamed = ({ config }: Section): unknown => {
      const { vars, queues, durable_objects, ratelimits, d1_databases, r2_buckets } = config;
      const limits = ratelimits.map(({ name, simple }) => ({ name, simple }));
      const text = JSON.stringify({ vars, queues, durable_objects, limits, d1_databases, r2_buckets });
      return JSON.parse(text.replaceAll("-staging", ""));
    };
    const [top, ...environments] = readSections(FILE).map(unnamed);
    for (const environment of environments) expect(environment).toEqual(top);
  });

  test.each<[what: string, config: Partial<DeployConfig>, found: string]>([
    ["local sign-in", configured({ SIGN_IN: "local" }), "SIGN_IN is local, which asks nobody for a proof."],
    ["no sign-in", configured({ SIGN_IN: "" }), 'SIGN_IN is "".'],
    [
      "an email's sender without the binding",
      configured({ EMAIL_FROM: "a@example.com" }),
      "EMAIL_FROM and the binding",
    ],
    ["a binding for email without a sender", { send_email: [{ name: "EMAIL" }] }, "EMAIL_FROM and the binding"],
    [
      "a binding for email that the service does not read",
      { ...configured({ EMAIL_FROM: "a@example.com" }), send_email: [{ name: "MAIL" }] },
      "EMAIL_FROM and the binding",
    ],
    [
      "a queue whose dead letters go nowhere",
      { queues: { ...BASE.queues, consumers: QUEUES.map((queue) => ({ queue })) } },
      "The queue signals has no queue for its dead letters",
    ],
    [
      "two rate limits with one budget",
      { ratelimits: BASE.ratelimits.map((limiter) => ({ ...limiter, namespace_id: "7" })) },
      "AUTH_FAILURES and SIGN_IN_ATTEMPTS and PAGE_FORMS and TOKEN_CALLS would share their budget",
    ],
    ["logs of URLs", { observability: { logs: {} } }, "The platform would log URLs"],
    [
      "traces",
      { observability: { logs: { invocation_logs: false }, traces: { enabled: true } } },
      "The platform would",
    ],
    ["logpush", { logpush: true }, "The platform would log URLs"],
    ["no name", { name: undefined }, "The Worker has no name."],
    ["no address", { workers_dev: false }, "The Worker has no address."],
    [
      "an unknown jurisdiction",
      configured({ JURISDICTION: "EU" }),
      'JURISDICTION is "EU", which is none of "eu", "us" and "".',
    ],
    [
      "a bucket outside the jurisdiction",
      configured({ JURISDICTION: "eu" }),
      'The bucket of COLD is not in the jurisdiction "eu" of the objects. → jurisdiction = "eu" of the bucket',
    ],
  ])("with %s is not deployed", (_, config, found) => {
    expect(inConfig({ ...configured(), ...config })).toEqual([expect.stringContaining(found)]);
  });

  test("with OpenID Connect needs issuer and client, and no audience", () => {
    expect(inConfig(configured({ SIGN_IN: "oidc", ACCESS_AUD: "" }))).toEqual([
      expect.stringContaining("OIDC_ISSUER is empty"),
      expect.stringContaining("OIDC_CLIENT_ID is empty"),
    ]);
    const oidc = { SIGN_IN: "oidc", OIDC_ISSUER: "https://id.example", OIDC_CLIENT_ID: "client" };
    expect(inConfig(configured(oidc))).toEqual([]);
  });

  test("needs every binding and variable in each environment, because none is inherited", () => {
    const bare = { ...configured(), r2_buckets: [], vars: { SIGN_IN: "access", ACCESS_AUD: "a1b2" } };
    expect(inConfig(bare, "staging")).toEqual([
      "COLD is missing. → its lines, as at the top level, under a name of its own, in [env.staging] of wrangler.toml",
      ...[
        "REQUEST_RATE_PER_SECOND",
        "REQUEST_BURST",
        "LOG_REQUESTS",
        "OIDC_ISSUER",
        "OIDC_CLIENT_ID",
        "JURISDICTION",
        "EMAIL_FROM",
      ].map((name) => expect.stringContaining(`${name} is missing.`)),
    ]);
  });
});

describe("an environment", () => {
  /** Queues as an environment has them: what SIGNALS and DELIVERIES go to, and which queues are consumed. */
  const withQueues = (signals: string, deliveries: string, dead: string, consumed = [signals, dead, deliveries]) => ({
    ...configured(),
    queues: {
      producers: [
        { binding: "SIGNALS", queue: signals },
        { binding: "DELIVERIES", queue: deliveries },
      ],
      consumers: consumed.map((queue) => ({
        queue,
        ...(queue === signals ? { dead_letter_queue: dead } : {}),
        max_batch_size: 5,
        max_batch_timeout: 0,
        max_retries: 0,
      })),
    },
  });

  test("is refused if it is not in the file, because it would use the top level's database", () => {
    expect(inFile(PRODUCTION + environmentLike("staging"), "stagign")).toEqual(["There is no environment stagign."]);
  });

  test("is complete if it repeats every binding under a new name", () => {
    const file = PRODUCTION + environmentLike("staging") + environmentLike("testing2");
    for (const environment of [undefined, "staging", "testing2"]) expect(inFile(file, environment)).toEqual([]);
  });

  const without = (line: RegExp) => (lines: string) => lines.replace(line, "");
  test.each<[what: string, change: (lines: string) => string, found: string]>([
    ["without migrations", without(/migrations_dir.*/), "DB would get no tables: its migrations_dir is not"],
    [
      "with other migrations",
      (lines) => lines.replace("migrations/d1", "migrations"),
      "DB would get no tables: its migrations_dir is not",
    ],
    [
      "without a dead-letter queue",
      without(/dead_letter_queue.*/),
      "The queue signals-staging has no queue for its dead",
    ],
    ["without retries", without(/max_retries = 8/), "The consumer of the queue signals-staging has no max_retries."],
    [
      "without a rate limiter",
      without(/\[\[env.staging.ratelimits\]\]\s+name = "PAGE_FORMS"[^[]*/),
      "PAGE_FORMS is missing.",
    ],
    ["without a variable", without(/REQUEST_BURST.*/), "REQUEST_BURST is missing."],
    ["without the bucket", without(/\[\[env.staging.r2_buckets\]\]\s+binding.*\s+bucket_name.*/), "COLD is missing."],
    [
      "with another class",
      (lines) => lines.replace('"SignalStore"', '"Destinations"'),
      "SIGNAL_STORE is bound to another",
    ],
    [
      "with the objects of another Worker",
      (lines) => lines.replace('"SignalStore"', '"SignalStore"\nscript_name = "signal-ingestion"'),
      "SIGNAL_STORE is bound to another Worker's objects.",
    ],
    [
      "without routes of its own",
      without(/\[\[env.staging.routes\]\]\s.*\s.*/),
      "The host signals.example.com is also that",
    ],
    [
      "with compatibility flags of its own",
      (lines) => `compatibility_flags = []\n${lines}`,
      "compatibility_flags differs from the top level's.",
    ],
    [
      "with migrations of its own",
      (lines) => `migrations = [{ tag = "v1", new_sqlite_classes = ["SignalStore"] }]\n${lines}`,
      "migrations differs from the top level's.",
    ],
    [
      "with a cron of its own",
      (lines) => `triggers = { crons = ["* * * * *"] }\n${lines}`,
      "triggers differs from the top level's.",
    ],
    ["with another program", (lines) => `main = "src/other.ts"\n${lines}`, "main differs from the top level's."],
    [
      "with the name of the top level's database",
      (lines) => lines.replace('"signal-ingestion-staging"', '"signal-ingestion"'),
      "The database name signal-ingestion is also that of the top level.",
    ],
    [
      "with the name of the top level",
      (lines) => `name = "signal-ingestion"\n${lines}`,
      "The Worker's name signal-ing",
    ],
    [
      "with the top level's database",
      (lines) => lines.replace(/database_id = .*/, `database_id = "${ID}"`),
      `The database ${ID}`,
    ],
    [
      "with the top level's bucket",
      (lines) => lines.replace("-cold-staging", "-cold"),
      "The bucket signals-cold is also",
    ],
    [
      "with the top level's queue",
      (lines) => lines.replaceAll("deliveries-staging", "deliveries"),
      "The queue deliveries is",
    ],
    [
      "with the top level's rate limits",
      (lines) => lines.replace(/namespace_id = "7/, 'namespace_id = "'),
      `The rate limits' namespace_id ${BASE.ratelimits?.[0]?.namespace_id} is also that of the top level.`,
    ],
  ])("%s is not deployed", (_, change, found) => {
    expect(inFile(PRODUCTION + environmentLike("staging", change), "staging")).toEqual([
      expect.stringContaining(found),
    ]);
  });

  test("may not share a route for many hosts, or a service binding, and has each of the top level's", () => {
    const wild = PRODUCTION.replace("signals.example.com", "*.example.com/*").replace(
      "custom_domain = true",
      'zone_name = "example.com"',
    );
    const service = '\n[[services]]\nbinding = "CRM"\nservice = "crm"\n';
    const ofStaging = service.replace("services", "env.staging.services");
    const shared = (lines: string) =>
      lines
        .replace("staging.example.com", "*.example.com/*")
        .replace("custom_domain = true", 'zone_name = "example.com"');
    expect(inFile(`${wild}${service}${environmentLike("staging", shared)}${ofStaging}`, "staging")).toEqual([
      "The host *.example.com is also that of the top level.",
      "The Worker crm of a service binding is also that of the top level.",
    ]);
    expect(inFile(`${PRODUCTION}${service}${environmentLike("staging")}`, "staging")).toEqual(["CRM is missing."]);
  });

  test("may not share a rate limit with another environment", () => {
    const file = PRODUCTION + environmentLike("staging") + environmentLike("testing");
    expect(inFile(file, "testing")).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^The rate limits' namespace_id .* is also that of \[env.staging\]\.$/),
      ]),
    );
    expect(inFile(file, undefined)).toEqual([]);
  });

  test("may reuse names of another account, but none of a top level that is not deployed yet", () => {
    const same = (lines: string) => lines.replaceAll('-staging"', '"');
    const inAccounts = (accountLine: string) =>
      inFile(
        `account_id = "a"\n${PRODUCTION}${environmentLike("staging", (lines) => `${accountLine}${same(lines)}`)}`,
        "staging",
      );
    expect(inAccounts('account_id = "b"\n')).toEqual([]);
    expect(inAccounts("")).not.toEqual([]);
    const notDeployed = PRODUCTION.replace(ID, "00000000-0000-0000-0000-000000000000");
    expect(inFile(notDeployed + environmentLike("staging", same), "staging")).toEqual(inAccounts(""));
  });

  test("may choose its queue names if they show the kind of message and a consumer exists", () => {
    const found = (...names: Parameters<typeof withQueues>) => inConfig(withQueues(...names), "staging");
    expect(found("signals-staging", "deliveries-staging", "signals-staging-dlq")).toEqual([]);
    expect(found("staging-signals", "staging-deliveries", "signals-dlq-staging")).toEqual([]);
    expect(found("in", "out", "given-up")).toEqual([
      expect.stringContaining("The queue out would be taken for one of signals. → a name with deliveries as a word"),
      expect.stringContaining("The queue given-up would be taken for one of signals. → a name with dlq as a word"),
    ]);
    expect(found("deliveries-in", "deliveries-out", "dlq")).toEqual([
      expect.stringContaining("The queue deliveries-in would be taken for one of deliveries. → a name with neither"),
    ]);
    expect(found("signals-staging", "deliveries-staging", "dlq", ["signals", "dlq", "deliveries-staging"])).toEqual([
      expect.stringContaining("Nobody consumes the queue signals-staging."),
    ]);
  });
});

/** As wrangler 4.135 writes it. */
const ERROR = "\u001B[31m✘ \u001B[41;31m[\u001B[41;97mERROR\u001B[41;31m]\u001B[0m \u001B[1m";
const NO_QUEUE = `${ERROR}Queue "signals" does not exist. To create it, run: wrangler queues create signals\u001B[0m\n`;
const NO_BUCKET = `${ERROR}A request to the Cloudflare API (/accounts/a/r2/buckets/signals-cold) failed.\u001B[0m\n\n  The specified bucket does not exist. [code: 10006]\n`;
const NO_WORKER = `${ERROR}A request to the Cloudflare API (/accounts/a/workers/scripts/signal-ingestion/secrets) failed.\u001B[0m\n\n  This Worker does not exist on your account. [code: 10007]\n`;
const NO_LOGIN = `${ERROR}In a non-interactive environment, it's necessary to set a CLOUDFLARE_API_TOKEN\u001B[0m\n\nLogs were written to "x"\n`;

const wranglerSaying =
  (says: Record<string, string | { code: number; out: string }>): Wrangler =>
  async (args) => {
    const answer = says[args.slice(0, args[0] === "r2" ? 3 : 2).join(" ")] ?? "";
    return typeof answer === "string" ? { code: 0, out: answer } : answer;
  };

const EVERYTHING = {
  "d1 list": `\n ⛅️ wrangler 4.135.0 (update available 4.164.0)\n──────\n${JSON.stringify([{ uuid: ID, name: "signal-ingestion" }])}\n`,
  "d1 execute": JSON.stringify([{ results: [], success: true, meta: {} }]),
  "secret list": JSON.stringify([{ name: "OPERATOR_TOKEN", type: "secret_text" }]),
};
const NO_TABLE = `${ERROR}A request to the Cloudflare API (/accounts/a/d1/database/${ID}/query) failed.\u001B[0m\n\n  no such table: workspaces: SQLITE_ERROR [code: 7500]\n`;

const unreachable = () => Promise.reject(new Error("no such host"));
const missing = async (says: Parameters<typeof wranglerSaying>[0], config = configured(), environment?: string) => {
  const checked = section(config, environment);
  return missingInAccount(checked, await readAccount(checked, wranglerSaying(says), unreachable));
};

type Answer = () => Response;

describe("the account", () => {
  test("is complete if everything exists", async () => {
    expect(await missing(EVERYTHING)).toEqual([]);
    expect(missingText([])).toBe("Nothing is missing.");
  });

  test("lacks everything if it is empty, each with the command that creates it", async () => {
    const empty = {
      "d1 list": "[]",
      "d1 execute": { code: 1, out: NO_TABLE },
      "secret list": { code: 1, out: NO_WORKER },
      "queues info": { code: 1, out: NO_QUEUE },
      "r2 bucket info": { code: 1, out: NO_BUCKET },
    };
    expect((await missing(empty, configured(), "staging")).map(({ how }) => how)).toEqual([
      "npx wrangler d1 create signal-ingestion",
      ...QUEUES.map((queue) => `npx wrangler queues create ${queue}`),
      "npx wrangler r2 bucket create signals-cold",
      "openssl rand -base64 32 | npx wrangler secret put OPERATOR_TOKEN --env staging",
    ]);
  });

  test("gets a hint if the database exists under another id", async () => {
    const otherId = "9d9d9d9d-1111-4222-8333-444455556666";
    const databases = { ...EVERYTHING, "d1 list": JSON.stringify([{ uuid: otherId, name: "signal-ingestion" }]) };
    expect(await missing(databases)).toEqual([
      { what: `There is no database ${ID}.`, how: `database_id = "${otherId}" in wrangler.toml` },
    ]);
  });

  test("is not treated as empty if wrangler cannot read it, and the cause is printed once", async () => {
    const closed = { code: 1, out: NO_LOGIN };
    const found = await missing({
      "d1 list": closed,
      "d1 execute": closed,
      "secret list": closed,
      "queues info": closed,
      "r2 bucket info": closed,
    });
    expect(found).toHaveLength(1);
    expect(missingText(found)).toMatch(
      /^One thing is missing:\n\n {2}Wrangler could not be asked for database .*: In a non-inter/,
    );
    expect((await missing({ ...EVERYTHING, "d1 list": "<html>" }))[0]?.what).toContain("no JSON: <html>");
  });

  test("gets a hint if Access protects the webhooks or not the pages; a host without an answer yet is fine", async () => {
    const at = async (webhooks: Answer | null, pages: Answer | null) => {
      const answer = async (url: string) => {
        const response = url.includes("/api/") ? webhooks : pages;
        if (response === null) throw new Error("no such host");
        return response();
      };
      const checked = section(configured(), undefined, ["signals.example"]);
      const account = await readAccount(checked, wranglerSaying(EVERYTHING), answer);
      return missingInAccount(checked, account).map(({ what }) => what);
    };
    const location = "https://acme.cloudflareaccess.com/cdn-cgi/x";
    const signIn: Answer = () => new Response(null, { status: 302, headers: { location } });
    const worker: Answer = () => new Response("{}", { status: 405 });
    expect(await at(worker, signIn)).toEqual([]);
    expect(await at(null, null)).toEqual([]);
    expect(await at(signIn, signIn)).toEqual([expect.stringContaining("Access stands in front of the webhooks")]);
    expect(await at(worker, worker)).toEqual([expect.stringContaining("Access does not stand in front of the pages")]);
  });

  test("is read for the deployed environment", async () => {
    const asked: string[] = [];
    const wrangler: Wrangler = async (args) => {
      asked.push(args.join(" "));
      return { code: 0, out: "[]" };
    };
    const account = await readAccount(section(configured(), "staging"), wrangler, unreachable);
    expect(account.queues).toEqual(Object.fromEntries(QUEUES.map((queue) => [queue, true])));
    expect(asked.toSorted()).toEqual([
      "d1 execute DB --remote --json --command SELECT * FROM workspaces LIMIT 1 --env staging",
      "d1 list --json",
      "queues info deliveries",
      "queues info signals",
      "queues info signals-dlq",
      "r2 bucket info signals-cold",
      "secret list --format json --env staging",
    ]);
  });
});

describe("the command line", () => {
  test("names an environment, or else CLOUDFLARE_ENV does, as in wrangler", () => {
    expect([[], ["--env", "staging"], ["-e", "staging"]].map((args) => argumentsOf(args, "").environment)).toEqual([
      undefined,
      "staging",
      "staging",
    ]);
    expect(argumentsOf(["--check"], "testing")).toEqual({ environment: "testing", onlyCheck: true });
    expect(argumentsOf(["--env", "staging"], "testing")).toEqual({ environment: "staging", onlyCheck: false });
  });

  test.each([["--var", "SIGN_IN:local"], ["--var=SIGN_IN:local"], ["--config", "x.toml"], ["--name", "x"], ["x"]])(
    "that would change what was checked is refused: %s",
    (...args) => expect(() => argumentsOf(["--env", "staging", ...args], "")).toThrow(/option|argument/),
  );

  test("of a deployment is refused with the allowed arguments", () => {
    const { status, stdout } = spawnSync(process.execPath, ["src/dev/deploy/deploy.ts", "--var", "SIGN_IN:local"], {
      cwd: ROOT,
      encoding: "utf8",
    });
    expect([status, stdout.split("\n").at(-2)]).toEqual([
      1,
      "Only --env NAME is taken here. Whatever else is to be different belongs into wrangler.toml.",
    ]);
  });
});

test("a bucket with a jurisdiction is checked and created in that jurisdiction", async () => {
  const asked: string[] = [];
  const wrangler: Wrangler = async (args) => {
    asked.push(args.join(" "));
    return args[0] === "r2" ? { code: 1, out: NO_BUCKET } : { code: 0, out: EVERYTHING["d1 list"] };
  };
  const config = {
    ...configured(),
    r2_buckets: [{ binding: "COLD", bucket_name: "signals-cold", jurisdiction: "eu" }],
  };
  const account = await readAccount(section(config), wrangler, unreachable);
  expect(asked).toContain("r2 bucket info signals-cold --jurisdiction eu");
  expect(missingInAccount(section(config), account).map(({ how }) => how)).toContain(
    "npx wrangler r2 bucket create signals-cold --jurisdiction eu",
  );
});

describe("the jurisdiction", () => {
  const inEu = { ...configured({ JURISDICTION: "eu" }), r2_buckets: [] };
  const withData = (workspace: object) => ({
    ...EVERYTHING,
    "d1 execute": JSON.stringify([{ results: [workspace], success: true, meta: {} }]),
  });

  test("must be the one in which the data is", async () => {
    expect(await missing(withData({ id: "ws_1", jurisdiction: "eu" }), inEu)).toEqual([]);
    expect(await missing(EVERYTHING, inEu)).toEqual([]);
    expect(await missing(withData({ id: "ws_1", jurisdiction: "us" }), inEu)).toEqual([
      { what: expect.stringContaining('this deployment\'s data is in "us"'), how: 'JURISDICTION = "us"' },
    ]);
    // A workspace of a version without jurisdictions.
    expect(await missing(withData({ id: "ws_1" }), configured())).toEqual([]);
    expect(await missing(withData({ id: "ws_1" }), inEu)).toEqual([
      { what: expect.stringContaining("data is in no jurisdiction"), how: 'JURISDICTION = ""' },
    ]);
  });

  test("is part of the commands that create what is missing", async () => {
    const none = {
      "d1 list": "[]",
      "d1 execute": { code: 1, out: NO_TABLE },
      "queues info": { code: 1, out: NO_QUEUE },
    };
    const found = await missing({ ...EVERYTHING, ...none }, inEu);
    expect(found.map(({ how }) => how)).toEqual([
      "npx wrangler d1 create signal-ingestion --jurisdiction eu",
      ...QUEUES.map((queue) => `a queue ${queue} in the jurisdiction "eu": docs/deploy.md has the command`),
    ]);
    const noId = { ...inEu, d1_databases: BASE.d1_databases };
    expect(inConfig(noId)).toEqual([
      expect.stringContaining("d1 create signal-ingestion --jurisdiction eu, and its id"),
    ]);
  });
});

test.runIf(isLongRun)("each environment of wrangler.toml builds as for a deployment, with its bindings", async () => {
  const env = { ...process.env, WRANGLER_LOG: "log", WRANGLER_SEND_METRICS: "false" };
  const built = readSections(FILE).map(async ({ environment = "", config }) => {
    const outDir = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-dry-run-"));
    const args = [WRANGLER, "deploy", "--dry-run", "--outdir", outDir, "--env", environment];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, env });
    rmSync(outDir, { recursive: true });
    const { queues, d1_databases: databases, r2_buckets: buckets } = config;
    const names = [
      ...(queues.producers ?? []).map(({ queue }) => queue),
      ...databases.map((database) => database.database_name),
      ...buckets.map((bucket) => bucket.bucket_name),
    ];
    expect(names).toHaveLength(4);
    for (const name of names) expect(stdout).toContain(`(${name})`);
  });
  await Promise.all(built);
});

test.runIf(isLongRun)("npm run deploy changes nothing and fails while something is missing", () => {
  // The test must not use a developer's login.
  const { CLOUDFLARE_API_TOKEN: _token, ...env } = process.env as NodeJS.ProcessEnv & { CLOUDFLARE_API_TOKEN?: string };
  Object.assign(env, { HOME: path.join(ROOT, "node_modules"), XDG_CONFIG_HOME: "", WRANGLER_SEND_METRICS: "false" });
  const { status, stdout } = spawnSync(process.execPath, ["src/dev/deploy/deploy.ts"], {
    cwd: ROOT,
    env,
    encoding: "utf8",
  });
  expect(status).toBe(1);
  expect(stdout).toContain("DB has no database yet.");
  expect(stdout).toContain("Wrangler could not be asked for");
  expect(stdout).not.toMatch(/migrations/i);
});
