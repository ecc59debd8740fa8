import * as z from "zod";
import { haveDistinctNames, headerNameProblem, headerValueProblem } from "../domain/notifications/custom-header.ts";
import { holdsCredential } from "../domain/keys/api-key.ts";
import { fitsName } from "../domain/signal/validate-signal.ts";
import { grouped } from "../domain/text.ts";
import {
  DESTINATION_HEADERS_MAX,
  HEADER_NAME_MAX_LENGTH,
  HEADER_VALUE_MAX_LENGTH,
  ID_MAX_LENGTH,
  NAME_MAX_CODE_POINTS,
} from "../limits.ts";

interface TextOptions {
  /** Removes white space around the text before anything is checked. */
  trim?: boolean;
  /** Default: names the maximum. */
  error?: string;
}

/**
 * A text of a caller, of at most `max` UTF-16 units. The length comes first and aborts: no later check, transformation or
 * refinement looks at a text that is too long, because a body has a megabyte for it. Every schema of a request uses this.
 */
export function boundedText(max: number, { trim = false, error = atMost(max) }: TextOptions = {}): z.ZodString {
  const sent = trim ? z.string().trim() : z.string();
  return sent.max(max, { error, abort: true });
}

/** A text of at most NAME_MAX_CODE_POINTS characters. Each takes at most two UTF-16 units, in which `boundedText` counts. */
export function shortText(options: Pick<TextOptions, "trim"> = {}): z.ZodString {
  const error = atMost(NAME_MAX_CODE_POINTS);
  return boundedText(2 * NAME_MAX_CODE_POINTS, { ...options, error })
    .refine(...nameLength)
    .meta({ maxLength: NAME_MAX_CODE_POINTS });
}

/**
 * A text that is one option of a union. A union hides the message of an option that aborts, so the first problem is the only
 * one here.
 */
export function textOption(...problems: readonly [isRight: (text: string) => boolean, message: string][]) {
  return z.string().superRefine((sent, context) => {
    const problem = problems.find(([isRight]) => !isRight(sent));
    if (problem !== undefined) context.addIssue({ code: "custom", message: problem[1] });
  });
}

/** Arguments of `refine`, and the first problem of a `textOption`: of a long text it reads only the length. */
export const nameLength: [check: (text: string) => boolean, message: string] = [fitsName, atMost(NAME_MAX_CODE_POINTS)];

function atMost(characters: number): string {
  return `at most ${grouped(characters)} characters`;
}

/** Arguments of `refine`. Members who must not see keys can see names and rules (spec §1). */
export const noCredential: [check: (text: string) => boolean, message: string] = [
  (text) => !holdsCredential(text),
  "it holds an API key or a secret, and is shown to all members",
];

export const name = shortText({ trim: true })
  .min(1)
  .refine(...noCredential)
  .refine(canBeSeen, "a name that can be seen, on one line")
  .refine(isAsItLooks, "a name without invisible characters and marks of direction");

export const recordId = boundedText(ID_MAX_LENGTH);

/** Pages link names, so a name needs a visible character. An empty name has its own error. */
function canBeSeen(text: string): boolean {
  return text === "" || (/[^\p{Cc}\p{Cf}\p{M}\p{Z}]/u.test(text) && !/\p{Cc}/u.test(text));
}

/** Scripts and emoji need these two between visible characters. */
const JOINER = /(?<=[^\p{C}\p{Z}])[\u200c\u200d](?=[^\p{C}\p{Z}])/gu;

/** Other invisible characters make two names look alike, and marks of direction show a name in another order than it has. */
function isAsItLooks(text: string): boolean {
  return !/\p{Cf}/u.test(text.replaceAll(JOINER, ""));
}

const NOT_A_TIME = "not an ISO 8601 date and time with an offset, such as 2026-11-01T00:00:00Z";
/** With more digits of a second than any clock has. */
const TIME_MAX_LENGTH = 64;

/** Any offset, converted to UTC. Times are compared as text, so the year has four digits in UTC as well. */
export const time = boundedText(TIME_MAX_LENGTH)
  .check(z.iso.datetime({ offset: true, error: NOT_A_TIME }))
  .transform((text) => new Date(text).toISOString())
  .refine((at) => /^\d{4}-/.test(at), "its year has more than four digits in UTC")
  .meta({ example: "2026-11-01T00:00:00.000Z" });

export const futureTime = time.refine((at) => Date.parse(at) > Date.now(), "must lie in the future");

export const headerName = boundedText(HEADER_NAME_MAX_LENGTH)
  .superRefine(without(headerNameProblem))
  .refine(...noCredential);

export const headerValue = boundedText(HEADER_VALUE_MAX_LENGTH).superRefine(without(headerValueProblem));

export function headersOf<Header extends z.ZodType<{ name: string }>>(header: Header) {
  return z
    .array(header)
    .max(DESTINATION_HEADERS_MAX, `at most ${DESTINATION_HEADERS_MAX} headers`)
    .refine(haveDistinctNames, "the same name twice");
}

function without(problemOf: (text: string) => string | null) {
  return (sent: string, context: z.core.$RefinementCtx<string>): void => {
    const message = problemOf(sent);
    if (message !== null) context.addIssue({ code: "custom", message });
  };
}
