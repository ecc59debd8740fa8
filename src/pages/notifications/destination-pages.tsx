/** Settings › Notifications: one destination, what is done to it, and its deliveries. */
import type { Context } from "hono";
import type { Delivery } from "../../notifications/destination-calls.ts";
import type { Destination } from "../../domain/events/destination.ts";
import { PAGE_ROWS } from "../../limits.ts";
import {
  deleteDestination,
  deliverAgain,
  findDelivery,
  offeredTypes,
  pauseDestination,
  resumeDestination,
  rotateSecret,
  sendTest,
  updateDestination,
} from "../../workspace/manage-destinations.ts";
import { destinationsOf } from "../../workspace/objects.ts";
import { readForm } from "../read-form.tsx";
import { pages, type PagesEnv, workspacePath } from "../pages-env.ts";
import { destinationsCall, notificationsPath, toErrors } from "./notification-call.ts";
import { problemSaid } from "./notification-copy.ts";
import { checkDestination, readDestinationForm } from "./notification-form.ts";
import type { DestinationErrors, TypedDestination } from "./notification-form.ts";
import { done, notFoundPage, page } from "../page.tsx";
import { DeliveryView } from "./delivery-view.tsx";
import { DestinationCreatedView } from "./destination-created-view.tsx";
import { DestinationFormView } from "./destination-form-view.tsx";
import { RotateSecretView } from "./rotate-secret-view.tsx";
import { isOverlap } from "../../workspace/manage-keys.ts";
import { DestinationView } from "./destination-view.tsx";

/** How long a page waits for the answer to a test, or to what is delivered again, before it is shown without. */
const SHOWN_AT_ONCE_MS = 3_000;

type Ctx = Context<PagesEnv>;

const SECTION = "notifications";
const POLL_MS = 100;

export const destinationPages = pages
  .createApp()
  .get("/:id", async (c) => {
    const destination = await destinationOf(c);
    return destination === null ? notFoundPage(c, "destination") : destinationPage(c, destination);
  })
  .get("/:id/change", async (c) => {
    const destination = await destinationOf(c);
    if (destination === null) return notFoundPage(c, "destination");
    const { id, name, type, events } = destination;
    return changeForm(c, destination, { id, name, type, target: "", events }, {});
  })
  .post("/:id/change", readForm(), async (c) => {
    const destination = await destinationOf(c);
    if (destination === null) return notFoundPage(c, "destination");
    const { id, type } = destination;
    const typed = { ...readDestinationForm(c.get("form"), id), id, type };
    const wanted = checkDestination(typed, "keeps_stored");
    if (!wanted.ok) return changeForm(c, destination, typed, wanted.refusal);
    const { name, target, events } = wanted.value;
    const changed = await updateDestination(destinationsCall(c), id, {
      name,
      events,
      ...(target !== "" && { target }),
    });
    return changed.ok
      ? done(c, `settings/notifications/${id}`, "saved")
      : changeForm(c, destination, typed, toErrors(changed.refusal));
  })
  .get("/:id/rotate", async (c) => {
    const destination = await destinationOf(c);
    return destination === null ? notFoundPage(c, "destination") : rotateForm(c, destination);
  })
  .post("/:id/rotate", readForm(), async (c) => {
    const destination = await destinationOf(c);
    if (destination === null) return notFoundPage(c, "destination");
    const overlap = c.get("form").get("overlap");
    if (!isOverlap(overlap)) return rotateForm(c, destination, "Choose when the old secret ends.");
    const rotated = await rotateSecret(destinationsCall(c), destination.id, overlap);
    if (!rotated.ok) return destinationPage(c, destination, problemSaid(rotated.refusal));
    const view = { path: notificationsPath(c), ...rotated.value, isRotated: true, nowMs: Date.now() };
    return page(c, { title: "Secret rotated", section: SECTION }, <DestinationCreatedView {...view} />);
  })
  .post("/:id/pause", async (c) => {
    const id = c.req.param("id");
    const paused = await pauseDestination(destinationsCall(c), id);
    return paused.ok ? done(c, `settings/notifications/${id}`, "destination_paused") : notFoundPage(c, "destination");
  })
  .post("/:id/resume", async (c) => {
    const id = c.req.param("id");
    const resumed = await resumeDestination(destinationsCall(c), id);
    return resumed.ok ? done(c, `settings/notifications/${id}`, "destination_resumed") : notFoundPage(c, "destination");
  })
  .post("/:id/delete", async (c) => {
    const deleted = await deleteDestination(destinationsCall(c), c.req.param("id"));
    return deleted ? done(c, "settings/notifications", "destination_deleted") : notFoundPage(c, "destination");
  })
  .post("/:id/test", async (c) => {
    const sent = await sendTest(destinationsCall(c), c.req.param("id"));
    return sent.ok ? toDelivery(c, sent.value, 0) : refusedPage(c, problemSaid(sent.refusal));
  })
  .get("/:id/deliveries/:delivery_id", (c) => deliveryPage(c))
  .post("/:id/deliveries/:delivery_id/again", async (c) => {
    const { id, delivery_id: deliveryId } = c.req.param();
    const before = await findDelivery(c.env, c.get("workspace").id, id, deliveryId);
    if (before === null) return notFoundPage(c, "delivery");
    const again = await deliverAgain(destinationsCall(c), id, deliveryId);
    if (!again.ok) return deliveryPage(c, problemSaid(again.refusal));
    return toDelivery(c, again.value, before.delivery.attempts.length);
  });

function destinationOf(c: Ctx): Promise<Destination | null> {
  return destinationsOf(c.env, c.get("workspace").id).find(c.req.param("id") ?? "");
}

async function destinationPage(c: Ctx, destination: Destination, refused?: string) {
  const { id } = c.get("workspace");
  const query = c.req.query();
  const cursor: Record<string, string> = query["cursor"] === undefined ? {} : { cursor: query["cursor"] };
  const asked = { cursor: query["cursor"] ?? null, limit: PAGE_ROWS };
  const deliveries = await destinationsOf(c.env, id).listDeliveries(destination.id, asked);
  if (deliveries === null) return notFoundPage(c, "destination");
  const view = {
    path: notificationsPath(c),
    workspaceId: id,
    destination,
    deliveries,
    query: cursor,
    refused,
    pagesUrl: `${new URL(c.req.url).origin}${workspacePath(c)}`,
    nowMs: Date.now(),
  };
  const status = refused === undefined ? 200 : 409;
  return page(c, { title: destination.name, section: SECTION, status }, <DestinationView {...view} />);
}

async function refusedPage(c: Ctx, refused: string) {
  const destination = await destinationOf(c);
  return destination === null ? notFoundPage(c, "destination") : destinationPage(c, destination, refused);
}

async function deliveryPage(c: Ctx, refused?: string) {
  const { id, delivery_id: deliveryId } = c.req.param() as { id: string; delivery_id: string };
  const detail = await findDelivery(c.env, c.get("workspace").id, id, deliveryId);
  if (detail === null) return notFoundPage(c, "delivery");
  const view = { path: notificationsPath(c), detail, refused, nowMs: Date.now() };
  const status = refused === undefined ? 200 : 409;
  return page(c, { title: "Delivery", section: SECTION, status }, <DeliveryView {...view} />);
}

/** Leads to the delivery's page, once it has an attempt if that is soon: then the page shows the answer without a script. */
async function toDelivery(c: Ctx, { id, destinationId }: Delivery, attemptsBefore: number) {
  const untilMs = Date.now() + SHOWN_AT_ONCE_MS;
  const hasEnded = async () => {
    const detail = await findDelivery(c.env, c.get("workspace").id, destinationId, id);
    return detail === null || detail.delivery.state !== "waiting" || detail.delivery.attempts.length > attemptsBefore;
  };
  // oxlint-disable-next-line no-await-in-loop -- each look waits for the one before it
  while (Date.now() < untilMs && !(await hasEnded())) await scheduler.wait(POLL_MS);
  return c.redirect(`${notificationsPath(c)}/${destinationId}/deliveries/${id}`, 303);
}

function changeForm(c: Ctx, changed: Destination, typed: TypedDestination, errors: DestinationErrors) {
  const view = {
    path: notificationsPath(c),
    workspaceId: c.get("workspace").id,
    typed,
    errors,
    changed,
    offered: offeredTypes(c.env),
  };
  const status = Object.keys(errors).length === 0 ? 200 : 422;
  return page(c, { title: `Change ${changed.name}`, section: SECTION, status }, <DestinationFormView {...view} />);
}

function rotateForm(c: Ctx, destination: Destination, error?: string) {
  const status = error === undefined ? 200 : 422;
  const view = (
    <RotateSecretView path={notificationsPath(c)} destination={destination} {...(error !== undefined && { error })} />
  );
  return page(c, { title: "Rotate the secret", section: SECTION, status }, view);
}
