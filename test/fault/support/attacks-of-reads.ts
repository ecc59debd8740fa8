/** Attacks that read: every page and every GET of the operator API, previews, and what strangers may ask. */
import { TOKEN_SCOPES } from "../../../src/domain/keys/api-token.ts";
import type { AttackCall } from "./attack.ts";
import { callOf, type Attack, type Attacker } from "./attacker.ts";
import { get, honestGet, honestSignal } from "./honest-calls.ts";
import { getRoutes } from "./routes.ts";
import { REPEATED, repeated } from "./shapes.ts";

const CONNECTIONS = 32;
/** Characters of a query. */
const QUERY_CHARACTERS = 4_000;
/** A download is as long as what is stored, so only its parts are bounded. */
const DOWNLOAD = /\/export(\/|$)/;
const SHOWS_A_SIGNAL = /proposed-rule|\/signals\/sig_|\/signals\/sst_|rules\/new\?from=/;

export const readAttacks: Attack[] = [
  {
    title: "GETs of every public page, by strangers",
    make: ({ attacker }) => {
      const isPublic = ({ path }: { path: string }): boolean => !/^\/(w|operator)\//.test(path);
      const paths = getRoutes(attacker).filter(isPublic);
      const texts = ["e", "a e i o s t", ...REPEATED.map(([, text]) => repeated(text, QUERY_CHARACTERS))];
      const searches = texts.map((text) => `/docs/search?q=${encodeURIComponent(text)}`);
      const calls = [...paths.map(({ path }) => path), ...searches].map((path) => get("by a stranger", path));
      const others = getRoutes(attacker).filter((route) => !isPublic(route));
      const invented = others.map(({ path }, n) => get("with an invented session", path, { cookie: `session=${n}` }));
      return answered(calls, [...calls, ...calls, ...calls, ...invented], honestGet(attacker));
    },
  },
  {
    title: "GETs of every page, by members and admins",
    make: ({ attacker }) => {
      const calls = pageCalls(attacker);
      return answered(withoutDownloads(calls), calls, honestGet(attacker));
    },
  },
  {
    title: "GETs of every route of the operator API, with tokens of every scope",
    make: ({ attacker }) => {
      const calls = apiCalls(attacker);
      return answered(withoutDownloads(calls), calls, honestGet(attacker));
    },
  },
  {
    title: "proposed rules of signals of the worst shapes, with read tokens and by admins",
    make: ({ attacker }) => {
      const calls = [...apiCalls(attacker), ...pageCalls(attacker)].filter(({ path }) => SHOWS_A_SIGNAL.test(path));
      return answered(calls, calls, honestGet(attacker));
    },
  },
  {
    title: "previews of rules on all stored signals, with tokens and by admins",
    make: ({ attacker }) => {
      const calls = previews(attacker);
      return answered(calls.slice(0, 1), calls, honestGet(attacker));
    },
  },
  {
    title: "signals that a thousand rules judge, by a sender",
    make: ({ attacker }) => {
      const list = Array.from({ length: 400 }, () => ({ b: 1 }));
      const signal = JSON.stringify({ event: "Ruled", email: "r@attacker.example", properties: { list } });
      const body = Buffer.from(`[${Array.from({ length: 40 }, () => signal).join(",")}]`);
      const calls = attacker.keys.map((key) =>
        callOf("40 signals", "/api/signal-staging/webhook/KEY/batch", key, body),
      );
      return answered(calls.slice(0, 1), calls, honestSignal(attacker), 4);
    },
  },
];

function answered(alone: AttackCall[], calls: AttackCall[], honest: AttackCall, connections = CONNECTIONS) {
  return { alone, assaults: [{ connections, manner: { kind: "answered" } as const, calls }], honest: [honest] };
}

const withoutDownloads = (calls: AttackCall[]): AttackCall[] => calls.filter(({ path }) => !DOWNLOAD.test(path));

/** Each page in turn by an admin and by a member, and lists with queries of each shape. */
function pageCalls(attacker: Attacker): AttackCall[] {
  const { slug, admins, members, shapedSignalIds } = attacker;
  const pages = getRoutes(attacker).flatMap(({ path }) => (path.startsWith("/w") ? [path] : []));
  const queries = REPEATED.flatMap(([, text]) => {
    const query = encodeURIComponent(repeated(text, QUERY_CHARACTERS));
    return [`search?q=${query}`, `people?q=${query}`, `signals?q=${query}&source=${query}`, `accounts?q=${query}`];
  });
  const proposals = shapedSignalIds.map((id) => `rules/new?from=${id}`);
  const paths = [...pages, ...[...queries, ...proposals].map((path) => `/w/${slug}/${path}`)];
  return paths.flatMap((path, n) => [
    get("by an admin", path, admins[n % admins.length]),
    get("by a member", path, members[n % members.length]),
  ]);
}

/** Each route with a token that may use it, and one with each other scope. */
function apiCalls(attacker: Attacker): AttackCall[] {
  const { tokens } = attacker;
  const api = getRoutes(attacker).filter(({ path }) => path.startsWith("/operator/"));
  return api.flatMap(({ path, scope }, n) => {
    const other = TOKEN_SCOPES[n % TOKEN_SCOPES.length] ?? "read";
    return [...new Set([scope ?? other, other])].map((used) => {
      const token = tokens[used][n % tokens[used].length];
      return get(`with a token for ${used}`, path, { authorization: `Bearer ${token}` });
    });
  });
}

function previews({ id, slug, tokens, admins }: Attacker): AttackCall[] {
  const conditions = Array.from({ length: 50 }, (_, n) => ({
    path: `properties.list[].k${n}`,
    operator: "contains",
    value: "x",
  }));
  const rule = { name: "n", event: "*", match: "any", scoring_signal: "s", points: 1, conditions };
  const path = `/operator/workspaces/${id}/rules/preview?days=365`;
  const body = Buffer.from(JSON.stringify(rule));
  const rows = new URLSearchParams({ event: "*", match: "any", days: "365", do: "preview" });
  for (const condition of conditions) for (const [name, value] of Object.entries(condition)) rows.append(name, value);
  const form = { "content-type": "application/x-www-form-urlencoded" };
  return [
    ...tokens.rules.map((token) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      return { title: "with a token", method: "POST", path, headers, body };
    }),
    ...admins.map((admin) => {
      const headers = { ...admin, ...form };
      return {
        title: "by an admin",
        method: "POST",
        path: `/w/${slug}/rules`,
        headers,
        body: Buffer.from(rows.toString()),
      };
    }),
  ];
}
