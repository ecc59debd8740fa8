/** Usage. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const usagePages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "Usage", section: "usage" }, <Head title="Usage" />));
