/** Schemas of fields that forms and the operator API share. */
import * as z from "zod";
import { holdsCredential } from "../domain/keys/echo.ts";
import { fitsName } from "../domain/signal/validate-signal.ts";
import { NAME_MAX_CODE_POINTS } from "../limits.ts";

/** For `refine`. Members who must not see keys can see names and rules (spec §1). */
export const noCredential: [check: (text: string) => boolean, message: string] = [
  (text) => !holdsCredential(text),
  "it holds an API key or a secret, and is shown to all members",
];

export const name = z
  .string()
  .trim()
  .min(1)
  .refine(fitsName, `at most ${NAME_MAX_CODE_POINTS} characters`)
  .refine(...noCredential)
  .refine(canBeSeen, "a name that can be seen, on one line")
  .meta({ maxLength: NAME_MAX_CODE_POINTS });

/** Pages link names, so a name needs a visible character. An empty name has its own error. */
function canBeSeen(text: string): boolean {
  return text === "" || (/[^\p{Cc}\p{Cf}\p{M}\p{Z}]/u.test(text) && !/\p{Cc}/u.test(text));
}

/**
 * A time with any offset, converted to UTC with milliseconds. Times are compared as text, so the year has four digits
 * in UTC as well.
 */
export const time = z.iso
  .datetime({ offset: true, error: "not an ISO 8601 date and time with an offset, such as 2026-11-01T00:00:00Z" })
  .transform((text) => new Date(text).toISOString())
  .refine((at) => /^\d{4}-/.test(at), "its year has more than four digits in UTC")
  .meta({ example: "2026-11-01T00:00:00.000Z" });

export const futureTime = time.refine((at) => Date.parse(at) > Date.now(), "must lie in the future");
