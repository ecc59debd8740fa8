/** Rejections. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const rejectionPages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "Rejections", section: "rejections" }, <Head title="Rejections" />));
