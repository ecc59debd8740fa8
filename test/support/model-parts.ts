/** How many files share the lives of the model run: each has a part of them, from a seed of its own, and all run side by side. */
export const MODEL_PARTS = 3;
