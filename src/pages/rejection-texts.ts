/** A rejection in words: what is wrong, and what the sender should change. */
import type { RejectionReason } from "../domain/keys/rejection.ts";
import { REJECTIONS } from "../http/rejection-table.ts";
import { CAUSE_ADVICE, CAUSE_COPY } from "./copy.ts";

/** What is wrong, in short: of a 401 its cause. */
export function reasonText({ code, cause }: Pick<RejectionReason, "code" | "cause">): string {
  return cause === null ? REJECTIONS[code].label : CAUSE_COPY[cause].replace(/\.$/, "");
}

/** What the sender should change. */
export function adviceFor({ code, cause }: Pick<RejectionReason, "code" | "cause">): string {
  return cause === null ? REJECTIONS[code].advice : CAUSE_ADVICE[cause];
}
