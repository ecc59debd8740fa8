/** A part of the model run: `npm run test:model` for a night; a run that fails prints its seed, and `--seed` repeats it. */
import { testLives } from "../../support/model-lives.ts";

testLives(2);
