/** Attacks with text of the ten shapes: in each field of signals, of forms and of the operator API. */
import { SIGNAL_MAX_BYTES, STRANGER_FORM_MAX_BYTES } from "../../../src/limits.ts";
import type { AttackCall } from "./attack.ts";
import { callOf, type Attack, type Attacker, type PreparedAttack } from "./attacker.ts";
import { honestGet, honestSignal } from "./honest-calls.ts";
import { bodyRoutes } from "./routes.ts";
import { fitting, longNameAboveLeaves, REPEATED, repeated } from "./shapes.ts";

const CONNECTIONS = 24;
/** Of a field of the operator API: enough to see time that grows with the square. */
const API_CHARACTERS = 200_000;
/** All that a form may have, less its other fields. */
const FORM_CHARACTERS = 128 * 1024 - 2_000;
const SAMPLE_CHARACTERS = 62_000;
const STRANGER_CHARACTERS = STRANGER_FORM_MAX_BYTES / 3 - 200;

export const shapeAttacks: Attack[] = [
  {
    title: "text of the ten shapes in each field of a signal, by senders",
    make: ({ attacker }) => answered(attacker, shapedSenderCalls(attacker), [honestSignal(attacker)]),
  },
  {
    title: "text of the ten shapes in each field of the operator API, with tokens of every scope",
    make: async ({ attacker, origin }) => answered(attacker, await shapedApiCalls(attacker, origin)),
  },
  {
    title: "text of the ten shapes in each field of a form, by admins, members and strangers",
    make: ({ attacker }) => answered(attacker, shapedForms(attacker)),
  },
  {
    title: "every button of the key form and of the rule editor, by admins",
    make: ({ attacker }) => answered(attacker, buttons(attacker)),
  },
];

function answered(attacker: Attacker, calls: AttackCall[], honest = [honestGet(attacker)]): PreparedAttack {
  return { alone: calls, assaults: [{ connections: CONNECTIONS, manner: { kind: "answered" }, calls }], honest };
}

/** @returns text of each shape, of at most this many characters. */
function shapes(characters: number): [name: string, text: string][] {
  return REPEATED.map(([name, text]) => [name, repeated(text, characters)]);
}

/** Of a signal and of its CDP calls. */
const SIGNAL_FIELDS = [
  ..."event,email,type,source,timestamp,userId,anonymousId,messageId,name,category,previousId,groupId".split(","),
  ..."properties,traits,context,NAME".split(","),
];

function shapedSenderCalls({ keys, accountKeys }: Attacker): AttackCall[] {
  const calls: AttackCall[] = [];
  const add = (title: string, path: string, senders: Attacker["keys"], text: string, headers = {}): void => {
    const sender = senders[calls.length % senders.length];
    if (sender !== undefined) calls.push(callOf(title, path, sender, Buffer.from(text), headers));
  };
  const most = SIGNAL_MAX_BYTES - 100;
  for (const [shape, text] of shapes(most)) {
    const value = fitting(text, most);
    const half = value.slice(0, value.length / 2 - 50);
    for (const field of SIGNAL_FIELDS) {
      const payload = field === "NAME" ? { [value]: 1 } : { event: "e", [field]: value };
      add(`${shape} in ${field}`, "/api/signal-staging/webhook/KEY", keys, JSON.stringify(payload));
    }
    add(`${shape} in a list`, "/api/product-orgs/webhook/KEY", accountKeys, JSON.stringify({ id: half, list: [half] }));
    const short = encodeURIComponent(value.slice(0, 2_000));
    add(`${shape} as source`, `/api/signal-staging/webhook/${short}/KEY`, keys, '{"event":"e"}');
    add(`${shape} as body`, "/api/signal-staging/webhook/KEY", keys, text);
    const header = { "idempotency-key": value.slice(0, 4_000).replaceAll(/[\r\n]/g, " ") };
    add(`${shape} as Idempotency-Key`, "/api/signal-staging/webhook/KEY", keys, '{"event":"e"}', header);
  }
  const long = longNameAboveLeaves(most);
  add("a long name above leaves", "/api/signal-staging/webhook/KEY", keys, `{"event":"e","properties":${long}}`);
  add(
    "a long name above leaves",
    "/api/signal-staging/webhook/KEY",
    keys,
    `{"type":"group","groupId":"g","traits":${long}}`,
  );
  add("a long name above leaves", "/api/product-orgs/webhook/KEY", accountKeys, long);
  return calls;
}

async function shapedApiCalls(attacker: Attacker, origin: string): Promise<AttackCall[]> {
  const calls: AttackCall[] = [];
  for (const { method, path, scope, example } of await bodyRoutes(origin, attacker)) {
    const tokens = attacker.tokens[scope ?? "read"];
    const add = (title: string, body: string): void => {
      const headers = {
        authorization: `Bearer ${tokens[calls.length % tokens.length]}`,
        "content-type": "application/json",
      };
      calls.push({ title, method, path, headers, body: Buffer.from(body) });
    };
    // A token without the scope is rejected before its body matters.
    const fields = scope === null ? fieldsOf(example).slice(0, 1) : fieldsOf(example);
    for (const field of fields) {
      for (const [shape, text] of shapes(API_CHARACTERS))
        add(`${shape} in ${field}`, withField(example, field, JSON.stringify(text)));
      add(`a long name above leaves in ${field}`, withField(example, field, longNameAboveLeaves(API_CHARACTERS)));
    }
  }
  return calls;
}

/** The names of the fields that hold text, in objects and lists too. */
function fieldsOf(example: unknown, found = new Set<string>()): string[] {
  if (typeof example === "object" && example !== null) {
    for (const [name, value] of Object.entries(example)) {
      if (typeof value === "string") found.add(name);
      else fieldsOf(value, found);
    }
  }
  return [...found];
}

/** @returns the example with this JSON in the first field of the name. */
function withField(example: object, field: string, json: string): string {
  let isSet = false;
  const text = JSON.stringify(example, (name, value: unknown) => {
    if (isSet || name !== field || typeof value !== "string") return value;
    isSet = true;
    return PLACE;
  });
  return text.replace(JSON.stringify(PLACE), () => json);
}

const PLACE = "the shape stands here";

/** Valid forms, by the end of their path. The fields of `shaped` get the text. */
function forms({
  keyId,
  destinationId,
}: Attacker): { path: string; valid: Record<string, string>; shaped: string[] }[] {
  const rule = {
    event: "*",
    name: "n",
    path: "a",
    operator: "in",
    value: "x",
    scoring_signal: "s",
    points: "1",
    match: "all",
  };
  const ruleFields = [
    "event",
    "name",
    "path",
    "operator",
    "value",
    "scoring_signal",
    "points",
    "match",
    "days",
    "version",
  ];
  const row = { "rows.0.target": "external_id", "rows.0.path": "id", "rows.0.type": "string" };
  const key = { name: "n", endpoint_type: "product_org", sample: '{"id":1}', ...row };
  const keyFields = ["name", "sample", "rows.0.target", "rows.0.path", "rows.0.type", "expires", "form_token", "do"];
  const template = {
    sender: "other",
    body: '{"event":"a"}',
    "map.0.target": "event",
    "map.0.from": "path",
    "map.0.value": "event",
    do: "propose",
  };
  const templateFields = ["sender", "body", "headers", "signal", "map.0.target", "map.0.value", "do"];
  const destination = {
    name: "n",
    type: "webhook",
    target: "https://hooks.example.com/x",
    notifications: "usage.level",
  };
  const destinationFields = ["name", "target", "type", "notifications", "header_name_0", "header_value_0"];
  return [
    { path: "rules", valid: { ...rule, do: "save" }, shaped: [...ruleFields, "id", "source"] },
    { path: "rules/preview", valid: rule, shaped: ["event", "path", "value"] },
    { path: "rules/import", valid: {}, shaped: ["text"] },
    { path: "settings/api-keys/new", valid: key, shaped: keyFields },
    { path: "settings/api-keys/new/preview", valid: key, shaped: ["sample", "rows.0.path"] },
    { path: `settings/api-keys/${keyId}/template`, valid: template, shaped: templateFields },
    { path: `settings/api-keys/${keyId}/template/preview`, valid: template, shaped: templateFields },
    { path: `settings/api-keys/${keyId}`, valid: { name: "n" }, shaped: ["name", "silent_after_days"] },
    { path: "settings/api-tokens/new", valid: { name: "n", scope: "read" }, shaped: ["name", "scope", "expires"] },
    { path: "settings/notifications/new", valid: destination, shaped: destinationFields },
    { path: `settings/notifications/${destinationId}/again`, valid: {}, shaped: ["since"] },
    { path: "settings/notifications/thresholds", valid: {}, shaped: ["thresholds", "account_thresholds"] },
    { path: "settings/members", valid: { role: "member" }, shaped: ["email", "role"] },
    { path: "people/ann@attacker.example/delete", valid: {}, shaped: ["email"] },
  ];
}

const FORM = { "content-type": "application/x-www-form-urlencoded" };

function form(
  title: string,
  path: string,
  headers: Record<string, string>,
  fields: Record<string, string>,
): AttackCall {
  const body = Buffer.from(new URLSearchParams(fields).toString());
  return { title, method: "POST", path, headers: { ...headers, ...FORM }, body };
}

function shapedForms(attacker: Attacker): AttackCall[] {
  const { slug, admins, members } = attacker;
  const calls: AttackCall[] = [];
  for (const { path, valid, shaped } of forms(attacker)) {
    const at = `/w/${slug}/${path}`;
    for (const field of shaped) {
      const characters = field === "sample" ? SAMPLE_CHARACTERS : FORM_CHARACTERS;
      for (const [shape, text] of shapes(characters)) {
        const admin = admins[calls.length % admins.length] ?? {};
        calls.push(form(`${shape} in ${field}`, at, admin, { ...valid, [field]: text }));
      }
    }
    const fields = { ...valid, [shaped[0] ?? ""]: repeated("[", FORM_CHARACTERS) };
    calls.push(form("by a member", at, members[calls.length % members.length] ?? {}, fields));
    calls.push(form("with an invented session", at, { cookie: "session=invented" }, fields));
  }
  for (const [shape, text] of shapes(STRANGER_CHARACTERS)) {
    calls.push(form(`${shape} in email`, "/sign-in/local", {}, { email: text }));
    calls.push(form(`${shape} in to`, "/sign-in/local", {}, { email: "a@b.example", to: `/${text}` }));
  }
  return calls;
}

/** Each button with the samples and conditions that cost most. */
function buttons({ slug, admins }: Attacker): AttackCall[] {
  const calls: AttackCall[] = [];
  const path = `/w/${slug}/settings/api-keys/new`;
  const samples: [string, string][] = [
    ["a long name above leaves", longNameAboveLeaves(SAMPLE_CHARACTERS)],
    ["a long path of names", nested(longNameAboveLeaves(SAMPLE_CHARACTERS / 2), 3, SAMPLE_CHARACTERS / 8)],
    ["known names", `{${Array.from({ length: 4_000 }, (_, n) => `"id ${n}":1`).join(",")}}`],
    ["a list of leaves", `{"a":[${Array.from({ length: 6_000 }, (_, n) => `{"k":${n}}`).join(",")}]}`],
    ...shapes(SAMPLE_CHARACTERS / 3).map(([shape, text]): [string, string] => [
      shape,
      `{${JSON.stringify(text)}:{"id":1,"a":"x"}}`,
    ]),
  ];
  for (const [sample, text] of samples) {
    for (const button of ["fill", "preview", "add", "remove.0", ""]) {
      const rows = Array.from({ length: 90 }, (_, n): [string, string][] => [
        [`rows.${n}.target`, n === 0 ? "external_id" : `attributes.a${n}`],
        [`rows.${n}.path`, n === 0 ? "id" : `a[].k${n}`],
        [`rows.${n}.type`, n === 0 ? "string" : "json"],
      ]);
      const fields = { endpoint_type: "product_org", name: "n", sample: text, ...Object.fromEntries(rows.flat()) };
      const pressed = button === "" ? fields : { ...fields, do: button };
      calls.push(form(`"${button}" with ${sample}`, path, admins[calls.length % admins.length] ?? {}, pressed));
    }
  }
  for (const button of ["add", "remove-0", "preview"]) {
    const rows = new URLSearchParams({ do: button, event: "*", match: "any", days: "365" });
    for (let n = 0; n < 50; n++) {
      for (const [name, value] of [
        ["path", `properties.list[].k${n}`],
        ["operator", "contains"],
        ["value", "x".repeat(250)],
      ] as const)
        rows.append(name, value);
    }
    const headers = { ...admins[calls.length % admins.length], ...FORM };
    const body = Buffer.from(rows.toString());
    calls.push({ title: `"${button}" with 50 conditions`, method: "POST", path: `/w/${slug}/rules`, headers, body });
  }
  return calls;
}

/** An object of nested long names around this JSON. */
function nested(json: string, levels: number, characters: number): string {
  return levels === 0 ? json : `{"${"n".repeat(characters)}":${nested(json, levels - 1, characters)}}`;
}
