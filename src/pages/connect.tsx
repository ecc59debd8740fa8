/** Connect. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const connectPages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "Connect", section: "connect" }, <Head title="Connect" />));
