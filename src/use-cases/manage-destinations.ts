/**
 * Manages the destinations of a workspace for the operator API and the pages. The Destinations object changes first;
 * then the audit entry is written, without secrets. A deletion runs in the opposite order.
 */
import * as z from "zod";
import { auditEntry, type AuditAction } from "../d1/audit.ts";
import type { WantedHeader } from "../domain/notifications/custom-header.ts";
import {
  checkDestinationUrl,
  type UrlProblem,
  type Destination,
  type DestinationType,
} from "../domain/notifications/destination.ts";
import { requestBody } from "../domain/notifications/request-body.ts";
import type { ScoreThresholds } from "../domain/notifications/notification.ts";
import type { JsonObject } from "../domain/json/json-value.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { isPlausibleEmail } from "../domain/signal/identity.ts";
import { configuredEmail, isLocal } from "../env.ts";
import { THRESHOLDS_MAX } from "../limits.ts";
import type {
  CreatedDestination,
  Delivery,
  DeliveryDetail,
  DestinationChange,
  DestinationRejection,
  NewDestination,
  ResentDeliveries,
} from "../notifications/destination-calls.ts";
import { newId } from "../platform/ids.ts";
import { OVERLAP_MS, type Overlap } from "./manage-keys.ts";
import { destinationsOf, type WorkspaceContext } from "./objects.ts";

export interface DestinationsContext extends WorkspaceContext {
  slug: string;
  /** Origin of the request, `https://…`: messages to people link to its pages. */
  origin: string;
}

export type TargetProblem = UrlProblem | "not_an_email";
export type DestinationProblem = TargetProblem | "type_not_offered" | DestinationRejection;

/** The target is a URL or an email address. */
export type WantedDestination = Omit<NewDestination, "id" | "pagesUrl">;

export function offeredTypes(env: Env): DestinationType[] {
  return configuredEmail(env) === null ? ["webhook", "slack"] : ["webhook", "slack", "email"];
}

/** @param id `dst_` and a UUIDv7. A form that is sent twice has the same id, creates one destination, and shows its secret once. */
export async function createDestination(
  context: DestinationsContext,
  wanted: WantedDestination,
  id: string = newId("dst", context.by.nowMs),
): Promise<Result<CreatedDestination, DestinationProblem>> {
  if (!offeredTypes(context.env).includes(wanted.type)) return reject("type_not_offered");
  const target = checkTarget(context, wanted.type, wanted.target);
  if (!target.ok) return target;
  const created = await objectOf(context).create({ ...wanted, id, target: target.value, pagesUrl: pagesUrl(context) });
  if (created.ok && created.value.isNew) {
    const { type, notifications, headers } = wanted;
    const detail = { type, notifications, ...(headers.length > 0 && { headers: headers.map(({ name }) => name) }) };
    await writeAudit(context, "destination.created", created.value.destination, detail);
  }
  return created;
}

/** Headers replace all headers. A header without a value keeps its stored value. */
type DestinationEdit = Partial<Omit<WantedDestination, "type" | "headers">> & { headers?: WantedHeader[] };

/** Changes a destination. Omitted fields keep their value. */
export async function updateDestination(
  context: DestinationsContext,
  id: string,
  { target, ...change }: DestinationEdit,
): Promise<Result<Destination, DestinationProblem>> {
  const before = await objectOf(context).find(id);
  if (before === null) return reject("not_found");
  const full: DestinationChange = { ...change, pagesUrl: pagesUrl(context) };
  if (target !== undefined) {
    const checked = checkTarget(context, before.type, target);
    if (!checked.ok) return checked;
    full.target = checked.value;
  }
  const updated = await objectOf(context).update(id, full);
  const detail = {
    ...(change.notifications && { notifications: change.notifications }),
    ...(change.headers && { headers: change.headers.map(({ name }) => name) }),
    target_changed: target !== undefined,
  };
  if (updated.ok) await writeAudit(context, "destination.updated", updated.value, detail);
  return updated;
}

/** Whether `updateDestination` would reject the change with `headers_for_another_url`. */
export async function needsHeaderValues(
  context: DestinationsContext,
  { id, type }: Pick<Destination, "id" | "type">,
  { target, headers }: { target: string; headers: readonly WantedHeader[] },
): Promise<boolean> {
  const checked = checkTarget(context, type, target);
  return checked.ok && objectOf(context).needsHeaderValues(id, { target: checked.value, headers: [...headers] });
}

export function pauseDestination(context: DestinationsContext, id: string): ReturnType<typeof writeOutcome> {
  return writeOutcome(context, "destination.paused", objectOf(context).pause(id));
}

export function resumeDestination(context: DestinationsContext, id: string): ReturnType<typeof writeOutcome> {
  return writeOutcome(context, "destination.resumed", objectOf(context).resume(id));
}

/** @param code the one that the email address was sent. A confirmed address stays so, without an audit entry. */
export async function confirmDestination(
  context: DestinationsContext,
  id: string,
  code: string,
): ReturnType<typeof writeOutcome> {
  const before = await objectOf(context).find(id);
  if (before?.confirmed === true) return ok(before);
  return writeOutcome(context, "destination.confirmed", objectOf(context).confirm(id, code));
}

async function writeOutcome(
  context: DestinationsContext,
  action: AuditAction,
  change: Promise<Result<Destination, DestinationRejection>>,
): Promise<Result<Destination, DestinationProblem>> {
  const changed = await change;
  if (changed.ok) await writeAudit(context, action, changed.value);
  return changed;
}

/**
 * Deletes a destination with all its deliveries. False: unknown id. The audit entry is written first, because a
 * repeated call could no longer name the destination. If the removal fails, the entry stands for an attempt.
 */
export async function deleteDestination(context: DestinationsContext, id: string): Promise<boolean> {
  const destination = await objectOf(context).find(id);
  if (destination === null) return false;
  await writeAudit(context, "destination.deleted", destination);
  return (await objectOf(context).remove(id)) !== null;
}

/** @param secretId of the secret that the form has shown: a form that is sent twice rotates once. */
export async function rotateSecret(
  context: DestinationsContext,
  id: string,
  overlap: Overlap,
  secretId?: string,
): Promise<Result<CreatedDestination, DestinationProblem>> {
  const rotated = await objectOf(context).rotateSecret(id, OVERLAP_MS[overlap], secretId);
  if (rotated.ok && rotated.value.isNew)
    await writeAudit(context, "destination.secret_rotated", rotated.value.destination, { overlap });
  return rotated;
}

/** Sends a test once, in any state of the destination. Its delivery shows the result. */
export async function sendTest(
  context: DestinationsContext,
  id: string,
): Promise<Result<Delivery, DestinationProblem>> {
  const destination = await objectOf(context).find(id);
  if (destination === null) return reject("not_found");
  const sent = await objectOf(context).sendTest(id, `A test of the destination “${destination.name}”.`);
  if (sent.ok) await writeAudit(context, "destination.tested", destination, { delivery: sent.value.id });
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
  const { notification, destination, pagesUrl: pages } = detail;
  return {
    ...detail,
    body: notification && requestBody({ type: destination.type, notification, pagesUrl: pages }, workspaceId),
  };
}

export async function deliverAgain(
  context: DestinationsContext,
  destinationId: string,
  id: string,
): Promise<Result<Delivery, DestinationProblem>> {
  const repeated = await objectOf(context).deliverAgain(destinationId, id);
  const destination = repeated.ok ? await objectOf(context).find(destinationId) : null;
  if (destination !== null) await writeAudit(context, "delivery.repeated", destination, { delivery: id });
  return repeated;
}

/** Repeats all deliveries that failed at `sinceMs` or later. A call that repeats nothing leaves no audit entry. */
export async function resendDeliveries(
  context: DestinationsContext,
  destinationId: string,
  sinceMs: number,
): Promise<Result<ResentDeliveries, DestinationProblem>> {
  const repeated = await objectOf(context).resendDeliveries(destinationId, sinceMs);
  if (!repeated.ok || repeated.value.resent === 0) return repeated;
  const destination = await objectOf(context).find(destinationId);
  const detail = { since: new Date(sinceMs).toISOString(), deliveries: repeated.value.resent };
  if (destination !== null) await writeAudit(context, "delivery.repeated", destination, detail);
  return repeated;
}

function scoreThresholds(subject: "a person" | "an account", example: number[]) {
  return z
    .array(z.int().min(-1_000_000).max(1_000_000))
    .max(THRESHOLDS_MAX)
    .refine((scores) => new Set(scores).size === scores.length, "the same score twice")
    .transform((scores) => scores.toSorted((a, b) => a - b))
    .meta({
      description: `Scores that raise a notification when ${subject} reaches them or falls below them, at most ${THRESHOLDS_MAX}.`,
      example,
    });
}

export const thresholds = scoreThresholds("a person", [50, 100]);
export const accountThresholds = scoreThresholds("an account", [200]);

/** @param accounts undefined: the thresholds for accounts stay as they are. Both lists are ascending. */
export async function changeThresholds(
  context: DestinationsContext,
  people: number[],
  accounts?: number[],
): Promise<ScoreThresholds> {
  const { db, workspaceId, by } = context;
  const before = await objectOf(context).thresholds();
  const changed = await objectOf(context).setThresholds(people, accounts);
  const detail = {
    thresholds: { from: before.people, to: changed.people },
    account_thresholds: { from: before.accounts, to: changed.accounts },
  };
  await auditEntry(db, by, { workspaceId, action: "thresholds.changed", target: workspaceId, detail });
  return changed;
}

function objectOf({ env, workspaceId }: WorkspaceContext) {
  return destinationsOf(env, workspaceId);
}

function pagesUrl({ origin, slug }: DestinationsContext): string {
  return `${origin}/w/${slug}`;
}

/** What is stored of a typed URL or email address. */
export function checkTarget(
  context: DestinationsContext,
  type: DestinationType,
  text: string,
): Result<string, TargetProblem> {
  if (type === "email") return isPlausibleEmail(text.trim()) ? ok(text.trim()) : reject("not_an_email");
  return checkDestinationUrl(text, { local: isLocal(context.env), ownHosts: [new URL(context.origin).host] });
}

async function writeAudit(
  { db, workspaceId, by }: WorkspaceContext,
  action: AuditAction,
  { id, name }: Destination,
  detail: JsonObject = {},
): Promise<void> {
  await auditEntry(db, by, { workspaceId, action, target: id, detail: { name, ...detail } });
}
