/** The whole service with a moved clock. */
export { default } from "../../../src/index.ts";
export * from "./shifted-objects.ts";
