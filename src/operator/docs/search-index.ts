/** Search in the documentation: pages, guides, operations, fields, schemas, notifications and codes. */
import { withoutKeys, holdsCredential } from "../../domain/keys/api-key.ts";
import { cut } from "../../domain/text.ts";
import { choicesOf, dataOf, ownParameters, schemaName, type ApiOperation, type JsonSchema } from "./api-document.ts";
import { guideOf } from "./guide.ts";
import { adviceAt, codesOf, NOTIFICATIONS_PATH, PAGES, PARTS, schemaAddress, schemasOf, type Site } from "./site.ts";

export interface Target {
  kind: "Page" | "Guide" | "Operation" | "Field" | "Schema" | "Notification" | "Code";
  title: string;
  /** The name of its page; of a field, of its operation or schema. */
  place: string;
  href: string;
  text: string;
}

interface Indexed extends Target {
  /** In lower case: the title, and all that is searched. */
  name: string;
  searched: string;
}

/** Longest search text, in characters, and number of words: the work for a search is bounded, because anybody may ask. */
const QUERY_MAX_CHARACTERS = 100;
const WORDS_MAX = 6;
export const RESULTS_MAX = 50;
/** More than a key or secret has, so that one at the end of the text is recognised before the text is cut. */
const CHECKED_CHARACTERS = 400;
const TEXT_MAX_CHARACTERS = 200;

/** The search text to use and to show: bounded, and without a key or secret that somebody has pasted. */
export function searchText(asked: string | undefined): string {
  const checked = (asked ?? "").slice(0, CHECKED_CHARACTERS);
  return holdsCredential(checked) ? "" : withoutKeys(checked.slice(0, QUERY_MAX_CHARACTERS)).toWellFormed().trim();
}

export class SearchIndex {
  readonly #all: Indexed[];

  constructor(site: Site) {
    this.#all = targetsOf(site).map((target) => ({
      ...target,
      text: cut(target.text, TEXT_MAX_CHARACTERS),
      name: target.title.toLowerCase(),
      searched: [target.title, target.place, target.text, target.href].join("\n").toLowerCase(),
    }));
  }

  get targets(): readonly Target[] {
    return this.#all;
  }

  /** Those that contain all words of the text: first the title that equals the text, then titles that contain the words. */
  find(text: string): Target[] {
    const query = text.toLowerCase();
    const words = query.split(/\s/).filter((word) => word !== "");
    const used = words.slice(0, WORDS_MAX);
    if (used.length === 0) return [];
    const rankOf = ({ name }: Indexed): number =>
      name === query ? 0 : used.every((word) => name.includes(word)) ? 1 : 2;
    const found = this.#all.filter(({ searched }) => used.every((word) => searched.includes(word)));
    return found.toSorted((a, b) => rankOf(a) - rankOf(b));
  }
}

function targetsOf(site: Site): Target[] {
  const { entries } = site;
  return PAGES.flatMap(({ part, path, title: place, intro }): Target[] => [
    { kind: "Page", title: place, place: PARTS[part].text, href: path, text: intro },
    ...guideOf(path).map(({ id, title, text, list = [] }): Target => {
      return { kind: "Guide", title, place, href: `${path}#${id}`, text: plain([...text, ...list].join(" ")) };
    }),
    ...(entries.get(path) ?? []).flatMap(({ method, path: address, operation }): Target[] => {
      const { summary, description = "", operationId } = operation;
      const href = `${path}#${operationId}`;
      const text = plain(`${method} ${address} ${description}`);
      return [{ kind: "Operation", title: summary, place, href, text }, ...fieldsOfOperation(operation, href)];
    }),
    ...(path === NOTIFICATIONS_PATH ? notificationTargets(site, place) : schemaTargets(site, path, place)),
    ...codesOf(site, path).map(({ code, status, when }): Target => {
      const advice = adviceAt(path, code);
      return {
        kind: "Code",
        title: code,
        place,
        href: `${path}#${code}`,
        text: plain(`${status}: ${when} ${advice}`),
      };
    }),
  ]);
}

function schemaTargets(site: Site, path: string, place: string): Target[] {
  return schemasOf(site, path).flatMap(([name, schema]): Target[] => {
    const href = schemaAddress(site, name);
    const text = plain(schema.description ?? "");
    return [{ kind: "Schema", title: name, place, href, text }, ...fieldsOf(schema, name, href)];
  });
}

function notificationTargets({ document }: Site, place: string): Target[] {
  return Object.entries(document.webhooks).flatMap(([type, { post }]): Target[] => {
    const href = `${NOTIFICATIONS_PATH}#${post.operationId}`;
    const data = dataOf(post, document);
    return [
      { kind: "Notification", title: type, place, href, text: plain(post.summary) },
      ...fieldsOf(data, type, href),
    ];
  });
}

/** Its parameters, and the fields of bodies and answers that are no named schema. */
function fieldsOfOperation(operation: ApiOperation, href: string): Target[] {
  const { summary, requestBody, responses } = operation;
  const contents = [requestBody?.content ?? {}, ...Object.values(responses).map(({ content = {} }) => content)];
  const schemas = contents.flatMap((content) => Object.values(content)).flatMap(({ schema = {} }) => schema);
  return [
    ...ownParameters(operation).map(({ name, description, schema }): Target => {
      const text = plain(description ?? schema?.description ?? "");
      return { kind: "Field", title: name, place: summary, href, text };
    }),
    ...schemas
      .filter((schema) => schemaName(schema) === undefined)
      .flatMap((schema) => fieldsOf(schema, summary, href)),
  ];
}

function fieldsOf(schema: JsonSchema, place: string, href: string): Target[] {
  const properties = choicesOf(schema).map((choice) => choice.properties);
  return Object.entries<JsonSchema>(Object.assign({}, ...properties)).map(([title, { description = "" }]): Target => {
    return { kind: "Field", title, place, href, text: plain(description) };
  });
}

function plain(text: string): string {
  return text.replaceAll("`", "").trim();
}
