/** Accounts. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const accountPages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "Accounts", section: "accounts" }, <Head title="Accounts" />));
