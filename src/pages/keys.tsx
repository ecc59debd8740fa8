/** API Keys. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const keyPages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "API Keys", section: "keys" }, <Head title="API Keys" />));
