/**
 * SHA-256 of a text's UTF-8 bytes. Keys, secrets and tokens are hashed with WebCrypto (spec §5.4), which is asynchronous.
 * Hashes inside a transaction, or many thousands of them, use Node's synchronous function.
 */
import type { Hash } from "node:crypto";

const encoder = new TextEncoder();

export function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", encoder.encode(text));
}

/** The digest in lower-case hexadecimal, as keys and secrets are stored. */
export async function digestHex(text: string): Promise<string> {
  return Buffer.from(await digest(text)).toString("hex");
}

/** A synchronous hash. Node's module is loaded on first use, see node.ts. */
export function hashAtOnce(text: string): Hash {
  return process.getBuiltinModule("node:crypto").createHash("sha256").update(text);
}
