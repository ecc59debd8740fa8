/**
 * The pages of a mapping rule's versions: the changes of each, and restoring a version, also for past signals.
 */
import { beforeEach, expect, test } from "vitest";
import { deliver } from "../../support/deliver.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { until } from "../../support/until.ts";

let members: Members;
let path: string;
let id: string;

beforeEach(async () => {
  members = await newMembers();
  const created = await members.workspace.operator<{ id: string }>("POST", "/rules", {
    name: "Asked for a demo",
    event: "Filled Out *",
    conditions: [{ path: "properties.form", operator: "equals", value: "demo" }],
    scoring_signal: "demo",
    points: 20,
  });
  ({ id } = created);
  path = `${members.home}/rules/${id}`;
});

const patch = (change: object) => members.workspace.operator("PATCH", `/rules/${id}`, change);
const rule = () => members.workspace.operator("GET", `/rules/${id}`);
const scores = async () => (await members.workspace.list<{ score: number }>("/people")).map(({ score }) => score);

test("the versions of a rule show the change, the person and the time", async () => {
  await patch({ points: 25, frequency: "once_per_day", points_last_days: 90, match: "any" });
  const form = { name: "<b>Demo</b>", event: "Filled Out *", match: "any", scoring_signal: "demo", points: "25" };
  await members.admin.post(path, {
    ...form,
    frequency: "once_per_day",
    points_last_days: "365",
    enabled: "on",
    version: "2",
  });
  await members.owner.post(`${path}/disable`);
  const page = await members.member.read(`${path}/versions`);
  const text = page.text.replace(/ \d+ \w+ ago| just now/g, " now");
  for (const expected of [
    `Version 4 (current) now By ${members.owner.email} Enabled: yes → no`,
    `Version 3 now By ${members.admin.email} Name: Asked for a demo → <b>Demo</b> Condition removed: properties.form is demo Points count: for 90 days → for 365 days`,
    "Version 2 now By the operator Match: all conditions → any condition Points: +20 → +25 How often: each time → once a day (UTC) Points count: always → for 90 days",
    "Version 1 now By the operator Rule created",
  ])
    expect(text).toContain(expected);
  expect(page.all("main b")).toHaveLength(0);
  const rulePage = await members.member.read(path);
  expect(rulePage.text).toContain(`by ${members.owner.email}`);
  expect(rulePage.targets).toContain(`${path}/versions`);
});

test("a new order of conditions is shown with what has moved", async () => {
  const conditions = ["a", "b", "c"].map((name) => ({ path: `properties.${name}`, operator: "exists" }));
  await patch({ conditions });
  const [a, b, c] = conditions;
  await patch({ conditions: [c, a, b] });
  const { text } = await members.member.read(`${path}/versions`);
  expect(text).toContain("By the operator Condition moved from place 3 to 1: properties.c exists Version 2");
  const activity = await members.owner.read(`${members.home}/settings/activity?action=rule.updated`);
  expect(activity.rows[0]?.text).toContain("Conditions: order changed");
});

test("a large change of a rule is shown with its beginning", async () => {
  const value = Array.from({ length: 200 }, (_, n) => `value-${n}`);
  await patch({ conditions: Array.from({ length: 12 }, (_, n) => ({ path: `properties.p${n}`, operator: "exists" })) });
  await patch({ conditions: [{ path: "source", operator: "in", value }] });
  const { text } = await members.member.read(`${path}/versions`);
  expect(text).toContain("Condition added: 2 more");
  expect(text).toContain("value-9 and 190 more");
  expect(text).not.toContain("value-10");
  expect((await members.member.read(`${path}/versions/3`)).text).toContain("value-199");
});

test("a version shows the rule's content and the effect of restoring", async () => {
  await patch({ points: 25, enabled: false });
  const page = await members.member.read(`${path}/versions/1`);
  expect(page.text).toContain(
    "Enabled Event Filled Out * Match all conditions Conditions properties.form is demo Scoring signal demo Points +20",
  );
  expect(page.text).toContain("Restoring creates version 3 with these changes: Points: +25 → +20 Enabled: no → yes");
  const present = await members.admin.read(`${path}/versions/2`);
  expect(present.text).toContain("This is the current version.");
  expect(present.text).not.toContain("Restore version");
  expect(present.forms(/restore$/)).toEqual([]);
  for (const missing of ["versions/3", "versions/0", "versions/x"])
    expect((await members.admin.get(`${path}/${missing}`)).status, missing).toBe(404);
});

test("restoring creates a new version of the rule; applied to the past it restores the scores", async () => {
  await patch({ conditions: [] });
  await deliver(members.workspace.id, [
    { id: "sig_1", ordinal: 1, payload: { event: "Filled Out Form", email: "a@example.com", properties: {} } },
  ]);
  await patch({ points: 5 });
  const apply = async (points: number) => {
    await members.admin.post(`${path}/apply`);
    await until(async () => expect(await scores()).toEqual([points]));
  };
  await apply(5);
  const answer = await members.admin.post(`${path}/versions/2/restore`, { version: "3" });
  expect([answer.status, answer.location]).toEqual([303, `${path}?done=rule_restored&restored=2`]);
  expect((await members.admin.read(answer.location)).text).toContain("Restored version 2 as version 4.");
  expect(await rule()).toMatchObject({ version: 4, points: 20, conditions: [], updated_by: members.admin.email });
  expect(await scores()).toEqual([5]);
  await apply(20);
  const activity = await members.admin.read(`${members.home}/settings/activity?action=rule.updated`);
  expect(activity.rows[0]?.text).toContain("Restored version: 2");
});

test("a person who saw an outdated version sees the rule again, and nothing changes", async () => {
  await patch({ points: 25 });
  await patch({ points: 30 });
  const { status, page } = await members.admin.post(`${path}/versions/1/restore`, { version: "2" });
  expect(status).toBe(409);
  expect(page.text).toContain("Nothing was restored: the rule has changed");
  expect(page.text).toContain("Points: +30 → +20");
  expect(await rule()).toMatchObject({ version: 3, points: 30 });
  // The page names the current version, so that a second attempt succeeds.
  expect(page.field("version").value).toBe("3");
});
