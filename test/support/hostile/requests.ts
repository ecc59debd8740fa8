/** Hostile calls: a route of the Worker, a valid request for it, and usually one error in it. */
import { ingestApp } from "../../../src/ingest/routes.ts";
import type { Operation } from "../../../src/operator/operation.ts";
import { OPERATIONS } from "../../../src/operator/operator-api.ts";
import { otherRoutes } from "../../../src/operator-and-pages.ts";
import { ACCOUNTS, FORMS, LINES, QUERIES, SIGNALS, OPERATOR, type World } from "./world.ts";
import type { Chance } from "./chance.ts";
import { grown, mangled, mutate, write, METHODS, nastyHeader, nastySegment, nastyText } from "./values.ts";

interface Route {
  name: string;
  method: string;
  path: string;
  surface: "ingest" | "operator" | "pages";
  operation?: Operation | undefined;
}

export interface HostileCase {
  route: Route;
  path: string;
  init: RequestInit & { headers: Headers };
}

type Shape = "method" | "path" | "query" | "headers" | "body" | "nothing";

/** The faulty part of a call. Frequent parts are listed several times. */
const SHAPES = "method path path query query headers headers body body body nothing".split(" ") as readonly Shape[];

/** The routes come from the routers, so that a new route is attacked automatically. */
export const ROUTES: readonly Route[] = (() => {
  const found = new Map<string, Route>();
  const operations = new Map(
    OPERATIONS.map((operation) => [`${operation.method} /operator${operation.path}`, operation]),
  );
  for (const { method, path } of [...ingestApp.routes, ...otherRoutes.routes]) {
    if (method === "ALL") continue;
    const name = `${method} ${path}`;
    const surface = path.startsWith("/api/") ? "ingest" : path.startsWith("/operator") ? "operator" : "pages";
    found.set(name, { name, method, path, surface, operation: operations.get(name) });
  }
  return [...found.values()];
})();

const BY_SURFACE = Map.groupBy(ROUTES, ({ surface }) => surface);

/** @param sessions cookies of those who are signed in. */
export function hostileCase(world: World, chance: Chance, sessions: readonly string[]): HostileCase {
  const surface = chance.pick(["ingest", "ingest", "operator", "operator", "pages", "pages"] as const);
  const route = chance.pick(BY_SURFACE.get(surface) ?? []);
  const wrong = new Set<Shape>([chance.pick(SHAPES)]);
  if (chance.oneIn(4)) wrong.add(chance.pick(SHAPES));

  const headers = new Headers({
    "cf-connecting-ip": `2001:db8:${chance.below(65_536).toString(16)}:${chance.below(65_536).toString(16)}::1`,
  });
  if (surface === "operator") headers.set("authorization", OPERATOR);
  if (surface === "pages") {
    headers.set("cookie", chance.pick(sessions));
    headers.set("origin", "https://signals.example");
  }
  const key = keyFor(world, route, chance);
  if (surface === "ingest" && key.secret !== undefined) headers.set("x-api-secret", key.secret);

  const plant = () => chance.pick(world.carried);
  let path = pathOf(world, route, key.key, wrong.has("path") ? chance : null, plant);
  path += queryOf(world, route, chance, wrong.has("query"));

  const method = wrong.has("method") ? chance.pick(METHODS) : route.method;
  const body = ["GET", "HEAD"].includes(method.toUpperCase())
    ? null
    : bodyOf(world, route, chance, wrong.has("body"), headers);
  if (wrong.has("headers")) {
    const [name, value] = chance.oneIn(5)
      ? ([
          chance.pick(["x-api-secret", "authorization", "idempotency-key", "user-agent", "origin", "cookie"]),
          plant(),
        ] as const)
      : nastyHeader(chance);
    try {
      headers.set(name, value);
    } catch {
      // The platform's Headers and its HTTP reject such a value.
    }
  }
  return { route, path, init: { method, headers, body, redirect: "manual" } };
}

function keyFor(world: World, { path }: Route, chance: Chance): { key: string; secret?: string } {
  const { signals, withSecret, accounts } = world.keys;
  if (chance.oneIn(10)) return chance.pick([signals, withSecret, accounts, { key: "sk_none" }]);
  if (path.includes("product-orgs")) return accounts;
  return chance.oneIn(3) ? withSecret : signals;
}

function pathOf(world: World, { path }: Route, key: string, chance: Chance | null, plant: () => string): string {
  const parts = path.split("/");
  const wrongAt = chance === null ? -1 : chance.below(parts.length);
  const made = parts.map((part, at) => {
    if (chance !== null && at === wrongAt && at > 0) {
      if (chance.oneIn(8)) return plant();
      if (!part.startsWith(":") || chance.oneIn(2)) return nastySegment(chance);
    }
    const name = /^:(\w+)/.exec(part)?.[1];
    if (name === undefined) return part;
    if (name === "apiKey" || name === "keyOrBatch") return key;
    if (name === "sourceOrKey") return "web";
    const from = chance !== null && at === wrongAt ? world.foreign : world.subject;
    return encodeURIComponent(from[name] ?? "none");
  });
  return made.join("/") || "/";
}

function queryOf(world: World, route: Route, chance: Chance, isWrong: boolean): string {
  const known =
    route.operation?.query === undefined ? QUERIES.map(([name]) => name) : Object.keys(route.operation.query.shape);
  if (!isWrong && !chance.oneIn(3)) return "";
  const query = new URLSearchParams();
  for (let more = 1 + chance.below(3); more > 0; more--) {
    const isKey = isWrong && route.surface === "operator" && chance.oneIn(8);
    const name = isKey ? chance.pick(world.carried) : chance.oneIn(12) ? nastyText(chance) : chance.pick(known);
    const [, usual = ""] = QUERIES.find(([pair]) => pair === name) ?? [];
    query.append(
      name,
      isWrong
        ? chance.pick([
            usual,
            nastyText(chance),
            cursorOf(world, chance),
            "0",
            "-1",
            "201",
            "1e3",
            ...(isKey ? world.carried : []),
          ])
        : usual,
    );
  }
  if (isWrong && chance.oneIn(2)) query.set("cursor", cursorOf(world, chance));
  return isWrong && chance.oneIn(15) ? `?${nastySegment(chance)}=${nastySegment(chance)}&&=` : `?${query.toString()}`;
}

/** A cursor that a list has returned, of this or another list, and often changed. */
function cursorOf(world: World, chance: Chance): string {
  const cursor = world.cursors.length === 0 ? "[1]" : chance.pick(world.cursors);
  if (chance.oneIn(4)) return cursor;
  try {
    return write(mutate(JSON.parse(cursor), chance));
  } catch {
    const at = chance.below(cursor.length + 1);
    return cursor.slice(0, at) + chance.pick(["", "z", "0", "\u0000", "[", "'"]) + cursor.slice(at + 1);
  }
}

function bodyOf(world: World, route: Route, chance: Chance, isWrong: boolean, headers: Headers): BodyInit {
  if (route.surface === "pages") return formOf(route, chance, isWrong, headers);
  headers.set("content-type", "application/json");
  const value = valueFor(route, chance);
  if (!isWrong) return typeof value === "string" ? value : JSON.stringify(value);
  const isText = typeof value === "string";
  const text = isText ? value : write(chance.oneIn(3) ? value : planting(mutate(value, chance), world, chance));
  if (chance.oneIn(60)) return grown(text, chance);
  if (!isText && !chance.oneIn(4)) return text;
  const sent = mangled(text, chance);
  for (const [name, wrong] of sent.headers) headers.set(name, wrong);
  return chance.oneIn(30) ? brokenOff(sent.bytes) : sent.bytes;
}

/** Puts a key or a secret into a value that is already wrong. */
function planting(value: unknown, world: World, chance: Chance): unknown {
  if (!chance.oneIn(6) || typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const planted = chance.pick(world.stored);
  return chance.oneIn(2)
    ? { ...value, [planted]: planted }
    : { ...value, event: planted, name: planted, email: planted };
}

function valueFor({ surface, path, operation }: Route, chance: Chance): unknown {
  if (surface === "operator") return operation?.bodyExample ?? {};
  if (path.includes("product-orgs")) return chance.pick(ACCOUNTS);
  return path.includes("/bulk/") && chance.oneIn(2) ? LINES : chance.pick(SIGNALS);
}

function formOf({ name }: Route, chance: Chance, isWrong: boolean, headers: Headers): BodyInit {
  const isMultipart = chance.oneIn(4);
  const fields: [string, string | File][] = [...new URLSearchParams(FORMS[name])];
  if (isWrong) {
    const at = chance.below(fields.length + 1);
    const [field] = fields[at] ?? [chance.pick(QUERIES)[0]];
    const value =
      chance.oneIn(6) && isMultipart ? new File([nastyText(chance)], `${nastyText(chance)}.txt`) : nastyText(chance);
    const many = Array.from({ length: chance.pick([20, 101, 300]) }, (): [string, string] => [field, "x"]);
    chance.pick([
      () => fields.splice(at, 1),
      () => fields.push([field, value], [field, value]),
      () => fields.push(...many),
      () => fields.push([nastyText(chance), value]),
      () => (fields[at] = [field, value]),
    ])();
  }
  if (isMultipart) {
    const data = new FormData();
    for (const [field, value] of fields) {
      // The platform never writes a name that ends like this.
      const written = field.replace(/\\$/, "/");
      data.append(written, value as string);
    }
    return data;
  }
  headers.set("content-type", "application/x-www-form-urlencoded");
  const text = new URLSearchParams(
    fields.map(([field, value]) => [field, typeof value === "string" ? value : "file"]),
  ).toString();
  if (!isWrong || !chance.oneIn(4)) return text;
  if (chance.oneIn(10)) return `${text}&${grown("x=", chance)}`;
  const sent = mangled(`${text}&%=%zz&%ff=%00&a[]=1&a[b]=2&=`, chance);
  for (const [header, wrong] of sent.headers) headers.set(header, wrong);
  return sent.bytes;
}

/** A body whose sender disconnects in the middle. */
function brokenOff(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(bytes.slice(0, Math.floor(bytes.length / 2)));
    },
    pull(controller) {
      controller.error(new Error("the sender has gone"));
    },
  });
}
