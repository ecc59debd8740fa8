/** Live. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const livePages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "Live", section: "live" }, <Head title="Live" />));
