/** The hash by which a deleted person's email or id is remembered, in the Signal Store and in D1. */
import { hashAtOnce } from "../../platform/hashes.ts";

export function hashOfName({ kind, value }: { kind: "email" | "anonymous_id" | "user_id"; value: string }): string {
  return hashAtOnce(`${kind} ${value}`).digest("base64url");
}
