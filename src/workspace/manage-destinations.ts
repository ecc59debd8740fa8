/**
 * Manages the destinations of a workspace for the operator API and the pages. The Destinations object changes first;
 * then the audit entry is written, without secrets. A deletion runs in the opposite order.
 */
import * as z from "zod";
import { writeAuditEntry } from "../control/audit.ts";
import type { AuditAction } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { checkDestinationUrl } from "../domain/events/destination.ts";
import type { UrlProblem, Destination, DestinationType } from "../domain/events/destination.ts";
import { requestBody } from "../domain/events/request-body.ts";
import type { EventType } from "../domain/events/workspace-event.ts";
import type { JsonObject } from "../domain/json/json-value.ts";
import { ok, refuse } from "../domain/result.ts";
import type { Result } from "../domain/result.ts";
import { isPlausibleEmail } from "../domain/signal/identity.ts";
import { configuredEmail, isLocal } from "../env.ts";
import { THRESHOLDS_MAX } from "../limits.ts";
import type {
  CreatedDestination,
  Delivery,
  DeliveryDetail,
  DestinationChange,
  DestinationRefusal,
} from "../notifications/destination-calls.ts";
import { newId } from "../platform/ids.ts";
import { OVERLAP_MS } from "./manage-keys.ts";
import type { Overlap } from "./manage-keys.ts";
import { destinationsOf } from "./objects.ts";

/** The workspace, the acting person and the service's address. */
export interface DestinationsCall {
  env: Env;
  db: ControlDatabase;
  workspace: { id: string; slug: string };
  /** Origin of the request, `https://…`: messages to people link to its pages. */
  origin: string;
  by: Change;
}

/** An error of the target, or the refusal of the Destinations object. */
export type DestinationProblem =
  | { reason: "target"; problem: UrlProblem | "not_an_email" }
  | { reason: "type_not_offered" }
  | { reason: DestinationRefusal };

export interface DestinationWanted {
  name: string;
  type: DestinationType;
  /** URL or email address of the destination. */
  target: string;
  events: EventType[];
}

/** Destination types that this deployment supports. */
export function offeredTypes(env: Env): DestinationType[] {
  return configuredEmail(env) === null ? ["webhook", "slack"] : ["webhook", "slack", "email"];
}

/**
 * @param id the new destination's, `dst_` and a UUIDv7: a form that is sent twice makes one, and is shown its secret once.
 */
export async function createDestination(
  call: DestinationsCall,
  wanted: DestinationWanted,
  id: string = newId("dst", call.by.nowMs),
): Promise<Result<CreatedDestination, DestinationProblem>> {
  if (!offeredTypes(call.env).includes(wanted.type)) return refuse({ reason: "type_not_offered" });
  const target = checkTarget(call, wanted.type, wanted.target);
  if (!target.ok) return target;
  const destination = { ...wanted, id, target: target.value, pagesUrl: pagesUrl(call) };
  const created = await destinationsOf(call.env, call.workspace.id).create(destination);
  if (!created.ok) return refuse({ reason: created.refusal });
  const { type, events } = wanted;
  if (created.value.isNew) await note(call, "destination.created", created.value.destination, { type, events });
  return created;
}

/** Changes a destination. Omitted fields keep their value. */
export async function updateDestination(
  call: DestinationsCall,
  id: string,
  { target, ...change }: Partial<Pick<DestinationWanted, "name" | "target" | "events">>,
): Promise<Result<Destination, DestinationProblem>> {
  const object = destinationsOf(call.env, call.workspace.id);
  const before = await object.find(id);
  if (before === null) return refuse({ reason: "not_found" });
  const full: DestinationChange = { ...change, pagesUrl: pagesUrl(call) };
  if (target !== undefined) {
    const checked = checkTarget(call, before.type, target);
    if (!checked.ok) return checked;
    full.target = checked.value;
  }
  const updated = await object.update(id, full);
  const detail = { ...(change.events && { events: change.events }), target_changed: target !== undefined };
  return noted(call, "destination.updated", updated, detail);
}

/** Pauses a destination: new notifications skip it, waiting deliveries leave when it is resumed. */
export async function pauseDestination(
  call: DestinationsCall,
  id: string,
): Promise<Result<Destination, DestinationProblem>> {
  return noted(call, "destination.paused", await destinationsOf(call.env, call.workspace.id).pause(id));
}

/** Resumes a destination that was paused or that the service switched off. */
export async function resumeDestination(
  call: DestinationsCall,
  id: string,
): Promise<Result<Destination, DestinationProblem>> {
  return noted(call, "destination.resumed", await destinationsOf(call.env, call.workspace.id).resume(id));
}

/**
 * Deletes a destination with all its deliveries. False: unknown id. The audit entry is written first, because a
 * repeated call could no longer name the destination. If the removal fails, the entry stands for an attempt.
 */
export async function deleteDestination(call: DestinationsCall, id: string): Promise<boolean> {
  const object = destinationsOf(call.env, call.workspace.id);
  const destination = await object.find(id);
  if (destination === null) return false;
  await note(call, "destination.deleted", destination);
  return (await object.remove(id)) !== null;
}

/** Rotates the secret of a destination; the old one also signs until the overlap ends. */
export async function rotateSecret(
  call: DestinationsCall,
  id: string,
  overlap: Overlap,
): Promise<Result<CreatedDestination, DestinationProblem>> {
  const rotated = await destinationsOf(call.env, call.workspace.id).rotateSecret(id, OVERLAP_MS[overlap]);
  if (!rotated.ok) return refuse({ reason: rotated.refusal });
  await note(call, "destination.secret_rotated", rotated.value.destination, { overlap });
  return rotated;
}

/** Sends a test once, in any state of the destination. Its delivery shows the result. */
export async function sendTest(call: DestinationsCall, id: string): Promise<Result<Delivery, DestinationProblem>> {
  const object = destinationsOf(call.env, call.workspace.id);
  const destination = await object.find(id);
  if (destination === null) return refuse({ reason: "not_found" });
  const message = `A test of the destination “${destination.name}”: it works.`;
  const sent = await object.sendTest(id, message);
  if (!sent.ok) return refuse({ reason: sent.refusal });
  await note(call, "destination.tested", destination, { delivery: sent.value.id });
  return sent;
}

/** A delivery and its body as sent; the body is null if it held data of a deleted person. Null: unknown delivery. */
export async function findDelivery(
  env: Env,
  workspaceId: string,
  destinationId: string,
  id: string,
): Promise<(DeliveryDetail & { body: string | null }) | null> {
  const detail = await destinationsOf(env, workspaceId).delivery(destinationId, id);
  if (detail === null) return null;
  const { event, destination, pagesUrl: pages } = detail;
  const { type } = destination;
  return { ...detail, body: event && requestBody({ type, event, pagesUrl: pages }, workspaceId) };
}

/** Repeats a delivery now, with the full retry schedule. */
export async function deliverAgain(
  call: DestinationsCall,
  destinationId: string,
  id: string,
): Promise<Result<Delivery, DestinationProblem>> {
  const object = destinationsOf(call.env, call.workspace.id);
  const again = await object.deliverAgain(destinationId, id);
  if (!again.ok) return refuse({ reason: again.refusal });
  const destination = await object.find(destinationId);
  if (destination !== null) await note(call, "delivery.repeated", destination, { delivery: id });
  return again;
}

/** Thresholds without repetitions, sorted ascending. */
export const thresholds = z
  .array(z.int().min(-1_000_000).max(1_000_000))
  .max(THRESHOLDS_MAX)
  .refine((scores) => new Set(scores).size === scores.length, "the same score twice")
  .transform((scores) => scores.toSorted((a, b) => a - b))
  .meta({ description: `Scores whose crossing is told, at most ${THRESHOLDS_MAX}.`, example: [50, 100] });

/** @param scores ascending, each once. */
export async function changeThresholds(call: DestinationsCall, scores: number[]): Promise<void> {
  const { env, db, workspace, by } = call;
  await destinationsOf(env, workspace.id).setThresholds(scores);
  const entry = { workspaceId: workspace.id, action: "thresholds.changed", target: workspace.id } as const;
  await writeAuditEntry(db, by, { ...entry, detail: { thresholds: scores } });
}

function pagesUrl({ origin, workspace }: DestinationsCall): string {
  return `${origin}/w/${workspace.slug}`;
}

function checkTarget(call: DestinationsCall, type: DestinationType, text: string): Result<string, DestinationProblem> {
  if (type === "email") {
    const address = text.trim();
    return isPlausibleEmail(address) ? ok(address) : refuse({ reason: "target", problem: "not_an_email" });
  }
  const rules = { local: isLocal(call.env), ownHosts: [new URL(call.origin).host] };
  const checked = checkDestinationUrl(text, rules);
  return checked.ok ? checked : refuse({ reason: "target", problem: checked.refusal });
}

async function noted(
  call: DestinationsCall,
  action: AuditAction,
  changed: Result<Destination, DestinationRefusal>,
  detail: JsonObject = {},
): Promise<Result<Destination, DestinationProblem>> {
  if (!changed.ok) return refuse({ reason: changed.refusal });
  await note(call, action, changed.value, detail);
  return changed;
}

async function note(
  { db, workspace, by }: DestinationsCall,
  action: AuditAction,
  { id, name }: Destination,
  detail: JsonObject = {},
): Promise<void> {
  await writeAuditEntry(db, by, { workspaceId: workspace.id, action, target: id, detail: { name, ...detail } });
}

export const TARGET_PROBLEMS = {
  not_a_url: "not a URL",
  too_long: "too long",
  not_https: "must begin with https://",
  credentials: "must hold no user name and no password",
  address: "must have a name as its host, not an address",
  not_public: "must have a public name as its host",
  port: "must have no port, or one from 1024 on",
  own_host: "leads to this service itself",
  not_an_email: "not an email address",
} as const satisfies Record<UrlProblem | "not_an_email", string>;
