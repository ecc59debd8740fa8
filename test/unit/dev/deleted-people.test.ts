import { expect, test } from "vitest";
import { deletedPeople } from "../../../src/dev/workspace-file.ts";

test("a list of deleted people has a hash a line", () => {
  expect(deletedPeople("hash-1\nhash-2\n", "ws_1")).toEqual(["hash-1", "hash-2"]);
  expect(deletedPeople("", "ws_1")).toEqual([]);
});

test("the nightly backup of the table deletions is such a list: those of the workspace, not of others", () => {
  const row = (id: string, workspace: string) => ({ id, workspace_id: workspace, email_hash: `hash-${id}` });
  const results = [row("1", "ws_1"), row("2", "ws_2"), row("3", "ws_1")];
  const printed = JSON.stringify([{ results, success: true, meta: { duration: 0 } }], null, 2);
  expect(deletedPeople(printed, "ws_1")).toEqual(["hash-1", "hash-3"]);
  expect(deletedPeople(printed, "ws_3")).toEqual([]);
});
