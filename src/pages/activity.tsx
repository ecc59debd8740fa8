/** Activity. */
import { pages } from "./environment.ts";
import { page } from "./page.tsx";
import { Head } from "./views/parts.tsx";

export const activityPages = pages
  .createApp()
  .get("/", (c) => page(c, { title: "Activity", section: "activity" }, <Head title="Activity" />));
