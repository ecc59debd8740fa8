/** SHA-256. WebCrypto (spec §5.4) is asynchronous, so transactions and bulk work use Node's hash (see node.ts). */
import type { Hash } from "node:crypto";

const encoder = new TextEncoder();

export function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", encoder.encode(text));
}

/** Lower-case hexadecimal, as keys, secrets and tokens are stored. */
export async function digestHex(text: string): Promise<string> {
  return Buffer.from(await digest(text)).toString("hex");
}

export function hashAtOnce(text: string): Hash {
  return process.getBuiltinModule("node:crypto").createHash("sha256").update(text);
}
