/** The part of Destinations in the file of a workspace: who gets what, without secrets, states and waiting notifications. */
import type { CustomHeader } from "../domain/notifications/custom-header.ts";
import type { NotificationType } from "../domain/notifications/notification.ts";
import type { DestinationType } from "../domain/notifications/destination.ts";
import { type FileRow, type TableLine, textIn, toFile } from "../platform/table-rows.ts";
import { type Confirmation, NO_FAILURES, type StoredDestination } from "./roster.ts";

const SELECTS = {
  settings: "SELECT * FROM settings WHERE name IN ('thresholds', 'account_thresholds') ORDER BY name",
  destinations: `SELECT id, name, type, target, notifications, headers, created_ms, confirmation IS NULL AS confirmed
    FROM destinations ORDER BY id`,
  key_notices: "SELECT * FROM key_notices ORDER BY key_id, notice",
  deleted_people: "SELECT * FROM deleted_people ORDER BY email_hash",
};

export function fileRowsOf(sql: SqlStorage): TableLine[] {
  return Object.entries(SELECTS).flatMap(([table, select]) =>
    sql
      .exec(select)
      .toArray()
      .map((row) => ({ table, row: table === "destinations" ? withoutValues(toFile(row)) : toFile(row) })),
  );
}

function withoutValues(row: FileRow): FileRow {
  const headers = JSON.parse(textIn(row, "headers")) as CustomHeader[];
  return { ...row, headers: JSON.stringify(headers.map(({ name }) => ({ name, value: "" }))) };
}

/** A code that nobody knows: the address gets a new one by a test. */
const NO_CODE: Confirmation = { code: "", endsMs: 0, triesLeft: 0 };

export function importedDestination(
  row: FileRow,
  { pagesUrl, secret }: { pagesUrl: string; secret: string },
): StoredDestination {
  const type = textIn(row, "type") as DestinationType;
  return {
    id: textIn(row, "id"),
    name: textIn(row, "name"),
    type,
    target: textIn(row, "target"),
    notifications: JSON.parse(textIn(row, "notifications")) as NotificationType[],
    headers: JSON.parse(textIn(row, "headers")) as CustomHeader[],
    pagesUrl,
    state: "paused",
    disabledReason: null,
    createdMs: Number(row["created_ms"]),
    secret: type === "webhook" ? secret : null,
    confirmation: row["confirmed"] === 1 ? null : NO_CODE,
    deliveredMs: null,
    dropped: 0,
    ...NO_FAILURES,
  };
}
