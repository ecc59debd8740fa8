/** The routes of the service, with the ids of an attacker's records in their paths. */
import { TOKEN_SCOPES, type TokenScope } from "../../../src/domain/keys/api-token.ts";
import { ACCESS } from "../../support/access.ts";
import type { Attacker } from "./attacker.ts";

interface OpenApi {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, { example?: object }> } }>>;
}

export interface BodyRoute {
  method: string;
  path: string;
  /** The scope with which a token may use it; null: none. */
  scope: TokenScope | null;
  /** A valid body. */
  example: object;
}

/** The routes of the operator API that read a body. */
export async function bodyRoutes(origin: string, attacker: Attacker): Promise<BodyRoute[]> {
  const answer = await fetch(`${origin}/openapi.json`);
  const { paths } = (await answer.json()) as OpenApi;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([name, { requestBody }]) => {
      const content = requestBody?.content["application/json"];
      if (content === undefined || !path.startsWith("/operator/workspaces/{workspace_id}/")) return [];
      const method = name.toUpperCase();
      const row = `${method} ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`;
      return [{ method, path: filled(path, attacker), scope: scopeOf(ACCESS[row]), example: content.example ?? {} }];
    }),
  );
}

function scopeOf(answers = ""): TokenScope | null {
  const word = answers.split(" ").at(-1);
  return TOKEN_SCOPES.find((scope) => scope === word) ?? null;
}

export interface GetRoute {
  path: string;
  scope: TokenScope | null;
}

/** All GET routes: pages, operator API, public ones. A route of a signal is listed once for each stored worst shape. */
export function getRoutes(attacker: Attacker): GetRoute[] {
  return Object.entries(ACCESS).flatMap(([row, answers]) => {
    const [method, route = ""] = row.split(" ");
    if (method !== "GET" || route.includes("…")) return [];
    const scope = scopeOf(answers);
    if (!route.includes(":signal_id")) return [{ path: filled(route, attacker), scope }];
    return attacker.shapedSignalIds.map((id) => ({ path: filled(route.replace(":signal_id", id), attacker), scope }));
  });
}

function filled(route: string, { id, slug, keyId, ruleId, destinationId }: Attacker): string {
  const known: Record<string, string> = {
    workspace_id: id,
    slug,
    key_id: keyId,
    rule_id: ruleId,
    id: destinationId,
    destination_id: destinationId,
    version: "1",
    email: "p0@attacker.example",
    person_email: "p0@attacker.example",
    external_id: "acme-0",
  };
  return route.replaceAll(
    /\{(\w+)\}|:(\w+)(\{.*?\}\})?/g,
    (_, inBraces: string, name: string) => known[inBraces ?? name] ?? "x",
  );
}
