/** Members. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const memberPages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "Members", section: "members" }, <Head title="Members" />));
