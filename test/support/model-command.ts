/** A step of a life of the model run: the same for the model and for what is real. */
import type * as fc from "fast-check";
import type { Model } from "./model.ts";
import type { Real } from "./model-real.ts";

export type Command = fc.AsyncCommand<Model, Real>;

export function command(says: string, run: (model: Model, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    run: async (model, real) => {
      real.tick();
      await run(model, real);
    },
    toString: () => says,
  };
}
