/** The deletion of a person over HTTP. deletion-parts.test.ts tests it in the store. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { DELETION_REMEMBERED_DAYS } from "../../../../src/limits.ts";
import { ring, ringUntilQuiet } from "../../../support/cold.ts";
import { DAY, deliver } from "../../../support/deliver.ts";
import { until } from "../../../support/until.ts";
import { newWorkspace } from "../../../support/workspace.ts";

const JANE = "jane.doe@example.com";

test("a deletion has a receipt until its names are forgotten, and an audit entry without personal data", async () => {
  const workspace = await newWorkspace();
  const rule = { name: "R", event: "E", match: "all", conditions: [], scoring_signal: "s", points: 5 };
  await workspace.operator("POST", "/rules", rule);
  const deletePerson = (email: string) =>
    workspace.operator<{ id: string }>("DELETE", `/people/${encodeURIComponent(email)}`);
  const receipt = () => workspace.operator("GET", `/people/${JANE}/deletion`);
  await expect(receipt()).rejects.toThrow("404");

  await deliver(workspace.id, [{ id: "sig_1", payload: { event: "E", email: JANE }, at: Date.now() - 60_000 }]);
  const { id } = await deletePerson(JANE);
  const audited = env.DB.prepare("SELECT actor, action, detail FROM audit_log WHERE target = ?").bind(id).first();
  expect(await audited).toEqual({ actor: "operator", action: "person.deleted", detail: "{}" });
  expect(await receipt()).toMatchObject({ id, people: 1, signals: 1, scoring_signals: 1, complete: true });
  const left = { status: "processed", event: "E", deleted_at: expect.stringMatching(/Z$/) };
  const hidden = { email: null, person: null, points: 0, payload: null };
  expect(await workspace.operator("GET", "/signals/sig_1")).toMatchObject({ ...left, ...hidden });

  const nothing = { people: 0, signals: 0, complete: true };
  await deletePerson(` ${JANE.toUpperCase()} `);
  await ringUntilQuiet(workspace.id);
  await until(async () => expect(await receipt()).toMatchObject({ email: JANE, ...nothing }));
  expect(await deletePerson("nobody@example.com")).toMatchObject(nothing);

  const forgottenMs = (DELETION_REMEMBERED_DAYS + 1) * DAY;
  const query = (text: string, ...bindings: number[]) =>
    runInDurableObject(workspace.store, (_, { storage: { sql } }) => sql.exec(text, ...bindings).toArray());
  await query("UPDATE deletions SET finished_at = finished_at - ?", forgottenMs);
  await ring(workspace.id);
  expect(await query("SELECT * FROM deleted_names")).toEqual([]);
  await expect(receipt()).rejects.toThrow("404");
});

test("a deletion leaves no trait name of a group call, which may name the person, also of its duplicate", async () => {
  const workspace = await newWorkspace();
  const context = { traits: { email: JANE } };
  const payload = { type: "group", groupId: "acme", messageId: "m-1", context, traits: { [JANE]: "owner" } };
  await deliver(workspace.id, [
    { id: "sig_1", payload },
    { id: "sig_2", payload },
  ]);
  const problemsOf = async (id: string) => (await workspace.store.signal(id))?.problems;
  expect(await problemsOf("sig_1")).toMatchObject({ traits: expect.stringContaining(JANE) });
  await workspace.store.deletePerson("del_1", JANE);
  expect([await problemsOf("sig_1"), await problemsOf("sig_2")]).toEqual([{}, {}]);
});
