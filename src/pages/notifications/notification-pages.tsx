/** Settings › Notifications: the list of destinations, a new one, the thresholds. For owners and admins only. */
import type { Context } from "hono";
import { newId } from "../../platform/ids.ts";
import { changeThresholds, createDestination, offeredTypes } from "../../workspace/manage-destinations.ts";
import { destinationsOf } from "../../workspace/objects.ts";
import { destinationPages } from "./destination-pages.tsx";
import { pages, type PagesEnv } from "../pages-env.ts";
import { destinationsCall, notificationsPath, toErrors } from "./notification-call.ts";
import { checkDestination, emptyDestination, readDestinationForm, thresholdsTyped } from "./notification-form.ts";
import type { DestinationErrors, TypedDestination } from "./notification-form.ts";
import { formText } from "../form-text.ts";
import { readForm } from "../read-form.tsx";
import { done, managersOnlyPage, mayManage, page } from "../page.tsx";
import { DestinationCreatedView, DestinationMadeBeforeView } from "./destination-created-view.tsx";
import { DestinationFormView } from "./destination-form-view.tsx";
import { NotificationsView } from "./notifications-view.tsx";

const TEXT = { title: "Notifications", section: "notifications" } as const;

const requireNotificationManager = pages.createMiddleware(async (c, next) => {
  if (!mayManage(c)) return managersOnlyPage(c, null, "Notifications", "see or manage notifications");
  await next();
});

export const notificationPages = pages
  .createApp()
  .use(requireNotificationManager)
  .get("/", async (c) => {
    const stored = await destinationsOf(c.env, c.get("workspace").id).thresholds();
    return listPage(c, { typed: stored.join(", "), error: undefined });
  })
  .post("/thresholds", readForm(), async (c) => {
    const typed = formText(c.get("form"), "thresholds");
    const scores = thresholdsTyped(typed);
    if (!scores.ok) return listPage(c, { typed, error: scores.refusal });
    await changeThresholds(destinationsCall(c), scores.value);
    return done(c, "settings/notifications", "thresholds_saved");
  })
  .get("/new", (c) => newForm(c, emptyDestination(newId("dst")), {}))
  .post("/new", readForm(), async (c) => {
    const typed = readDestinationForm(c.get("form"), newId("dst"));
    const wanted = checkDestination(typed, "is_refused");
    if (!wanted.ok) return newForm(c, typed, wanted.refusal);
    const created = await createDestination(destinationsCall(c), wanted.value, typed.id);
    if (!created.ok) return newForm(c, typed, toErrors(created.refusal));
    const { destination, secret, isNew } = created.value;
    const path = notificationsPath(c);
    if (!isNew) {
      const view = <DestinationMadeBeforeView path={path} destination={destination} />;
      return page(c, { ...TEXT, title: "Created already", status: 409 }, view);
    }
    const view = <DestinationCreatedView {...{ path, destination, secret }} isRotated={false} nowMs={Date.now()} />;
    return page(c, { ...TEXT, title: "Destination created" }, view);
  })
  .route("/", destinationPages);

async function listPage(c: Context<PagesEnv>, thresholds: { typed: string; error: string | undefined }) {
  const destinations = await destinationsOf(c.env, c.get("workspace").id).list();
  const view = { path: notificationsPath(c), destinations, thresholds, nowMs: Date.now() };
  return page(c, { ...TEXT, status: thresholds.error === undefined ? 200 : 422 }, <NotificationsView {...view} />);
}

function newForm(c: Context<PagesEnv>, typed: TypedDestination, errors: DestinationErrors) {
  const view = {
    path: notificationsPath(c),
    workspaceId: c.get("workspace").id,
    typed,
    errors,
    changed: null,
    offered: offeredTypes(c.env),
  };
  const status = Object.keys(errors).length === 0 ? 200 : 422;
  return page(c, { ...TEXT, title: "Create destination", status }, <DestinationFormView {...view} />);
}
