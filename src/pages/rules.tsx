/** Mapping Rules. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const rulePages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "Mapping Rules", section: "rules" }, <Head title="Mapping Rules" />));
