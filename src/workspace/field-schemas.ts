/** What the operator API and the pages ask of names, addresses and times. */
import * as z from "zod";
import { memberEmail } from "../domain/signal/identity.ts";
import { isPlausibleEmail } from "../domain/signal/validate-signal.ts";

export { name } from "./name-schema.ts";

export const email = z
  .string()
  .trim()
  .toLowerCase()
  .refine(isPlausibleEmail, "not an email address")
  .meta({ format: "email", example: "jane@example.com" });

/** The email of somebody who is to sign in (see `memberEmail`). */
export const memberAddress = z
  .string()
  .refine((text) => memberEmail(text) !== undefined, "not an email address, or one that is easily taken for another")
  .transform((text) => memberEmail(text) ?? text)
  .meta({ format: "email", example: "jane@example.com" });

/** A time with any offset, read as UTC with milliseconds. Times are compared as text, so the year has four digits in UTC too. */
export const time = z.iso
  .datetime({ offset: true, error: "not an ISO 8601 date and time with an offset, such as 2026-11-01T00:00:00Z" })
  .transform((text) => new Date(text).toISOString())
  .refine((at) => /^\d{4}-/.test(at), "its year has more than four digits in UTC")
  .meta({ example: "2026-11-01T00:00:00.000Z" });
