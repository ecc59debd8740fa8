/** The findings of `npm run deploy:check` in wrangler.toml, in the account and at the hosts. With findings, nothing is deployed. */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import {
  argumentsOf,
  hasOperatorToken,
  missingAtOrigin,
  missingInAccount,
  missingInConfig,
  missingText,
  readSections,
  type DeployConfig,
  type Section,
  type Wrangler,
} from "../../../../src/dev/deploy/deploy-checks.ts";
import {
  NEEDED_BINDINGS,
  NEEDED_SETTINGS,
  bindingsOf,
  settingsOf,
} from "../../../../src/dev/deploy/needed-settings.ts";
import { WRANGLER } from "../../../../src/dev/local-service.ts";
import { isLongRun } from "../../../support/amount.ts";

const ROOT = path.resolve(import.meta.dirname, "../../../..");
const FILE = path.join(ROOT, "wrangler.toml");
const TOML = readFileSync(FILE, "utf8");
const ID = "0b6a1f6e-1111-4222-8333-444455556666";

type Edits = Readonly<Record<string, string>>;

/** The text with each key of `edits` replaced by its value. */
function edited(text: string, edits: Edits): string {
  for (const [from, to] of Object.entries(edits)) {
    expect(text).toContain(from);
    text = text.replaceAll(from, to);
  }
  return text;
}

function sectionsOf(toml: string): Section[] {
  const folder = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-toml-"));
  try {
    writeFileSync(path.join(folder, "wrangler.toml"), toml);
    return readSections(path.join(folder, "wrangler.toml"));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Findings in a section of a file with this text. */
function findings(toml: string, environment?: string): string[] {
  return missingInConfig(sectionsOf(toml), environment).map(({ problem, fix }) => `${problem} → ${fix}`);
}

const containing = (...texts: string[]): unknown[] => texts.map((text) => expect.stringContaining(text));

const ROUTE = '[[routes]]\npattern = "signals.example.com"\ncustom_domain = true\n';
/** The top level of the repository's file with everything that a deployer adds. */
const TOP = edited(TOML.slice(0, TOML.indexOf("\n# Staging:")), {
  "00000000-0000-0000-0000-000000000000": ID,
  'ACCESS_AUD = ""': 'ACCESS_AUD = "a1b2"',
  "[vars]": `${ROUTE}\n[vars]`,
});
const EVERY_NAME = /^(queue|dead_letter_queue|bucket_name|database_name) = "(.*)"/gm;

/** A complete section of an environment: it repeats every binding and renames those that must differ. */
function environmentLike(name: string, edits: Edits = {}): string {
  const bindings = /\[vars\][\s\S]*?(?=\[\[migrations\]\])/.exec(TOP)?.[0] ?? "";
  const queuesAndLimits = /\[\[queues\.producers\]\][\s\S]*?(?=# The migrations of the objects)/.exec(TOP)?.[0] ?? "";
  const renamed = `${bindings}${queuesAndLimits}`
    .replaceAll(/^(\[+)(?=[a-z])/gm, `$1env.${name}.`)
    .replaceAll(EVERY_NAME, `$1 = "$2-${name}"`)
    .replace(ID, ID.replace("0b6a", name.length.toString().padStart(4, "0")))
    .replaceAll(/namespace_id = "(.*)"/g, `namespace_id = "${name.length}$1"`);
  const routes = `[[env.${name}.routes]]\npattern = "${name}.example.com"\ncustom_domain = true\n`;
  return edited(`\n[env.${name}]\n${routes}${renamed}`, edits);
}

const EU = { 'JURISDICTION = ""': 'JURISDICTION = "eu"' };
const MAIL_FROM = { 'EMAIL_FROM = ""': 'EMAIL_FROM = "a@example.com"' };
const mailBinding = (name: string) => ({ '# [[send_email]]\n# name = "EMAIL"': `[[send_email]]\nname = "${name}"` });

describe("the configuration", () => {
  test("of the repository lacks a database and an audience, and nothing else", () => {
    for (const [environment, name, place] of [
      [undefined, "signal-ingestion", "wrangler.toml"],
      ["staging", "signal-ingestion-staging", "[env.staging] of wrangler.toml"],
    ] as const) {
      expect(findings(TOML, environment)).toEqual([
        `DB has no database yet. → npx wrangler d1 create ${name}, and its id as database_id in ${place}`,
        expect.stringMatching(/^ACCESS_AUD is empty: nobody can open the pages\. → .*AUD/),
      ]);
    }
    expect(readSections(FILE).map(({ environment }) => environment)).toEqual([undefined, "staging"]);
    expect(findings(TOP)).toEqual([]);
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

  test("of each environment of the repository is what the Worker needs, and the list says nothing else", () => {
    for (const { config } of readSections(FILE)) {
      expect(settingsOf(config)).toEqual(NEEDED_SETTINGS);
      expect(bindingsOf(config)).toEqual(NEEDED_BINDINGS);
    }
  });

  test.each<[what: string, edits: Edits, found: string]>([
    [
      "local sign-in",
      { 'SIGN_IN = "access"': 'SIGN_IN = "local"' },
      "SIGN_IN is local, which lets anybody sign in without a proof.",
    ],
    [
      "no sign-in",
      { 'SIGN_IN = "access"': 'SIGN_IN = ""' },
      'SIGN_IN is "". → SIGN_IN = "access" or "oidc" or "off" in',
    ],
    ["an email's sender without the binding", MAIL_FROM, "EMAIL_FROM and the binding"],
    ["a binding for email alone", mailBinding("EMAIL"), "EMAIL_FROM and the binding"],
    ["an unknown binding for email", { ...MAIL_FROM, ...mailBinding("MAIL") }, "EMAIL_FROM and the binding"],
    ["no dead-letter queue", { 'dead_letter_queue = "signals-dlq"': "" }, "The queue signals has no dead-letter queue"],
    ["a queue without a batch size", { "max_batch_size = 10\n": "" }, "consumer of the queue signals-dlq has no max"],
    ["two rate limits with one budget", { 1382118109: "830680844" }, "AUTH_FAILURES and SIGN_IN_ATTEMPTS would share"],
    ["logs of URLs", { "invocation_logs = false": "" }, "The platform would log URLs"],
    ["traces", { "traces]\nenabled = false": "traces]\nenabled = true" }, "The platform would log URLs"],
    ["logpush", { "minify = true": "logpush = true" }, "The platform would log URLs"],
    ["no database", { "[[d1_databases]]": "[[other]]" }, "DB is missing."],
    ["a database without migrations", { 'migrations_dir = "migrations/d1"': "" }, "migrations_dir of DB is not"],
    ["no rate limit", { 'name = "AUTH_FAILURES"': 'name = "OTHER"' }, "AUTH_FAILURES is missing."],
    ["no bucket", { 'binding = "COLD"': 'binding = "OTHER"' }, "COLD is missing."],
    ["no objects for destinations", { 'name = "DESTINATIONS"': 'name = "OTHER"' }, "DESTINATIONS is missing."],
    ["no migrations of the objects", { "[[migrations]]": "[[other]]" }, "migrations is not what the Worker needs."],
    ["a missing class", { ', "Destinations"]': "]" }, "migrations is not what the Worker needs."],
    ["no watch", { 'crons = ["*/5 * * * *"]': "crons = []" }, "triggers is not what"],
    ["less processor time", { "cpu_ms = 30_000": "cpu_ms = 50" }, "limits is not what the Worker needs."],
    [
      "objects that a deployment resets",
      { 'code_update_strategy = { mode = "deferred", max_delay = 60 }': "" },
      "code_update_strategy is not what",
    ],
    ["no variable", { "REQUEST_BURST = ": "OTHER = " }, "REQUEST_BURST is missing."],
    [
      "a consumer twice",
      {
        "# Rate limits. The":
          '[[queues.consumers]]\nqueue = "deliveries"\nmax_batch_size = 1\nmax_batch_timeout = 0\nmax_retries = 0\n# Rate limits. The',
      },
      "The queue deliveries has two consumers.",
    ],
    [
      "a secret among the variables",
      { "[vars]": '[vars]\nOPERATOR_TOKEN = "x"' },
      "OPERATOR_TOKEN is a variable, which",
    ],
    ["a client secret", { "[vars]": '[vars]\nOIDC_CLIENT_SECRET = "x"' }, "OIDC_CLIENT_SECRET is a variable, which"],
    [
      "a Worker that reads along",
      { "[[rules]]": '[[tail_consumers]]\nservice = "x"\n[[rules]]' },
      "Another Worker would get the",
    ],
    ["a place for the Worker", { "[[rules]]": '[placement]\nmode = "smart"\n[[rules]]' }, "[placement] would run the"],
    ...[
      "http://id.example.com",
      "id.example.com",
      "https://login.microsoftonline.com/common/v2.0",
      "https://login.microsoftonline.com/{tenantid}/v2.0",
      "https://login.microsoftonline.com/9188040d-6c67-4b5b-b112-36a304b66dad/v2.0",
      "https://sts.windows.net/organizations/",
      "https://slack.com",
    ].map((issuer): [string, Edits, string] => [
      `the issuer ${issuer}`,
      { 'OIDC_ISSUER = ""': `OIDC_ISSUER = "${issuer}"` },
      issuer,
    ]),
    ["no name", { 'name = "signal-ingestion"\nmain': "main" }, "The Worker has no name."],
    ["no address", { [ROUTE]: "", "minify = true": "workers_dev = false" }, "The Worker has no address."],
    ["an unknown jurisdiction", { 'JURISDICTION = ""': 'JURISDICTION = "EU"' }, 'JURISDICTION is "EU", which is none'],
    [
      "a bucket elsewhere",
      EU,
      'The bucket of COLD is not in the jurisdiction "eu" of the objects. → jurisdiction = "eu"',
    ],
  ])("with %s is not deployed", (_, edits, found) => {
    expect(findings(edited(TOP, edits))).toEqual(containing(found));
  });

  test("with OpenID Connect needs issuer and client, and no audience", () => {
    const oidc = edited(TOP, { 'SIGN_IN = "access"': 'SIGN_IN = "oidc"', 'ACCESS_AUD = "a1b2"': 'ACCESS_AUD = ""' });
    expect(findings(oidc)).toEqual(containing("OIDC_ISSUER is empty", "OIDC_CLIENT_ID is empty"));
    const client = { 'OIDC_ISSUER = ""': 'OIDC_ISSUER = "https://id"', 'OIDC_CLIENT_ID = ""': 'OIDC_CLIENT_ID = "c"' };
    expect(findings(edited(oidc, client))).toEqual([]);
  });
});

describe("an environment", () => {
  test("is rejected if it is not in the file, because it would use the top level's database", () => {
    expect(findings(TOP + environmentLike("staging"), "stagign")).toEqual(
      containing("There is no environment stagign. → [env.stagign] in wrangler.toml with its own bindings"),
    );
  });

  test("is compared too when another environment is deployed", () => {
    const file = TOP + environmentLike("staging", { 'name = "PAGE_FORMS"': 'name = "OTHER"' });
    expect(findings(file)).toEqual(containing("PAGE_FORMS is missing. → its lines, as in the repository's file"));
    expect(findings(file)[0]).toContain("in [env.staging] of wrangler.toml");
    const withoutBucket = edited(TOP, { 'binding = "COLD"': 'binding = "OTHER"' }) + environmentLike("staging");
    expect(findings(withoutBucket, "staging")).toContainEqual(
      expect.stringMatching(/^COLD is missing.* in wrangler.toml/),
    );
  });

  test("may have the issuer of one tenant", () => {
    for (const issuer of [
      "https://login.microsoftonline.com/0b6a1f6e-1111-4222-8333-444455556666/v2.0",
      "https://id.example.com/common",
    ])
      expect(findings(edited(TOP, { 'OIDC_ISSUER = ""': `OIDC_ISSUER = "${issuer}"` }))).toEqual([]);
  });

  test("is complete if it repeats every binding under a new name", () => {
    const file = TOP + environmentLike("staging") + environmentLike("testing2");
    for (const environment of [undefined, "staging", "testing2"]) expect(findings(file, environment)).toEqual([]);
  });

  const line = (text: string): Edits => ({ "[env.staging]\n": `[env.staging]\n${text}\n` });
  const OWN_ROUTE = '[[env.staging.routes]]\npattern = "staging.example.com"\ncustom_domain = true\n';

  test.each<[what: string, edits: Edits, found: string]>([
    [
      "without migrations",
      { 'migrations_dir = "migrations/d1"': "" },
      "migrations_dir of DB is not what the Worker needs.",
    ],
    [
      "with other migrations",
      { "migrations/d1": "migrations" },
      'migrations_dir of DB is not what the Worker needs. → migrations_dir = "migrations/d1"',
    ],
    ["without retries", { "max_retries = 8": "" }, "The consumer of the queue signals-staging has no max_retries."],
    [
      "without a consumer",
      { 'consumers]]\nqueue = "deliveries': 'other]]\nqueue = "' },
      "deliveries-staging has no consumer.",
    ],
    [
      "without a rate limiter",
      { 'name = "PAGE_FORMS"': 'name = "OTHER"' },
      "PAGE_FORMS is missing. → its lines, as in the repository",
    ],
    ["without a variable", { 'REQUEST_BURST = "1000"': "" }, "REQUEST_BURST is missing."],
    ["without the bucket", { 'binding = "COLD"': 'binding = "OTHER"' }, "COLD is missing."],
    [
      "with another class",
      { '"SignalStore"': '"Destinations"' },
      "class_name of SIGNAL_STORE is not what the Worker needs.",
    ],
    ["with another Worker's objects", { '"SignalStore"': '"SignalStore"\nscript_name = "x"' }, "→ no script_name"],
    [
      "without routes of its own",
      { [OWN_ROUTE]: "" },
      "The host signals.example.com is also that of the top level. → a va",
    ],
    ["with other flags", line("compatibility_flags = []"), "compatibility_flags is not what the Worker needs."],
    ["with a cron", line("triggers = { crons = [] }"), "triggers is not what the Worker needs."],
    ["with another program", line('main = "src/x.ts"'), "main is not what the Worker needs."],
    [
      "with migrations of its own",
      line('migrations = [{ tag = "v1", new_sqlite_classes = ["SignalStore"] }]'),
      "migrations is not what the Worker needs. → migrations as in the repository's file, once, at the top level,",
    ],
    ["with the top level's Worker", line('name = "signal-ingestion"'), "The Worker's name"],
    [
      "with the database's name",
      { '"signal-ingestion-staging"': '"signal-ingestion"' },
      "The database name signal-inge",
    ],
    ["with the top level's database", { [ID.replace("0b6a", "0007")]: ID }, `The database ${ID} is also that of the`],
    ["with the top level's bucket", { "-cold-staging": "-cold" }, "The bucket signals-cold is also"],
    ["with the top level's queue", { "deliveries-staging": "deliveries" }, "The queue deliveries is also"],
    ["with the top level's rate limit", { 7830680844: "830680844" }, "The rate limits' namespace_id 830680844 is also"],
  ])("%s is not deployed", (_, edits, found) => {
    expect(findings(TOP + environmentLike("staging", edits), "staging")).toEqual(containing(found));
  });

  test("may not share a route for many hosts, or a service binding, and has each of the top level's", () => {
    const many = (host: string) => ({ [host]: "*.example.com/*", "custom_domain = true": 'zone_name = "example.com"' });
    const wild = edited(TOP, many("signals.example.com"));
    const service = '\n[[services]]\nbinding = "CRM"\nservice = "crm"\n';
    const ofStaging = service.replace("services", "env.staging.services");
    const shared = environmentLike("staging", many("staging.example.com"));
    expect(findings(`${wild}${service}${shared}${ofStaging}`, "staging")).toEqual(
      containing(
        "The host *.example.com is also that of the top level.",
        "The Worker crm of a service binding is also that of the top level.",
      ),
    );
    expect(findings(`${TOP}${service}${environmentLike("staging")}`, "staging")).toEqual(containing("CRM is missing."));
  });

  test("may not share a rate limit with another environment", () => {
    const file = TOP + environmentLike("staging") + environmentLike("testing");
    expect(findings(file, "testing")).toContainEqual(
      expect.stringMatching(/^The rate limits' namespace_id .* is also that of \[env.staging\]\./),
    );
    expect(findings(file)).toEqual([]);
  });

  const SAME_NAMES = { '-staging"': '"' };

  test("may reuse names of another account, but none of a top level that is not deployed yet", () => {
    const inAccounts = (top: string, staging: string) =>
      findings(`${top}${environmentLike("staging", { ...SAME_NAMES, ...line(staging) })}`, "staging");
    const [inA, inB] = ['account_id = "a"\n', 'account_id = "b"\n'];
    expect(inAccounts(inA + TOP, inB)).toEqual([]);
    expect(inAccounts(inA + TOP, "")).not.toEqual([]);
    // Without an account_id, the top level may be deployed to any account.
    expect(inAccounts(TOP, inB)).not.toEqual([]);
    const notDeployed = TOP.replace(ID, "00000000-0000-0000-0000-000000000000");
    expect(inAccounts(inA + notDeployed, "")).toEqual(inAccounts(inA + TOP, ""));
  });

  test.each<[edits: Edits, found: string[]]>([
    [{ "signals-dlq-staging": "signals-staging-dlq" }, []],
    [{ "deliveries-staging": "staging-deliveries" }, []],
    [{ "deliveries-staging": "out" }, ["the queue out as a queue of signals. → a name with deliveries as a"]],
    [{ "signals-dlq-staging": "given-up" }, ["queue given-up as a queue of signals. → a name with dlq as a word"]],
    [{ "signals-staging": "deliveries-in" }, ["as a queue of deliveries. → a name with neither"]],
    [
      { 'binding = "SIGNALS"\nqueue = "s': 'binding = "SIGNALS"\nqueue = "no-s' },
      ["no-signals-staging has no consumer."],
    ],
  ])("may choose queue names that show the kind of message: %j", (edits, found) => {
    expect(findings(TOP + environmentLike("staging", edits), "staging")).toEqual(containing(...found));
  });
});

/** As wrangler 4.156 writes it. */
const ERROR = "\u001B[31m✘ \u001B[41;31m[\u001B[41;97mERROR\u001B[41;31m]\u001B[0m \u001B[1m";
const failed = (message: string) => ({ code: 1, out: `${ERROR}${message}` });
const requestFailed = (about: string, message: string) =>
  failed(`A request to the Cloudflare API (/accounts/a/${about}) failed.\u001B[0m\n\n  ${message}\n`);
const NO_QUEUE = failed('Queue "signals" does not exist. To create it, run: wrangler queues create signals\u001B[0m\n');
const NO_BUCKET = requestFailed("r2/buckets/signals-cold", "The specified bucket does not exist. [code: 10006]");
const NO_WORKER = requestFailed(
  "workers/scripts/x/secrets",
  "This Worker does not exist on your account. [code: 10007]",
);
const NO_TABLE = requestFailed(`d1/database/${ID}/query`, "no such table: workspaces: SQLITE_ERROR [code: 7500]");
const NO_LOGIN = failed("In a non-interactive environment, it's necessary to set a CLOUDFLARE_API_TOKEN\n\nLogs: x\n");

/** Answers of wrangler, by the first words of the command. Any other command succeeds. */
type Answers = Record<string, string | { code: number; out: string }>;

const EVERYTHING = {
  "d1 list": `\n ⛅️ wrangler 4.156.2 (update available 4.164.0)\n──────\n${JSON.stringify([{ uuid: ID, name: "signal-ingestion" }])}\n`,
  "d1 execute": JSON.stringify([{ results: [], success: true, meta: {} }]),
  "secret list": JSON.stringify([{ name: "OPERATOR_TOKEN", type: "secret_text" }]),
};

const answering =
  (answers: Answers, asked: string[] = []): Wrangler =>
  async (args) => {
    asked.push(args.join(" "));
    const answer = answers[args.slice(0, args[0] === "r2" ? 3 : 2).join(" ")] ?? "";
    return typeof answer === "string" ? { code: 0, out: answer } : answer;
  };

const configOf = (toml: string) => sectionsOf(toml)[0]?.config as DeployConfig;
const CONFIG = configOf(TOP);
const IN_EU = configOf(edited(TOP, { ...EU, "[[r2_buckets]]": '[[r2_buckets]]\njurisdiction = "eu"' }));

const QUEUES = ["signals", "deliveries", "signals-dlq"];
const unreachable = () => Promise.reject(new Error("no such host"));

const missing = (answers: Answers, config = CONFIG, environment?: string, asked?: string[]) =>
  missingInAccount({ config, environment, hosts: [] }, answering(answers, asked), unreachable);

describe("the account", () => {
  test("is complete if everything exists", async () => {
    expect(await missing(EVERYTHING)).toEqual([]);
    expect(await missing(EVERYTHING, IN_EU)).toEqual([]);
    expect(missingText([])).toBe("Nothing is missing.");
  });

  const EMPTY = {
    "d1 list": "[]",
    "d1 execute": NO_TABLE,
    "secret list": NO_WORKER,
    "queues info": NO_QUEUE,
    "r2 bucket info": NO_BUCKET,
  };

  test("lacks everything if it is empty, each with the command that creates it", async () => {
    expect((await missing(EMPTY, CONFIG, "staging")).map(({ fix }) => fix)).toEqual([
      "npx wrangler d1 create signal-ingestion",
      ...QUEUES.map((queue) => `npx wrangler queues create ${queue}`),
      "npx wrangler r2 bucket create signals-cold",
      "openssl rand -base64 32 | tee /dev/stderr | npx wrangler secret put OPERATOR_TOKEN --env staging",
    ]);
  });

  test("is read and filled in the jurisdiction", async () => {
    const asked: string[] = [];
    expect((await missing(EMPTY, IN_EU, undefined, asked)).map(({ fix }) => fix)).toEqual([
      "npx wrangler d1 create signal-ingestion --jurisdiction eu",
      ...QUEUES.map((queue) => `npx wrangler queues create ${queue} --jurisdiction eu`),
      "npx wrangler r2 bucket create signals-cold --jurisdiction eu",
      "openssl rand -base64 32 | tee /dev/stderr | npx wrangler secret put OPERATOR_TOKEN",
    ]);
    expect(asked).toContain("r2 bucket info signals-cold --jurisdiction eu");
    const noId = edited(TOP, { ...EU, [ID]: "" });
    expect(findings(noId)).toContainEqual(expect.stringContaining("d1 create signal-ingestion --jurisdiction eu, and"));
  });

  test("gets a hint if the database exists under another id", async () => {
    const otherId = "9d9d9d9d-1111-4222-8333-444455556666";
    const databases = { ...EVERYTHING, "d1 list": JSON.stringify([{ uuid: otherId, name: "signal-ingestion" }]) };
    expect(await missing(databases)).toEqual([
      { problem: `There is no database ${ID}.`, fix: `database_id = "${otherId}" in wrangler.toml` },
    ]);
  });

  test("is not treated as empty if wrangler cannot read it, and the cause is printed once", async () => {
    const closed = Object.fromEntries(Object.keys(EMPTY).map((command) => [command, NO_LOGIN]));
    const found = await missing(closed);
    expect(found).toHaveLength(1);
    expect(missingText(found)).toMatch(
      /^One thing is missing:\n\n {2}Wrangler could not check database .*: In a non-inter/,
    );
    for (const command of Object.keys(closed)) {
      const [first, ...others] = await missing({ ...EVERYTHING, [command]: NO_LOGIN });
      expect([first?.problem, others]).toEqual([expect.stringContaining("Wrangler could not check"), []]);
    }
    expect((await missing({ ...EVERYTHING, "d1 list": "<html>" }))[0]?.problem).toContain("no JSON: <html>");
  });

  test("keeps its operator token if wrangler cannot say whether there is one", async () => {
    const has = (secrets: Answers[string]) => hasOperatorToken(undefined, answering({ "secret list": secrets }));
    expect(await has(EVERYTHING["secret list"])).toBe(true);
    expect([await has("[]"), await has(NO_WORKER)]).toEqual([false, false]);
    await expect(has(NO_LOGIN)).rejects.toThrow("In a non-interactive environment");
    expect((await missing({ ...EVERYTHING, "secret list": NO_LOGIN }))[0]?.unread).toBe(true);
    expect((await missing(EMPTY)).some(({ unread }) => unread)).toBe(false);
  });

  test("must have its data in the configured jurisdiction", async () => {
    const withData = (workspace: object) => ({
      ...EVERYTHING,
      "d1 execute": JSON.stringify([{ results: [workspace], success: true, meta: {} }]),
    });
    expect(await missing(withData({ id: "ws_1", jurisdiction: "eu" }), IN_EU)).toEqual([]);
    expect(await missing(withData({ id: "ws_1", jurisdiction: "us" }), IN_EU)).toEqual([
      { problem: expect.stringContaining('this deployment\'s data is in "us"'), fix: 'JURISDICTION = "us"' },
    ]);
    // A workspace of a version without jurisdictions.
    expect(await missing(withData({ id: "ws_1" }))).toEqual([]);
    expect(await missing(withData({ id: "ws_1" }), IN_EU)).toEqual([
      { problem: expect.stringContaining("data is in no jurisdiction"), fix: 'JURISDICTION = ""' },
    ]);
  });

  test("is read for the deployed environment", async () => {
    const asked: string[] = [];
    await missing({}, CONFIG, "staging", asked);
    expect(asked.toSorted()).toEqual([
      "d1 execute DB --remote --json --command SELECT * FROM workspaces LIMIT 1 --env staging",
      "d1 list --json",
      ...QUEUES.toSorted().map((queue) => `queues info ${queue}`),
      "r2 bucket info signals-cold",
      "secret list --format json --env staging",
    ]);
  });
});

describe("a queue of the account", () => {
  const consumers = (...names: string[]) => ({
    "queues info": `Queue Name: signals\nNumber of Producers: 1\nProducers: worker:x\nNumber of Consumers: ${names.length}\n${names.length === 0 ? "" : `Consumers: ${names.join()}\n`}`,
  });
  const found = async (names: string[], workspaces: object[] = []) => {
    const data = { "d1 execute": JSON.stringify([{ results: workspaces, success: true, meta: {} }]) };
    return missing({ ...EVERYTHING, ...consumers(...names), ...data });
  };

  test("has this Worker as its only consumer", async () => {
    expect(await found(["worker:signal-ingestion"])).toEqual([]);
    const two = await found(["worker:signal-ingestion", "worker:old"]);
    expect(two.map(({ problem }) => problem)).toEqual(
      QUEUES.map((queue) => `The queue ${queue} has another consumer, which takes its messages: worker:old.`),
    );
    expect(two[0]?.fix).toBe("npx wrangler queues consumer remove signals old");
    expect((await found(["HTTP Pull Consumer."]))[0]?.fix).toBe("npx wrangler queues consumer http remove signals");
  });

  test("has a consumer once the service has data, which a deployment adds", async () => {
    expect(await found([])).toEqual([]);
    const none = await found([], [{ id: "ws_1", jurisdiction: "" }]);
    expect(none[0]).toEqual({
      problem: "The queue signals has no consumer: its messages wait.",
      fix: "npm run deploy",
      byDeploy: true,
    });
  });
});

test("an origin is asked as a server asks it, and only the Worker's own answer is fine", async () => {
  const ours = { "content-type": "application/problem+json", "x-request-id": "req_1" };
  const asked: [string, RequestInit][] = [];
  const at = async (status: number, headers: Record<string, string>) => {
    const answer = async (url: string, init: RequestInit) => {
      asked.push([url, init]);
      return new Response(null, { status, headers });
    };
    return missingAtOrigin("https://signals.example", answer);
  };
  expect(await at(401, ours)).toEqual([]);
  expect(asked[0]).toMatchObject(["https://signals.example/api/signal-staging/webhook/sk_none", { method: "POST" }]);
  for (const [status, headers] of [
    [403, { "content-type": "text/html; charset=UTF-8" }],
    [302, { location: "https://acme.cloudflareaccess.com/x" }],
    [401, { "content-type": "application/json" }],
    [200, ours],
  ] as const) {
    const [first] = await at(status, headers);
    expect(first?.problem).toContain(`is not answered by the Worker (${status}`);
    expect(first?.fix).toContain("Bot Fight Mode");
  }
  expect((await missingAtOrigin("https://signals.example", unreachable))[0]?.problem).toContain("no such host");
});

test("a host gets a hint if Access protects its webhooks or not its pages; a host without an answer is fine", async () => {
  const location = "https://acme.cloudflareaccess.com/cdn-cgi/x";
  const signIn = () => new Response(null, { status: 302, headers: { location } });
  const worker = () => new Response("{}", { status: 405 });
  const at = async (webhooks: () => Response, pages: () => Response, config = CONFIG, host = "signals.example") => {
    const answer = async (url: string) => (url.includes("/api/") ? webhooks() : pages());
    const checked = { config, environment: undefined, hosts: [host] };
    return (await missingInAccount(checked, answering(EVERYTHING), answer)).map(({ problem }) => problem);
  };
  const nobody = () => {
    throw new Error("no such host");
  };
  expect(await at(worker, signIn)).toEqual([]);
  expect(await at(nobody, nobody)).toEqual([]);
  expect(await at(signIn, signIn)).toEqual(containing("Access stands in front of the webhooks at signals.example"));
  expect(await at(worker, worker)).toEqual(containing("Access does not stand in front of the pages"));
  expect(await at(worker, worker, { ...CONFIG, vars: { ...CONFIG.vars, SIGN_IN: "oidc" } })).toEqual([]);
  expect(await at(signIn, signIn, CONFIG, "*.example")).toEqual([]);
});

describe("the command line", () => {
  test("names an environment, or else CLOUDFLARE_ENV does, as in wrangler", () => {
    for (const flag of ["--env", "-e"])
      expect(argumentsOf([flag, "staging"], "testing")).toMatchObject({ environment: "staging", onlyCheck: false });
    expect(argumentsOf([], "")).toMatchObject({ environment: undefined, onlyCheck: false });
    expect(argumentsOf(["--check"], "testing")).toMatchObject({ environment: "testing", onlyCheck: true });
    const origin = ["--check", "--origin", "https://signals.example.com/path"];
    expect(argumentsOf(origin, "")).toMatchObject({ onlyCheck: true, origin: "https://signals.example.com" });
    for (const rejected of [origin.slice(1), ["--check", "--origin", "signals"]])
      expect(() => argumentsOf(rejected, "")).toThrow("--origin");
  });

  test.each([["--var", "SIGN_IN:local"], ["--var=SIGN_IN:local"], ["--config", "x.toml"], ["--name", "x"], ["x"]])(
    "that would change what was checked is rejected: %s",
    (...args) => expect(() => argumentsOf(["--env", "staging", ...args], "")).toThrow(/option|argument/),
  );

  test("of a deployment is rejected with the allowed arguments", () => {
    const args = ["src/dev/deploy/deploy.ts", "--var", "SIGN_IN:local"];
    const { status, stdout } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: "utf8" });
    expect(status).toBe(1);
    expect(stdout).toContain(
      "\nOnly --env NAME, and --origin URL with deploy:check, are taken here. Write every other setting in wrangler.toml.\n",
    );
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
  const options = { cwd: ROOT, env, encoding: "utf8" } as const;
  const { status, stdout } = spawnSync(process.execPath, ["src/dev/deploy/deploy.ts"], options);
  expect(status).toBe(1);
  expect(stdout).toContain("DB has no database yet.");
  expect(stdout).toContain("Wrangler could not check");
  expect(stdout).not.toMatch(/migrations/i);
});
