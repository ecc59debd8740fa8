/** Attacks of senders: large bodies with many keys, bodies that stall, downloads that nobody reads. */
import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { BODY_MAX_BYTES, BODY_MAX_SIGNALS } from "../../../src/limits.ts";
import {
  callOf,
  type Attack,
  type Attacker,
  type FreeWorkspace,
  type PreparedAttack,
  type SenderKey,
} from "./attacker.ts";
import { get, honestSignal } from "./honest-calls.ts";

const BATCH = "/api/signal-staging/webhook/KEY/batch";
const BULK = "/api/signal-staging/bulk/KEY";
const GZIP = { "content-encoding": "gzip" };
const STALLED = 1_000;
const UNREAD = 200;
/** Bodies of an attack that differ, so that not all signals are duplicates. */
const DIFFERENT = 20;

export const senderAttacks: Attack[] = [
  ofBodies("sixteen-KB gzip bodies of valid signals, with a hundred keys", BATCH, [validSignals]),
  ofBodies("sixteen-KB gzip bodies of invalid JSON, with a hundred keys", BULK, [invalidJson]),
  ofBodies("sixteen-KB gzip bodies that lie about their size, with a hundred keys", BULK, [wrongSize, severalMembers]),
  ofBodies(
    "bodies of 256 KB, with a hundred keys",
    BATCH,
    Array.from({ length: DIFFERENT }, () => () => plain(262_144)),
  ),
  ofBodies("bodies of 8 MB, with a hundred keys", BATCH, [() => plain(BODY_MAX_BYTES)], 16),
  {
    title: "sixteen-KB gzip bodies, of ten free workspaces",
    make: ({ free }) => {
      const keys = free.flatMap((workspace) => workspace.keys);
      const { body, headers } = invalidJson();
      const calls = keys.map((key) => callOf("gzip body", BULK, key, body, headers));
      const assaults = [{ connections: keys.length, manner: { kind: "answered" } as const, calls }];
      return { alone: [], assaults, honest: free.map(honestSignal) };
    },
  },
  {
    title: "a thousand bodies of at most 16 KB that stall, with a Content-Length",
    make: ({ attacker }) => stalls(attacker.keys, [{ sentBytes: 15_000, declaredBytes: 16_384 }], [attacker]),
  },
  {
    title: "a thousand bodies that stall before and after 256 KB, or send a byte a second",
    make: ({ attacker }) => stalls(attacker.keys, OTHER_STALLS, [attacker]),
  },
  {
    title: "a thousand bodies that stall, of ten free workspaces",
    make: ({ free }) => {
      const keys = free.flatMap((workspace) => workspace.keys);
      return stalls(keys, [{ sentBytes: 15_000, declaredBytes: 16_384 }, ...OTHER_STALLS], free);
    },
  },
  {
    title: "exports that nobody reads, with tokens and by admins",
    make: ({ attacker }) => {
      const { id, slug, tokens, admins } = attacker;
      const calls = [
        ...tokens.export.flatMap((token) =>
          ["signals", "people", "scoring-signals"].map((records) => {
            return get("export", `/operator/workspaces/${id}/export/${records}`, { authorization: `Bearer ${token}` });
          }),
        ),
        ...admins.map((headers) => get("export", `/w/${slug}/people/export`, headers)),
      ];
      const assaults = [{ connections: UNREAD, manner: { kind: "unread" } as const, calls }];
      return { alone: [], assaults, honest: [honestSignal(attacker)] };
    },
  },
];

/** A body and its headers. */
interface Made {
  body: Buffer;
  headers: Record<string, string>;
}

/** @param makers each makes one of the bodies that the keys send in turn. */
function ofBodies(title: string, path: string, makers: readonly (() => Made)[], connections?: number): Attack {
  return {
    title,
    make: ({ attacker }) => {
      const bodies = makers.map((make) => make());
      const calls = attacker.keys.flatMap((key, n) => {
        const made = bodies[n % bodies.length];
        return made === undefined ? [] : [callOf(title, path, key, made.body, made.headers)];
      });
      const assaults = [{ connections: connections ?? calls.length, manner: { kind: "answered" } as const, calls }];
      return { alone: calls.slice(0, Math.min(makers.length, 2)), assaults, honest: [honestSignal(attacker)] };
    },
  };
}

interface Stall {
  sentBytes: number;
  declaredBytes: number | "chunked";
  dripMs?: number;
}

const OTHER_STALLS: Stall[] = [
  { sentBytes: 15_000, declaredBytes: "chunked" },
  { sentBytes: 150_000, declaredBytes: 200_000 },
  { sentBytes: 300_000, declaredBytes: 8_000_000 },
  { sentBytes: 300_000, declaredBytes: "chunked" },
  { sentBytes: 0, declaredBytes: "chunked", dripMs: 1_000 },
  { sentBytes: 0, declaredBytes: 16_384, dripMs: 1_000 },
];

/** The connections are divided among the kinds of stalls. */
function stalls(keys: SenderKey[], kinds: Stall[], honest: (Attacker | FreeWorkspace)[]): PreparedAttack {
  const assaults = kinds.map((stall) => {
    const body = Buffer.alloc(stall.sentBytes, " ");
    const calls = keys.map((key) => callOf("stalled body", BATCH, key, body));
    return { connections: Math.ceil(STALLED / kinds.length), manner: { kind: "stalled", ...stall } as const, calls };
  });
  return { alone: [], assaults, honest: honest.map(honestSignal) };
}

/**
 * As large as a body may be, with a quarter of the most signals. With more, the attack is the recording of accepted signals:
 * three such bodies take this machine, on which the whole service is one process, as long as half of the attack lasts.
 */
function validSignals(): Made {
  const signals = BODY_MAX_SIGNALS / 4;
  const padding = "x".repeat(Math.floor(BODY_MAX_BYTES / signals) - 60);
  const signal = JSON.stringify({ email: "a@attacker.example", event: "e", p: padding });
  return { body: gzip(`[${Array.from({ length: signals }, () => signal).join(",")}]`), headers: GZIP };
}

/** One text without an end. */
function invalidJson(): Made {
  return { body: gzip(`{"event":"${"x".repeat(BODY_MAX_BYTES - 20)}`), headers: GZIP };
}

/** The last four bytes of a member are the size of its content. */
function wrongSize(): Made {
  const body = gzip("x".repeat(BODY_MAX_BYTES - 20));
  body.writeUInt32LE(10, body.length - 4);
  return { body, headers: GZIP };
}

/** A large member, then a small one. */
function severalMembers(): Made {
  const first = gzip(`{"event":"${"x".repeat(BODY_MAX_BYTES - 20)}`);
  return { body: Buffer.concat([first, gzip("x")]), headers: GZIP };
}

function gzip(text: string): Buffer {
  return gzipSync(text, { level: 9 });
}

function plain(bytes: number): Made {
  return { body: plainBody(bytes), headers: {} };
}

/** Valid signals that together are almost this large. */
export function plainBody(bytes: number): Buffer {
  const signals: string[] = [];
  for (let left = bytes - 2; left > 0; left -= 2_000) {
    const text = randomBytes(1_350).toString("base64");
    signals.push(JSON.stringify({ email: "a@attacker.example", event: "e", p: text }));
  }
  return Buffer.from(`[${signals.join(",")}]`);
}
