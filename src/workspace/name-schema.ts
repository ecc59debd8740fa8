/** A name that people give: of a key, a rule, a workspace. */
import * as z from "zod";
import { holdsCredential } from "../domain/keys/echo.ts";
import { fitsName } from "../domain/signal/validate-signal.ts";
import { NAME_MAX_CODE_POINTS } from "../limits.ts";

/** For `refine`. Members see names and rules who may not see keys (spec §1). */
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

/** The pages make links of names: there must be something to click on. An empty one is refused as such already. */
function canBeSeen(text: string): boolean {
  return text === "" || (/[^\p{Cc}\p{Cf}\p{M}\p{Z}]/u.test(text) && !/\p{Cc}/u.test(text));
}
