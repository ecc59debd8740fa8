/** A step of a model run: the same for the model and for the real service. */
import * as fc from "fast-check";
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

/** Mostly null; `fc.option` would make null rare. */
export function seldom<T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.oneof({ weight: 3, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: value });
}
