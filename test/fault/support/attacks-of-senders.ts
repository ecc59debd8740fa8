/** Attacks of senders: large bodies with many keys, bodies that stall, downloads that nobody reads. */
import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { BATCH_MAX_BYTES, BATCH_MAX_SIGNALS, BULK_MAX_BYTES } from "../../../src/limits.ts";
import { callOf, type Attack } from "./attacker.ts";
import { get, honestSignal } from "./honest-calls.ts";

const BATCH = "/api/signal-staging/webhook/KEY/batch";
const BULK = "/api/signal-staging/bulk/KEY";
const GZIP = { "content-encoding": "gzip" };
const STALLED = 1_000;
const UNREAD = 200;

export const senderAttacks: Attack[] = [
  ofBodies("sixteen-KB gzip bodies of valid signals, with a hundred keys", BATCH, validSignals),
  ofBodies("sixteen-KB gzip bodies of invalid JSON, with a hundred keys", BULK, invalidJson),
  ofBodies("sixteen-KB gzip bodies with a wrong size, with a hundred keys", BULK, wrongSize),
  ofBodies("sixteen-KB gzip bodies of several members, with a hundred keys", BULK, severalMembers),
  ofBodies("bodies of 256 KB, with a hundred keys", BATCH, () => [plainBody(262_144), {}]),
  ofBodies("bodies of 8 MB, with a hundred keys", BATCH, () => [plainBody(BATCH_MAX_BYTES), {}], 16),
  {
    title: "sixteen-KB gzip bodies, of ten free workspaces",
    make: ({ free }) => {
      const keys = free.flatMap((workspace) => workspace.keys);
      const [body, headers] = invalidJson();
      const calls = keys.map((key) => callOf("gzip body", BULK, key, body, headers));
      return {
        alone: [],
        assaults: [{ connections: keys.length, manner: { kind: "answered" }, calls }],
        honest: free.map(honestSignal),
      };
    },
  },
  ofStalls("a thousand bodies of 16 KB that stall, with a Content-Length", {
    sentBytes: 15_000,
    declaredBytes: 16_384,
  }),
  ofStalls("a thousand bodies that stall, without a Content-Length", { sentBytes: 15_000, declaredBytes: "chunked" }),
  ofStalls("a thousand bodies of 200 KB that stall", { sentBytes: 150_000, declaredBytes: 200_000 }),
  ofStalls("a thousand bodies of 8 MB that stall after 300 KB", { sentBytes: 300_000, declaredBytes: 8_000_000 }),
  ofStalls("a thousand bodies without a Content-Length that stall after 300 KB", {
    sentBytes: 300_000,
    declaredBytes: "chunked",
  }),
  ofStalls("a thousand bodies of one byte a second", { sentBytes: 0, declaredBytes: "chunked", dripMs: 1_000 }),
  {
    title: "a thousand bodies that stall, of ten free workspaces",
    make: ({ free }) => {
      const keys = free.flatMap((workspace) => workspace.keys);
      const body = Buffer.alloc(150_000, " ");
      const calls = keys.map((key) => callOf("stalled body", BATCH, key, body));
      const manner = { kind: "stalled", sentBytes: 150_000, declaredBytes: 200_000 } as const;
      return {
        alone: [],
        assaults: [{ connections: STALLED, manner, calls }],
        honest: free.map(honestSignal),
      };
    },
  },
  {
    title: "exports that nobody reads, with tokens and by admins",
    make: ({ attacker }) => {
      const { id, slug, tokens, admins } = attacker;
      const path = `/operator/workspaces/${id}/export/signals`;
      const calls = [
        ...tokens.export.map((token) => get("export", path, { authorization: `Bearer ${token}` })),
        ...admins.map((headers) => get("export", `/w/${slug}/people/export`, headers)),
      ];
      return {
        alone: [],
        assaults: [{ connections: UNREAD, manner: { kind: "unread" }, calls }],
        honest: [honestSignal(attacker)],
      };
    },
  },
];

type MakeBody = () => readonly [body: Buffer, headers: Record<string, string>];

function ofBodies(title: string, path: string, makeBody: MakeBody, connections?: number): Attack {
  return {
    title,
    make: ({ attacker }) => {
      const [body, headers] = makeBody();
      const calls = attacker.keys.map((key) => callOf(title, path, key, body, headers));
      return {
        alone: calls.slice(0, 1),
        assaults: [{ connections: connections ?? calls.length, manner: { kind: "answered" }, calls }],
        honest: [honestSignal(attacker)],
      };
    },
  };
}

interface Stall {
  sentBytes: number;
  declaredBytes: number | "chunked";
  dripMs?: number;
}

function ofStalls(title: string, stall: Stall): Attack {
  return {
    title,
    make: ({ attacker }) => {
      const body = Buffer.alloc(stall.sentBytes, " ");
      const calls = attacker.keys.map((key) => callOf(title, BATCH, key, body));
      return {
        alone: [],
        assaults: [{ connections: STALLED, manner: { kind: "stalled", ...stall }, calls }],
        honest: [honestSignal(attacker)],
      };
    },
  };
}

/** As many signals as a batch may have, together as large as it may be. */
function validSignals(): readonly [Buffer, Record<string, string>] {
  const signal = JSON.stringify({ email: "a@attacker.example", event: "e", p: "x".repeat(1_610) });
  return [gzip(`[${Array.from({ length: BATCH_MAX_SIGNALS }, () => signal).join(",")}]`), GZIP];
}

/** One text without an end. */
function invalidJson(): readonly [Buffer, Record<string, string>] {
  return [gzip(`{"event":"${"x".repeat(BULK_MAX_BYTES - 20)}`), GZIP];
}

/** The last four bytes of a member are the size of its content. */
function wrongSize(): readonly [Buffer, Record<string, string>] {
  const body = gzip("x".repeat(BULK_MAX_BYTES - 20));
  body.writeUInt32LE(10, body.length - 4);
  return [body, GZIP];
}

/** A large member, then a small one. */
function severalMembers(): readonly [Buffer, Record<string, string>] {
  return [Buffer.concat([gzip(`{"event":"${"x".repeat(BULK_MAX_BYTES - 20)}`), gzip("x")]), GZIP];
}

function gzip(text: string): Buffer {
  return gzipSync(text, { level: 9 });
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
