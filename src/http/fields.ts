import * as z from "zod";
import { haveDistinctNames, headerNameProblem, headerValueProblem } from "../domain/events/custom-header.ts";
import { holdsCredential } from "../domain/keys/echo.ts";
import { fitsName } from "../domain/signal/validate-signal.ts";
import {
  DESTINATION_HEADERS_MAX,
  HEADER_NAME_MAX_LENGTH,
  HEADER_VALUE_MAX_LENGTH,
  NAME_MAX_CODE_POINTS,
} from "../limits.ts";

/** Arguments of `refine`. Members who must not see keys can see names and rules (spec §1). */
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

/** Any offset, converted to UTC. Times are compared as text, so the year has four digits in UTC as well. */
export const time = z.iso
  .datetime({ offset: true, error: "not an ISO 8601 date and time with an offset, such as 2026-11-01T00:00:00Z" })
  .transform((text) => new Date(text).toISOString())
  .refine((at) => /^\d{4}-/.test(at), "its year has more than four digits in UTC")
  .meta({ example: "2026-11-01T00:00:00.000Z" });

export const futureTime = time.refine((at) => Date.parse(at) > Date.now(), "must lie in the future");

export const headerName = textWithout(headerNameProblem)
  .refine(...noCredential)
  .meta({ maxLength: HEADER_NAME_MAX_LENGTH });

export const headerValue = textWithout(headerValueProblem).meta({ maxLength: HEADER_VALUE_MAX_LENGTH });

export function headersOf<Header extends z.ZodType<{ name: string }>>(header: Header) {
  return z
    .array(header)
    .max(DESTINATION_HEADERS_MAX, `at most ${DESTINATION_HEADERS_MAX} headers`)
    .refine(haveDistinctNames, "the same name twice");
}

function textWithout(problemOf: (text: string) => string | null) {
  return z.string().superRefine((text, context) => {
    const message = problemOf(text);
    if (message !== null) context.addIssue({ code: "custom", message });
  });
}
