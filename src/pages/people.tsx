/** People. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const peoplePages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "People", section: "people" }, <Head title="People" />));
