/** Paths of the pages of records. `base` is the workspace's path. */
import { withQuery } from "./kit/format.ts";

/** An email may contain slashes and percent signs. */
export function personPath(base: string, email: string): string {
  return `${base}/people/${encodeURIComponent(email)}`;
}

/** In the query, because an external id may be `.` or `..`, which a path would resolve. */
export function accountPath(base: string, externalId: string): string {
  return withQuery(`${base}/accounts/one`, { external_id: externalId });
}

export function signalPath(base: string, id: string): string {
  return `${base}/signals/${encodeURIComponent(id)}`;
}

export function groupPath(base: string, event: string, source: string): string {
  return withQuery(`${base}/signals/group`, { event, source });
}

export function rulePath(base: string, id: string): string {
  return `${base}/rules/${encodeURIComponent(id)}`;
}

export function destinationPath(base: string, id: string): string {
  return `${base}/settings/notifications/${encodeURIComponent(id)}`;
}

export function keyPath(base: string, id: string): string {
  return `${base}/settings/api-keys/${encodeURIComponent(id)}`;
}
