/** Unusual values, most of them at a limit, and valid bodies with an error at one place: in the value, its text or its bytes. */
import { deflateSync, gzipSync } from "node:zlib";
import {
  BODY_MAX_BYTES,
  BODY_MAX_SIGNALS,
  EMAIL_MAX_LENGTH,
  IDEMPOTENCY_KEY_MAX_LENGTH,
  NAME_MAX_CODE_POINTS,
  PAGE_FORM_MAX_BYTES,
  RULE_MAX_CONDITIONS,
  SIGNAL_MAX_BYTES,
  SIGNAL_MAX_DEPTH,
} from "../../../src/limits.ts";
import { OPERATOR_BODY_MAX_BYTES } from "../../../src/operator/operation.ts";
import type { Chance } from "./chance.ts";

type Path = readonly (string | number)[];

/** Like JSON.stringify, but writes `Raw` unchanged. */
export function write(value: unknown): string {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  return `{${Object.entries(value)
    .map(([name, member]) => `${JSON.stringify(name)}:${write(member)}`)
    .join(",")}}`;
}

/** The value with one of its places replaced, removed, renamed, duplicated, enlarged or extended. */
export function mutate(value: unknown, chance: Chance): unknown {
  return replaceAt(value, chance.pick([...placesIn(value)]), (at) => another(at, chance));
}

function another(at: unknown, chance: Chance): unknown {
  if (chance.oneIn(3)) return nastyValue(chance);
  if (Array.isArray(at)) return anotherList(at, chance);
  if (typeof at === "object" && at !== null) return anotherObject(at, chance);
  if (typeof at === "number") return new Raw(chance.pick(NUMBERS));
  if (typeof at === "string") return chance.pick([nastyText(chance), at + nastyText(chance), at.toUpperCase(), [at]]);
  return nastyValue(chance);
}

function anotherList(list: unknown[], chance: Chance): unknown {
  const [first = null] = list;
  const many = chance.oneIn(40) ? BODY_MAX_SIGNALS + chance.below(2) : chance.pick([2, 50, 200, 201]);
  return chance.pick<() => unknown>([
    () => [],
    () => [...list, nastyValue(chance)],
    () => [list],
    () => Array.from({ length: many }, () => first),
  ])();
}

function anotherObject(object: object, chance: Chance): unknown {
  const entries = Object.entries(object);
  const [name, value] = entries.length === 0 ? ["a", 1] : chance.pick(entries);
  const rest = entries.filter(([key]) => key !== name);
  const member = (): string => `${JSON.stringify(name)}:${write(nastyValue(chance))}`;
  const more = (): [string, number][] =>
    Array.from({ length: chance.pick([10, 100, 1_000]) }, (_, nth) => [`more_${nth}`, nth]);
  return chance.pick<() => unknown>([
    () => Object.fromEntries(rest),
    () => Object.fromEntries([...rest, [nastyText(chance), value]]),
    () => new Raw(`${write(object).slice(0, -1)}${entries.length === 0 ? "" : ","}${member()}}`),
    () => new Raw(`{"__proto__":${write(nastyValue(chance))},"constructor":{"prototype":${write(object)}}}`),
    () => Object.fromEntries([...entries, ...more()]),
    () => ({
      ...object,
      [chance.pick(["limit", "id", "email", "event", "traits", "context", "batch"])]: nastyValue(chance),
    }),
  ])();
}

function* placesIn(value: unknown, path: Path = []): Generator<Path> {
  yield path;
  if (typeof value !== "object" || value === null || value instanceof Raw) return;
  for (const [name, member] of Object.entries(value))
    yield* placesIn(member, [...path, Array.isArray(value) ? Number(name) : name]);
}

function replaceAt(value: unknown, path: Path, replace: (at: unknown) => unknown): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return replace(value);
  if (Array.isArray(value))
    return value.map((element: unknown, at) => (at === name ? replaceAt(element, rest, replace) : element));
  return Object.fromEntries(
    Object.entries(value as object).map(([key, member]) => [
      key,
      key === name ? replaceAt(member, rest, replace) : member,
    ]),
  );
}

/** Target sizes of a body, varied by one byte. The larger ones are rare because they take long to build. */
const SIZES = [SIGNAL_MAX_BYTES, PAGE_FORM_MAX_BYTES, OPERATOR_BODY_MAX_BYTES] as const;

/** The body padded with white space to a limit, or to a byte less or more. */
export function grown(text: string, chance: Chance): string {
  const size = chance.oneIn(10) ? BODY_MAX_BYTES : chance.pick(SIZES);
  return text + " ".repeat(Math.max(0, size + chance.below(3) - 1 - text.length));
}

/** 64 MB of zeros compressed to 64 KB, and the same of line breaks; built once. */
const bombs: Uint8Array[] = [];
function bomb(chance: Chance): Uint8Array {
  if (bombs.length === 0) {
    for (const byte of [0x30, 0x0a]) bombs.push(gzipSync(new Uint8Array(64 * 1024 * 1024).fill(byte)));
  }
  return chance.pick(bombs);
}

interface Sent {
  bytes: Uint8Array;
  /** Headers that describe the bytes correctly or incorrectly. */
  headers: readonly (readonly [string, string])[];
}

const GZIP = [["content-encoding", "gzip"]] as const;

/** The body's bytes encoded as no client should send them. */
export function mangled(text: string, chance: Chance): Sent {
  const bytes = new TextEncoder().encode(text);
  const at = chance.below(bytes.length + 1);
  const inserted = (...parts: Uint8Array[]): Sent =>
    plain(Buffer.concat([bytes.subarray(0, at), ...parts, bytes.subarray(at)]));
  const tail = chance.pick(["\n", "\u0000", "{}", ",", " ".repeat(1_000), "\n".repeat(3_000)]);
  return chance.pick<() => Sent>([
    () => plain(bytes.subarray(0, at)),
    () =>
      inserted(Buffer.from(chance.pick(["\u0000", "\u0001", "\n", '"', "}", "]", "{", ",", "\\", "\\u", "\\ud800"]))),
    () => inserted(Uint8Array.of(chance.pick([0xff, 0xc0, 0xed, 0xf8, 0x80]))),
    () => plain(Buffer.concat([Uint8Array.of(0xef, 0xbb, 0xbf), bytes])),
    () => plain(Buffer.from(text, "utf16le")),
    () => plain(Buffer.from(text, "latin1")),
    () => plain(gzipSync(bytes)),
    () => ({ bytes: gzipSync(bytes), headers: GZIP }),
    () => ({ bytes, headers: GZIP }),
    () => ({ bytes: gzipSync(bytes).subarray(0, chance.below(40)), headers: GZIP }),
    () => ({ bytes: Buffer.concat([gzipSync(bytes), gzipSync(chance.oneIn(2) ? bytes : " ")]), headers: GZIP }),
    () => ({ bytes: deflateSync(bytes), headers: chance.oneIn(2) ? GZIP : [["content-encoding", "deflate"]] }),
    () => (chance.oneIn(8) ? { bytes: bomb(chance), headers: GZIP } : plain(new Uint8Array())),
    () => plain(Buffer.from(text.replaceAll('"', chance.pick(["'", "\u201c", '\\"', ""])))),
    () => plain(Buffer.from(text + tail)),
  ])();
}

function plain(bytes: Uint8Array): Sent {
  return { bytes, headers: [] };
}

/** A JSON token that JSON.stringify never produces. */
class Raw {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

const LENGTHS = [NAME_MAX_CODE_POINTS, EMAIL_MAX_LENGTH, IDEMPOTENCY_KEY_MAX_LENGTH, 200, 1_000, 8_192] as const;

const TEXTS = [
  ..."__proto__ constructor toString hasOwnProperty prototype null undefined NaN Infinity -0 0 true".split(" "),
  ..."-1 1e309 9007199254740993 99999999999999999999 0x10 1_000 % _ * ** \\ @ a@b@c a@b.co".split(" "),
  ..."properties. properties.a[] properties.a[][][] properties.a[99999999999].b properties.__proto__.polluted".split(
    " ",
  ),
  ..."attributes. attributes.__proto__ external_id javascript:alert(1) file:///etc/passwd https://xn--/".split(" "),
  ..."https://127.0.0.1/x https://[::1]/ https://user:pass@example.com/ https://example.com:99999/".split(" "),
  ..."1970-01-01T00:00:00.000Z 0000-01-01T00:00:00Z 9999-12-31T23:59:59.999Z +275760-09-13T00:00:00.000Z".split(" "),
  ..."+999999-01-01T00:00:00Z 2026-02-30T00:00:00Z 2026-11-31 2026-11-22T24:00:00Z 2026-11-22T10:00:00+99:99".split(
    " ",
  ),
  "",
  " ",
  "\u0000",
  "a\u0000b",
  "\ud800",
  "\udfff",
  "x\ud83d",
  "\ud83d\ude00".repeat(130),
  "\ufeff",
  "\u202e\u2066",
  "e\u0301".repeat(200),
  "\u0130\u0131\u212a\u017f",
  "[object Object]",
  "'; DROP TABLE people; --",
  '"',
  "**********",
  "*a*b*c*d*e*f*g*h*",
  "<script>alert(1)</script>",
  '"><img src=x onerror=alert(1)>',
  "${7*7}{{7*7}}",
  "../../etc/passwd",
  "%00%ff%2e%2e%2f",
  "\r\nset-cookie: a=b",
  "a\nb",
  `${"a".repeat(250)}@b.co`,
  "jane@example.com",
  "JANE@EXAMPLE.COM ",
  "٣",
  `properties.${"a.".repeat(120)}b`,
  `https://${"a".repeat(300)}.example.com/`,
];

export function nastyText(chance: Chance): string {
  if (!chance.oneIn(3)) return chance.pick(TEXTS);
  const length = chance.pick(LENGTHS) + chance.below(3) - 1;
  return chance.pick(["a", "\u00e9", "\u20ac", "\u0000", "\ud83d", "*", " ", "."]).repeat(length);
}

/** As text, because some exist only so. */
const NUMBERS = [
  ..."0 -0 -1 1 0.1 -1e-400 1e400 -1e400 1e308 5e-324 9007199254740991 9007199254740992 9007199254740993".split(" "),
  ..."-9007199254740993 9223372036854775807 9223372036854775808 1000000 1000001 -1000001 2147483648".split(" "),
  ..."4294967296 8640000000000001".split(" "),
  "1".repeat(400),
  `0.${"3".repeat(400)}`,
  `1${"0".repeat(300)}`,
];

/** A JSON value, including ones that exist only as text. */
function nastyValue(chance: Chance): unknown {
  const depths = [1, SIGNAL_MAX_DEPTH - 2, SIGNAL_MAX_DEPTH - 1, SIGNAL_MAX_DEPTH, 3_000, 30_000];
  const lengths = [1, RULE_MAX_CONDITIONS + 1, 100, 101, 200, 201, 1_001];
  const text = () => nastyText(chance);
  const number = () => new Raw(chance.pick(NUMBERS));
  return chance.pick<() => unknown>([
    () => null,
    () => chance.oneIn(2),
    number,
    number,
    () => [],
    () => ({}),
    () => nested(chance, chance.pick(depths)),
    () => Array.from({ length: chance.pick(lengths) }, () => chance.pick(["a", 1, null])),
    () => ({ [text()]: text(), length: 3, toString: null }),
    () => [[[]], {}, "", text(), number()],
    text,
    text,
  ])();
}

function nested(chance: Chance, depth: number): Raw {
  return chance.oneIn(2)
    ? new Raw("[".repeat(depth) + "]".repeat(depth))
    : new Raw(`${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`);
}

const SEGMENTS = [
  "",
  "\u00e9\ud83d\ude00",
  "%0D%0Aset-cookie:%20a=b",
  ..."% %00 %ff %E0%A4%A %C0%AF %2F %2e%2e%2f%2e%2e %252F .. . a//b ;a=b %3Fa=b %23 + %20 %ED%A0%80".split(" "),
  ..."batch new import -1 0 99999999999 1e3".split(" "),
];

/** A path segment. Some contain slashes or break the path. */
export function nastySegment(chance: Chance): string {
  switch (chance.below(4)) {
    case 0:
      return encodeURIComponent(nastyText(chance).toWellFormed());
    case 1:
      return chance.pick(["a", "%41", "%00", "/", "../"]).repeat(chance.pick([1, 255, 256, 1_000, 4_000]));
    default:
      return chance.pick(SEGMENTS);
  }
}

const HEADERS: readonly (readonly [name: string, values: readonly string[]])[] = [
  [
    "content-type",
    [
      "",
      "text/plain",
      "application/json; charset=utf-16",
      "application/json;;;=",
      "application/x-www-form-urlencoded",
      "application/x-www-form-urlencoded; charset=utf-7",
      "multipart/form-data",
      "multipart/form-data; boundary=",
      "multipart/form-data; boundary=x",
      `multipart/form-data; boundary=${"x".repeat(2_000)}`,
      "application/xml",
      "a/b/c",
      "application/json, text/html",
    ],
  ],
  ["content-encoding", ["gzip", "x-gzip", "GZIP ", "br", "deflate", "gzip, gzip", "identity", "zstd", ""]],
  ["content-length", ["0", "-1", "1e3", "99999999999999999999", "abc", "5, 6"]],
  ["idempotency-key", ["", " ", "a".repeat(255), "a".repeat(256), "\t", "a,b", "__proto__"]],
  ["x-api-secret", ["", " ", "x", "a".repeat(8_000)]],
  ["authorization", ["", "Bearer", "Bearer ", "bearer x", "Basic Og==", `Bearer ${"a".repeat(8_000)}`, "Bearer a b"]],
  [
    "cookie",
    ["", "=", "__Host-session=", "__Host-session=%", ";;;;", `__Host-session=${"a".repeat(8_000)}`, "__proto__=1"],
  ],
  ["origin", ["null", "", "https://evil.example", "https://signals.example.evil.example", "x"]],
  ["sec-fetch-site", ["cross-site", "same-origin", "none", ""]],
  ["host", ["", "evil.example", "localhost", "a:b:c"]],
  ["mf-original-url", ["http://localhost/"]],
  ["x-forwarded-for", ["127.0.0.1", "x"]],
  ["cf-connecting-ip", ["", "::", "1.2.3.4", "999.1.1.1", "::ffff:1.2.3.4", "x".repeat(1_000), "fe80::1%eth0"]],
  ["upgrade", ["websocket", "h2c"]],
  ["accept", ["", "application/json", "*/*;q=nan", "a".repeat(5_000)]],
  ["accept-language", ["", "xx-".repeat(500), "de;q=2"]],
  ["accept-encoding", ["gzip;q=0, *;q=0", "x".repeat(2_000)]],
  ["range", ["bytes=0-0,-1", "bytes=999999-"]],
  ["if-none-match", ["*", '"x"']],
  ["if-modified-since", ["yesterday"]],
  ["expect", ["100-continue"]],
  ["transfer-encoding", ["chunked", "gzip"]],
  ["x-http-method-override", ["DELETE"]],
  ["x-request-id", ["req_x", '"\\']],
  ["user-agent", ["", "a".repeat(8_000)]],
  ["referer", ["https://signals.example/", "x"]],
];

export function nastyHeader(chance: Chance): readonly [string, string] {
  const [name, values] = chance.pick(HEADERS);
  return [name, chance.pick(values)];
}

export const METHODS = "GET HEAD POST PUT PATCH DELETE OPTIONS PROPFIND REPORT post SEARCH".split(" ");
