/** A name that people give: of a key, a rule, a workspace. */
import * as z from "zod";
import { fitsName } from "../domain/validate-signal.ts";
import { NAME_MAX_CODE_POINTS } from "../limits.ts";

export const name = z
  .string()
  .trim()
  .min(1)
  .refine(fitsName, `at most ${NAME_MAX_CODE_POINTS} characters`)
  .meta({ maxLength: NAME_MAX_CODE_POINTS });
