import { expect, test } from "vitest";
import { deletedPeople } from "../../../src/dev/workspace-file.ts";

const NOON = "2026-11-22T12:00:00.000Z";
const exportOf = (id: string) => ({ workspace: { id, slug: "acme" }, exportedAtMs: Date.parse(NOON) });

test("a list of deleted people has a hash a line", () => {
  expect(deletedPeople("hash-1\nhash-2\n", exportOf("ws_1"))).toEqual(["hash-1", "hash-2"]);
  expect(deletedPeople("", exportOf("ws_1"))).toEqual([]);
});

test("the nightly backup of the table deletions is such a list: those of the workspace since its export", () => {
  const row = (id: string, workspace: string, requested: string) => ({
    id,
    workspace_id: workspace,
    requested_at: requested,
    email_hash: `hash-${id}`,
  });
  const results = [
    row("1", "ws_1", NOON),
    row("2", "ws_2", "2026-11-23T00:00:00.000Z"),
    row("3", "ws_1", "2026-11-22T11:59:59.999Z"),
    row("4", "ws_1", "2026-11-24T00:00:00.000Z"),
  ];
  const printed = JSON.stringify([{ results, success: true, meta: { duration: 0 } }], null, 2);
  expect(deletedPeople(printed, exportOf("ws_1"))).toEqual(["hash-1", "hash-4"]);
  expect(deletedPeople(`A newer version is available.\n${printed}`, exportOf("ws_2"))).toEqual(["hash-2"]);
  expect(deletedPeople(printed, exportOf("ws_3"))).toEqual([]);
});
