/** A valid body with an error at one place: in the value, in its text, or in its bytes. */
import { deflateSync, gzipSync } from "node:zlib";
import { BATCH_MAX_BYTES, BATCH_MAX_SIGNALS, PAGE_FORM_MAX_BYTES, SIGNAL_MAX_BYTES } from "../../../src/limits.ts";
import { OPERATOR_BODY_MAX_BYTES } from "../../../src/operator/operation.ts";
import type { Chance } from "./chance.ts";
import { nastyNumber, nastyText, nastyValue, Raw } from "./nasty.ts";

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
  if (typeof at === "number") return new Raw(nastyNumber(chance));
  if (typeof at === "string") return chance.pick([nastyText(chance), at + nastyText(chance), at.toUpperCase(), [at]]);
  return nastyValue(chance);
}

function anotherList(list: unknown[], chance: Chance): unknown {
  const [first = null] = list;
  switch (chance.below(4)) {
    case 0:
      return [];
    case 1:
      return [...list, nastyValue(chance)];
    case 2:
      return [list];
    default: {
      const many = chance.oneIn(40) ? BATCH_MAX_SIGNALS + chance.below(2) : chance.pick([2, 50, 200, 201]);
      return Array.from({ length: many }, () => first);
    }
  }
}

function anotherObject(object: object, chance: Chance): unknown {
  const entries = Object.entries(object);
  const [name, value] = entries.length === 0 ? ["a", 1] : chance.pick(entries);
  const rest = entries.filter(([key]) => key !== name);
  switch (chance.below(6)) {
    case 0:
      return Object.fromEntries(rest);
    case 1:
      return Object.fromEntries([...rest, [nastyText(chance), value]]);
    case 2:
      return new Raw(
        `${write(object).slice(0, -1)}${entries.length === 0 ? "" : ","}${JSON.stringify(name)}:${write(nastyValue(chance))}}`,
      );
    case 3:
      return new Raw(`{"__proto__":${write(nastyValue(chance))},"constructor":{"prototype":${write(object)}}}`);
    case 4:
      return Object.fromEntries([
        ...entries,
        ...Array.from({ length: chance.pick([10, 100, 1_000]) }, (_, nth) => [`more_${nth}`, nth] as const),
      ]);
    default:
      return {
        ...object,
        [chance.pick(["limit", "id", "email", "event", "traits", "context", "batch"])]: nastyValue(chance),
      };
  }
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
  const size = chance.oneIn(10) ? BATCH_MAX_BYTES : chance.pick(SIZES);
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

export interface Sent {
  bytes: Uint8Array;
  /** Headers that describe the bytes correctly or incorrectly. */
  headers: readonly (readonly [string, string])[];
}

const GZIP = [["content-encoding", "gzip"]] as const;

/** The body's bytes encoded as no client should send them. */
export function mangled(text: string, chance: Chance): Sent {
  const bytes = new TextEncoder().encode(text);
  const at = chance.below(bytes.length + 1);
  switch (chance.below(15)) {
    case 0:
      return plain(bytes.subarray(0, at));
    case 1:
      return plain(
        Buffer.concat([
          bytes.subarray(0, at),
          Buffer.from(chance.pick(["\u0000", "\u0001", "\n", '"', "}", "]", "{", ",", "\\", "\\u", "\\ud800"])),
          bytes.subarray(at),
        ]),
      );
    case 2:
      return plain(
        Buffer.concat([
          bytes.subarray(0, at),
          Uint8Array.of(chance.pick([0xff, 0xc0, 0xed, 0xf8, 0x80])),
          bytes.subarray(at),
        ]),
      );
    case 3:
      return plain(Buffer.concat([Uint8Array.of(0xef, 0xbb, 0xbf), bytes]));
    case 4:
      return plain(Buffer.from(text, "utf16le"));
    case 5:
      return plain(Buffer.from(text, "latin1"));
    case 6:
      return { bytes: gzipSync(bytes), headers: GZIP };
    case 7:
      return plain(gzipSync(bytes));
    case 8:
      return { bytes, headers: GZIP };
    case 9:
      return { bytes: gzipSync(bytes).subarray(0, chance.below(40)), headers: GZIP };
    case 10:
      return { bytes: Buffer.concat([gzipSync(bytes), gzipSync(chance.oneIn(2) ? bytes : " ")]), headers: GZIP };
    case 11:
      return { bytes: deflateSync(bytes), headers: chance.oneIn(2) ? GZIP : [["content-encoding", "deflate"]] };
    case 12:
      return chance.oneIn(8) ? { bytes: bomb(chance), headers: GZIP } : plain(new Uint8Array());
    case 13:
      return plain(Buffer.from(text.replaceAll('"', chance.pick(["'", "\u201c", '\\"', ""]))));
    default:
      return plain(
        Buffer.from(`${text}${chance.pick(["\n", "\u0000", "{}", ",", " ".repeat(1_000), "\n".repeat(3_000)])}`),
      );
  }
}

function plain(bytes: Uint8Array): Sent {
  return { bytes, headers: [] };
}
