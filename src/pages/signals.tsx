/** Signal Queue. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const signalPages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "Signal Queue", section: "signals" }, <Head title="Signal Queue" />));
