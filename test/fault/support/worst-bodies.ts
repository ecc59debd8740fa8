/**
 * The worst bodies for each route that reads one: as large as its limit allows, and larger. Some have as many fields,
 * elements or levels as fit. Some have the characters that grow most when a page or an answer repeats them.
 */
import { gzipSync } from "node:zlib";
import {
  PAGE_FORM_MAX_CHARACTERS,
  PAGE_FORM_MAX_FIELDS,
  RULE_MAX_CONDITIONS,
  RULES_FILE_MAX_BYTES,
  SIGNAL_MAX_BYTES,
  TEMPLATE_MAX_MAPPINGS,
  WORKSPACE_MAX_RULES,
} from "../../../src/limits.ts";

export interface WorstBody {
  title: string;
  body: Buffer;
  headers: Record<string, string>;
}

const FORM = { "content-type": "application/x-www-form-urlencoded" };
const JSON_TYPE = { "content-type": "application/json" };
const OPERATOR_MAX_BYTES = 1024 * 1024;
const SAMPLE_CHARACTERS = 60_000;

/** Every field name of the pages' forms. */
const FIELDS = [
  "accepted,account_thresholds,back,days,do,email,enabled,endpoint_type,event,expires,file,fingerprint",
  "form_token,frequency,id,key,lifetime,match,name,notifications,operator,overages,overlap,path,plan,points,points_last_days,remove",
  "role,rules_version,sample,scoring_signal",
  "secret,silent_after_days,state,target,text,thresholds,to,type,value,version,what",
]
  .join(",")
  .split(",");

/** A double quote takes six bytes in HTML. */
const quotes = (characters: number): string => '"'.repeat(characters);

const urlencoded = (title: string, entries: [string, string][]): WorstBody => ({
  title,
  body: Buffer.from(new URLSearchParams(entries).toString()),
  headers: FORM,
});

/** Bodies for a route of the pages that shows nothing of what it gets. */
export function anyFormBodies(): WorstBody[] {
  const share = Math.floor(PAGE_FORM_MAX_CHARACTERS / FIELDS.length) - 30;
  return [
    { title: "3 MB of empty fields", body: Buffer.from("a&".repeat(1_500_000)), headers: FORM },
    { title: "250,000 empty fields", body: Buffer.from("a&".repeat(250_000)), headers: FORM },
    { title: "as many fields as allowed", body: Buffer.from("a=&".repeat(PAGE_FORM_MAX_FIELDS - 1)), headers: FORM },
    urlencoded(
      "quotes in every field",
      FIELDS.map((name) => [name, quotes(share)]),
    ),
  ];
}

/** Bodies for a route of the pages that shows again what it rejects in these fields. */
export function shownFormBodies(names: readonly string[]): WorstBody[] {
  if (names.length === 0) return [];
  return [
    { title: "200,000 parts", ...parts(200_000) },
    { title: "as many parts as allowed", ...parts(PAGE_FORM_MAX_FIELDS - 2) },
    ...names.map((name) =>
      urlencoded(`quotes in ${name}`, [
        [name, quotes(PAGE_FORM_MAX_CHARACTERS - 200)],
        ["form_token", "0".repeat(36)],
      ]),
    ),
  ];
}

function parts(count: number): Omit<WorstBody, "title"> {
  const part = '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n';
  return {
    body: Buffer.from(`${part.repeat(count)}--x--\r\n`),
    headers: { "content-type": "multipart/form-data; boundary=x" },
  };
}

/** The rule editor: more conditions than a rule may have, each with a long value. */
export function ruleForms(): WorstBody[] {
  const rows = (count: number, prefix: string): [string, string][] => [
    ["do", prefix],
    ["event", "*"],
    ["name", "worst"],
    ...Array.from({ length: count }, (): [string, string][] => [
      ["path", "properties.a"],
      ["operator", "in"],
      ["value", quotes(Math.floor(PAGE_FORM_MAX_CHARACTERS / count) - 40)],
    ]).flat(),
  ];
  return ["save", "preview", "add", "remove-3"].flatMap((action) => [
    urlencoded(`${action}: 300 conditions`, rows(300, action)),
    urlencoded(`${action}: as many conditions as allowed`, rows(RULE_MAX_CONDITIONS, action)),
  ]);
}

/** The new key: a hundred mappings of one value that fills the sample, and a sample of many values. */
export function keyForms(): WorstBody[] {
  const form = (action: string, path: string, sample: string): [string, string][] => [
    ["do", action],
    ["endpoint_type", "product_org"],
    ["name", "worst"],
    ["sample", sample],
    ...Array.from({ length: TEMPLATE_MAX_MAPPINGS }, (_, at): [string, string][] => [
      [`rows.${at}.target`, at === 0 ? "external_id" : "attributes"],
      [`rows.${at}.attribute`, `a${at}`],
      [`rows.${at}.path`, at === 0 ? "id" : path],
      [`rows.${at}.type`, at === 0 ? "string" : "json"],
    ]).flat(),
  ];
  const large = JSON.stringify({ id: "1", a: "<".repeat(SAMPLE_CHARACTERS) });
  const many = JSON.stringify({ id: "1", a: Array.from({ length: 6_000 }, (_, n) => ({ [`k${n}`]: n })) });
  const deep = `{"id":"1","a":${"[".repeat(25_000)}${"]".repeat(25_000)}}`;
  return ["preview", "fill", "add", "remove.3"].flatMap((action) => [
    urlencoded(`${action}: one value mapped a hundred times`, form(action, "a", large)),
    urlencoded(`${action}: a sample of many values`, form(action, "a[5999].k5999", many)),
    urlencoded(`${action}: a deep sample`, form(action, "a", deep)),
  ]);
}

/** The import of mapping rules, as a form of the pages. */
export function importForms(): WorstBody[] {
  return ruleFiles().map(({ title, body }) => ({
    title,
    body: Buffer.concat([
      Buffer.from('--x\r\nContent-Disposition: form-data; name="file"; filename="r.json"\r\n\r\n'),
      body.subarray(0, RULES_FILE_MAX_BYTES - 200),
      Buffer.from("\r\n--x--\r\n"),
    ]),
    headers: { "content-type": "multipart/form-data; boundary=x" },
  }));
}

/** Files of mapping rules, of at most RULES_FILE_MAX_BYTES. */
export function ruleFiles(): WorstBody[] {
  const rule = (n: number, more: object): object => ({
    name: `${n} ${quotes(245)}`,
    event: `e${n}`,
    scoring_signal: quotes(255),
    points: 1,
    ...more,
  });
  const conditions = Array.from({ length: RULE_MAX_CONDITIONS }, (_, n) => ({
    path: `properties.${"p".repeat(40)}${n}`,
    operator: "in",
    value: ["'".repeat(200)],
  }));
  const file = (items: object[]): Buffer => Buffer.from(JSON.stringify({ items }));
  const many = Array.from({ length: WORKSPACE_MAX_RULES }, (_, n) => n);
  const json = (title: string, body: Buffer): WorstBody => ({ title, body, headers: JSON_TYPE });
  return [
    json("a thousand rules with long names", file(many.map((n) => rule(n, {})))),
    json("a thousand wrong rules", file(many.map((n) => rule(n, { points: "x", match: quotes(200), x: 1 })))),
    json("rules with as many conditions as allowed", file(many.slice(0, 40).map((n) => rule(n, { conditions })))),
    json("a rule with 100,000 conditions", file([rule(1, { conditions: Array.from({ length: 100_000 }, () => 1) })])),
    json("a rule with 200,000 unknown fields", fields(200_000)),
    json("4 MB of small elements", Buffer.from(`[${"1,".repeat(2_000_000)}1]`)),
    json("4 MB of brackets", Buffer.from("[".repeat(RULES_FILE_MAX_BYTES - 300))),
    json("4 MB of quotes", Buffer.from(quotes(RULES_FILE_MAX_BYTES - 300))),
    json("one long text", Buffer.from(JSON.stringify({ items: [{ name: "<".repeat(4_000_000) }] }))),
  ];
}

function fields(count: number): Buffer {
  const names = Array.from({ length: count }, (_, n) => `"k${n}":1`);
  return Buffer.from(`{"items":[{${names.join(",")}}]}`);
}

/** Bodies for a route of the operator API. @param example a valid body of the route. */
export function operatorBodies(names: readonly string[], example: object): WorstBody[] {
  const json = (title: string, body: string): WorstBody => ({
    title,
    body: Buffer.from(body),
    headers: JSON_TYPE,
  });
  const most = OPERATOR_MAX_BYTES - 2_000;
  return [
    json("1 MB of brackets", "[".repeat(most)),
    json("1 MB of objects", '{"a":'.repeat(most / 5)),
    json("1 MB of small elements", `[${"1,".repeat(most / 2 - 2)}1]`),
    json("1 MB of unknown fields", `{${Array.from({ length: 80_000 }, (_, n) => `"k${n}":1`).join(",")}}`),
    json("more than the limit", " ".repeat(5 * OPERATOR_MAX_BYTES)),
    ...names.flatMap((name) => [
      json(`a long text in ${name}`, JSON.stringify({ ...example, [name]: "<".repeat(most) })),
      json(`a long name in ${name}`, JSON.stringify({ ...example, [name]: { ["<".repeat(most)]: 1 } })),
      json(
        `many elements in ${name}`,
        JSON.stringify({ ...example, [name]: Array.from({ length: 400_000 }, () => 1) }),
      ),
      json(
        `many objects in ${name}`,
        JSON.stringify({ ...example, [name]: Array.from({ length: 15_000 }, () => ({})) }),
      ),
    ]),
  ];
}

/** Bodies for the ingestion endpoints. @param maxBytes the limit of the endpoint, after decompression. */
export function ingestBodies(maxBytes: number): WorstBody[] {
  const signal = '{"event":"e","email":"a@example.com"}';
  const fill = (text: string, bytes = maxBytes): string => text.repeat(Math.floor(bytes / text.length));
  const texts: [string, string][] = [
    ["brackets", fill("[")],
    ["objects", fill('{"a":')],
    ["small elements", `[${fill("1,", maxBytes - 2)}1]`],
    ["small elements of a batch", `{"batch":[${fill("1,", maxBytes - 20)}1]}`],
    ["one signal of small elements", `{"event":"e","properties":{"a":[${fill("1,", maxBytes - 50)}1]}}`],
    ["one long text", `{"event":"${fill("x", maxBytes - 20)}"}`],
    ["backslashes", `{"event":"${fill("\\\\", maxBytes - 20)}"}`],
    ["a text without an end", `{"event":"${fill("x", maxBytes - 20)}`],
    ["line feeds", fill("\n")],
    ["short lines", fill("1\n")],
    ["short lines that are not JSON", fill("x\n")],
    ["small signals", `[${fill(`${signal},`, maxBytes / 50)}${signal}]`],
    ["large signals", `[${fill(`${largeSignal()},`, maxBytes - SIGNAL_MAX_BYTES - 10)}${largeSignal()}]`],
    ["updates with long lists", `[${fill(`${longList()},`, maxBytes - 3_000)}${longList()}]`],
    ["deep signals", `[${fill(`${fill("[", 1_000)}${fill("]", 1_000)},`, maxBytes - 3_000)}1]`],
  ];
  return texts.flatMap(([title, text]) => [
    { title, body: Buffer.from(text), headers: JSON_TYPE },
    {
      title: `${title}, gzip`,
      body: gzipSync(text, { level: 1 }),
      headers: { ...JSON_TYPE, "content-encoding": "gzip" },
    },
  ]);
}

/** Payload template with which each account update looks through a list 99 times. */
export const WORST_TEMPLATE = [
  { target: "external_id", path: "id", type: "string" },
  ...Array.from({ length: TEMPLATE_MAX_MAPPINGS - 1 }, (_, n) => {
    return { target: `attributes.a${n}`, path: `list[].a${n}`, type: "json" };
  }),
];

function longList(): string {
  return `{"id":"acme","list":[${"0,".repeat(989)}0]}`;
}

function largeSignal(): string {
  return JSON.stringify({ event: "e", email: "a@example.com", properties: { a: "x".repeat(SIGNAL_MAX_BYTES - 100) } });
}
