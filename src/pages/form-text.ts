export { formText } from "./pages-env.ts";
