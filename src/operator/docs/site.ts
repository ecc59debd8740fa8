/**
 * The pages of /docs, and on which of them each operation and schema of the OpenAPI document stands. Each stands on one page
 * only: an operation on that of its tag, a schema on that of the operations that use it.
 */
import { SENDER_CODES_PATH, API_CODES_PATH, explanationOf } from "../../http/problem.ts";
import { isRejectionCode, REJECTIONS } from "../../http/rejection-table.ts";
import type { TAGS } from "../operation.ts";
import { schemaName, type ApiDocument, type ApiOperation, type JsonSchema } from "./api-document.ts";

export const START_PATH = "/docs";
export const SEARCH_PATH = "/docs/search";
export const SHAPES_PATH = "/docs/senders/shapes";
export const NOTIFICATIONS_PATH = "/docs/api/notifications";
export const SCHEMAS_PATH = "/docs/api/schemas";

export const PARTS = {
  senders: { text: "Senders", path: "/docs/senders", about: "For what sends signals and account data to a webhook." },
  api: { text: "API", path: "/docs/api", about: "For programs with an API token, and for the operator's own systems." },
} as const;
export type PartName = keyof typeof PARTS;

export interface DocsPage {
  part: PartName;
  path: string;
  title: string;
  intro: string;
  /** The tag of its operations. */
  tag?: string;
}

type Tag = (typeof TAGS)[number];

const RESOURCES: Record<Exclude<Tag, "Ingestion">, string> = {
  Workspaces: "Create, change, move and end workspaces.",
  Health: "Whether workspaces work, with their alarms and figures.",
  Members: "Who may open the workspace's pages, and with which role.",
  "API keys": "Keys of senders, and payload templates for senders that cannot change their bodies.",
  "API tokens": "Tokens with which programs call this API.",
  "Mapping rules": "Which signals score, and how many points.",
  Exclusions: "Which signals never score, such as those of your own staff.",
  Signals: "Signals, people and scores; dead letters and held signals.",
  Accounts: "Accounts with their scores, people and history.",
  "Data care": "Exports, and the deletion of a person.",
  Destinations: "Where notifications go, with their deliveries; score thresholds.",
  Quota: "Usage, books and rejected calls.",
  Plans: "What a workspace may send in a billing period.",
  Service: "Whether the service answers.",
};

/** `API keys` is at `/docs/api/keys`. */
function resourcePath(tag: string): string {
  const words = tag.toLowerCase().split(" ");
  return `${PARTS.api.path}/${words.filter((word) => !["api", "mapping"].includes(word)).join("-")}`;
}

const SENDER_PAGES: readonly Omit<DocsPage, "part">[] = [
  {
    path: PARTS.senders.path,
    title: "First call",
    intro: "A first call, many signals in one call, and when to send again.",
  },
  {
    path: "/docs/senders/endpoints",
    title: "Endpoints",
    intro: "Each takes POST, with the API key in its path.",
    tag: "Ingestion",
  },
  { path: SHAPES_PATH, title: "Shapes", intro: "The bodies that the endpoints take, and their answers." },
  {
    path: "/docs/senders/templates",
    title: "Fixed bodies",
    intro: "For senders that cannot change what they send: payload templates, misfits and handshakes.",
  },
  { path: "/docs/senders/limits", title: "Limits", intro: "How much a sender may send, and how fast." },
  {
    path: SENDER_CODES_PATH,
    title: "Rejection codes",
    intro: "Why a call or one of its signals is rejected, and what to do.",
  },
];

const API_PAGES: readonly Omit<DocsPage, "part">[] = [
  { path: PARTS.api.path, title: "Calls", intro: "Tokens and their scopes, lists, and changes that are sent twice." },
  ...Object.entries(RESOURCES).map(([tag, intro]) => ({ path: resourcePath(tag), title: tag, intro, tag })),
  { path: NOTIFICATIONS_PATH, title: "Notifications", intro: "What a webhook destination gets, each as a POST." },
  { path: SCHEMAS_PATH, title: "Shared schemas", intro: "Schemas that several resources use." },
  { path: API_CODES_PATH, title: "Error codes", intro: "The errors that this API answers with." },
];

/** In the order of the navigation. The start page and the search are not among them. */
export const PAGES: readonly DocsPage[] = [
  ...SENDER_PAGES.map((page) => ({ ...page, part: "senders" as const })),
  ...API_PAGES.map((page) => ({ ...page, part: "api" as const })),
];

export interface Entry {
  method: string;
  path: string;
  operation: ApiOperation;
}

export interface Site {
  document: ApiDocument;
  /** By the path of their page. */
  entries: ReadonlyMap<string, readonly Entry[]>;
  /** The path of the page of each schema, by its name. */
  schemaPages: ReadonlyMap<string, string>;
  /** Examples of the answers, by the name of their schema. */
  examples: ReadonlyMap<string, unknown>;
}

export function siteOf(document: ApiDocument): Site {
  const all = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]): Entry => ({ method: method.toUpperCase(), path, operation })),
  );
  const entries = new Map<string, Entry[]>();
  const users = new Map<string, Set<string>>(Object.keys(document.components.schemas).map((name) => [name, new Set()]));
  for (const { path, tag } of PAGES) {
    const ofPage = all.filter(({ operation }) => tag !== undefined && operation.tags.includes(tag));
    entries.set(path, ofPage);
    for (const name of schemasIn(ofPage, document)) users.get(name)?.add(path);
  }
  for (const name of schemasIn(document.webhooks, document)) users.get(name)?.add(NOTIFICATIONS_PATH);
  const schemaPages = new Map(Array.from(users, ([name, pages]) => [name, pageOf([...pages])]));
  return { document, entries, schemaPages, examples: examplesOf(all) };
}

function examplesOf(entries: readonly Entry[]): Map<string, unknown> {
  const answers = entries.flatMap(({ operation }) => Object.values(operation.responses));
  return new Map(
    answers.flatMap(({ content = {} }) => {
      const { schema = {}, example } = content["application/json"] ?? {};
      const name = schemaName(schema);
      return name === undefined ? [] : [[name, example] as const];
    }),
  );
}

function pageOf(users: readonly string[]): string {
  if (users.some((path) => path.startsWith(PARTS.senders.path))) return SHAPES_PATH;
  return (users.length === 1 ? users[0] : undefined) ?? SCHEMAS_PATH;
}

const REFERENCE = /"#\/components\/schemas\/(\w+)"/g;

/** The names of the schemas that a part of the document uses, also through other schemas. */
function schemasIn(part: unknown, document: ApiDocument): Set<string> {
  const namesIn = (value: unknown) => Array.from(JSON.stringify(value).matchAll(REFERENCE), ([, name = ""]) => name);
  const found = new Set(namesIn(part));
  // The iteration of a Set includes names that are added meanwhile.
  for (const name of found) for (const used of namesIn(document.components.schemas[name] ?? {})) found.add(used);
  return found;
}

/** @param from the path of the page that links to the schema. */
export function schemaAddress({ schemaPages }: Site, name: string, from?: string): string {
  const path = schemaPages.get(name) ?? SCHEMAS_PATH;
  return `${path === from ? "" : path}#schema-${name}`;
}

/** What a sender should change, on the page for senders; otherwise empty. */
export function adviceAt(path: string, code: string): string {
  return path === SENDER_CODES_PATH && isRejectionCode(code) ? REJECTIONS[code].advice : "";
}

/** The codes that a page of the documentation explains. */
export function codesOf({ document }: Site, path: string) {
  return document["x-error-codes"].filter(({ code }) =>
    [false, true].some((isOfOperator) => explanationOf(code, isOfOperator) === `${path}#${code}`),
  );
}

/** The schemas of a page, in the order of the document. */
export function schemasOf({ document, schemaPages }: Site, path: string): [name: string, schema: JsonSchema][] {
  return Object.entries(document.components.schemas).filter(([name]) => schemaPages.get(name) === path);
}
