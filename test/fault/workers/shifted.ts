/** The whole service by a clock that is moved. */
export { default } from "../../../src/index.ts";
export * from "./shifted-objects.ts";
