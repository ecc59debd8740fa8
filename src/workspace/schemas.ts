/** What the operator API and the pages ask of names, addresses and times. */
import * as z from "zod";
import { fitsName, isPlausibleEmail } from "../domain/validate-signal.ts";
import { NAME_MAX_CODE_POINTS } from "../limits.ts";

export const name = z
  .string()
  .trim()
  .min(1)
  .refine(fitsName, `at most ${NAME_MAX_CODE_POINTS} characters`)
  .meta({ maxLength: NAME_MAX_CODE_POINTS });

export const email = z
  .string()
  .trim()
  .toLowerCase()
  .refine(isPlausibleEmail, "not an email address")
  .meta({ format: "email", example: "jane@example.com" });

/** Any offset in; UTC with milliseconds from here on. */
export const time = z.iso
  .datetime({ offset: true, error: "not an ISO 8601 date and time with an offset, such as 2026-11-01T00:00:00Z" })
  .transform((text) => new Date(text).toISOString())
  .meta({ example: "2026-11-01T00:00:00.000Z" });
