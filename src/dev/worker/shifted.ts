/** The whole service with a moved clock. */
export { default } from "../../index.ts";
export * from "./shifted-objects.ts";
