/** SHA-256. WebCrypto (spec §5.4) is asynchronous, so transactions and bulk work use Node's hash. */
import type { Hash } from "node:crypto";
import type * as NodeCrypto from "node:crypto";

/** Loaded with the first hash: most isolates start without one. */
let nodeCrypto: typeof NodeCrypto | undefined;

const encoder = new TextEncoder();

/** FNV-1a as a signed number of 32 bits: to sort out most texts quickly. Others may have the same. */
export function quickHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}

export function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", encoder.encode(text));
}

/** Lower-case hexadecimal, as keys, secrets and tokens are stored. */
export async function digestHex(text: string): Promise<string> {
  return Buffer.from(await digest(text)).toString("hex");
}

/** Reused, because `update` would make a buffer of each text. */
const reused = new Uint8Array(4_096);
/** Maximum bytes of a UTF-16 code unit in UTF-8. */
const MAX_BYTES = 3;

export function hashAtOnce(text: string): Hash {
  const isShort = text.length * MAX_BYTES <= reused.length;
  const bytes = isShort ? reused.subarray(0, encoder.encodeInto(text, reused).written) : encoder.encode(text);
  nodeCrypto ??= process.getBuiltinModule("node:crypto");
  return nodeCrypto.createHash("sha256").update(bytes);
}
