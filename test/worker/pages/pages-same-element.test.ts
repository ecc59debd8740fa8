/** Rules and exclusions whose conditions are about the same element of a list, from the forms and the operator API. */
import { beforeEach, expect, test } from "vitest";
import { deliver } from "../../support/deliver.ts";
import { unchangedFields } from "../../support/html.ts";
import { type Members, newMembers } from "../../support/members.ts";
import type { TestWorkspace } from "../../support/workspace.ts";

let workspace: TestWorkspace;
let members: Members;
let base: string;

beforeEach(async () => {
  members = await newMembers();
  ({ workspace } = members);
  base = `${members.home}/rules`;
});

type Row = [path: string, operator: string, value: string];
const KIND: Row = ["properties.items[].kind", "equals", "book"];
const PRICE: Row = ["properties.items[].price", "greater_than", "50"];

/** The fields of the form as a browser posts them. @param joined numbers of the rows whose box is checked. */
function fields(rows: readonly Row[], joined: number[], more: Record<string, string> = {}): [string, string][] {
  const form = {
    name: "Dear book",
    event: "Ordered",
    match: "all",
    scoring_signal: "book",
    points: "5",
    enabled: "on",
  };
  const conditions = rows.flatMap(([path, operator, value], index): [string, string][] => [
    ["path", path],
    ["operator", operator],
    ["value", value],
    ...(joined.includes(index) ? [["same_element", String(index)] as [string, string]] : []),
  ]);
  return [...Object.entries({ ...form, ...more }), ...conditions];
}

const order = (name: string, ...items: [kind: string, price: number][]) => ({
  event: "Ordered",
  email: `${name}@example.com`,
  properties: { items: items.map(([kind, price]) => ({ kind, price })) },
});
const ORDERS = [order("dear", ["pen", 1], ["book", 90]), order("cheap", ["pen", 80], ["book", 9])];

/** Scores by the name of the person, of the orders that are delivered now. */
async function scores(): Promise<Record<string, number>> {
  await deliver(
    workspace.id,
    ORDERS.map((payload, n) => ({ id: `sig_${n}`, payload })),
  );
  const people = await workspace.list<{ email: string; score: number }>("/people");
  return Object.fromEntries(people.map(({ email, score }) => [email.split("@")[0], score]));
}

interface Stored {
  id: string;
  conditions: object[];
}
const rules = () => workspace.list<Stored>("/rules");

test("a rule of the form scores what one element fits, and says so in words", async () => {
  const { location } = await members.admin.post(base, fields([KIND, PRICE], [1]));
  const [rule] = await rules();
  expect(rule?.conditions).toEqual([
    { path: "properties.items[].kind", operator: "equals", value: "book" },
    { path: "properties.items[].price", operator: "greater_than", value: 50, same_element: true },
  ]);
  const page = await members.member.read(location.split("?")[0] ?? "");
  expect(page.text).toContain("properties.items[].price is greater than 50 (same element as the condition before)");
  const preview = await members.admin.post(`${base}/preview`, fields([KIND, PRICE], [1]));
  expect(preview.text).toContain("Matches 0");
  expect(await scores()).toEqual({ dear: 5, cheap: 0 });
  expect((await members.admin.post(`${base}/preview`, fields([KIND, PRICE], [1]))).text).toContain("Matches 1");
});

test("a rule without it scores what several elements fit, and is stored without the field", async () => {
  await members.admin.post(base, fields([KIND, PRICE], []));
  const [rule] = await rules();
  expect(JSON.stringify(rule?.conditions)).not.toContain("same_element");
  expect(await scores()).toEqual({ dear: 5, cheap: 5 });
});

test("an exclusion covers what one element fits", async () => {
  await workspace.operator("POST", "/rules", { name: "Order", event: "Ordered", scoring_signal: "o", points: 5 });
  expect((await members.owner.post(`${base}/exclusions`, fields([KIND, PRICE], [1]))).status).toBe(303);
  expect(await scores()).toEqual({ dear: 0, cheap: 5 });
  expect((await members.member.read(`${base}/exclusions`)).text).toContain("(same element as the condition before)");
});

test("the form offers it from the second condition on, keeps it, and drops it with the condition above", async () => {
  const boxes = (page: Awaited<ReturnType<typeof members.admin.read>>) =>
    page.fields("same_element").map(({ value, isChecked }) => [value, isChecked]);
  const three = [KIND, PRICE, ["properties.items[].sku", "exists", ""] as Row];
  const { page } = await members.admin.post(base, fields(three, [1], { do: "add" }));
  expect(boxes(page)).toEqual([
    ["1", true],
    ["2", false],
    ["3", false],
  ]);
  const removed = await members.admin.post(base, fields([KIND, KIND, PRICE, PRICE], [2, 3], { do: "remove-1" }));
  expect(boxes(removed.page)).toEqual([
    ["1", false],
    ["2", true],
  ]);
  await members.admin.post(base, fields(three, [1, 2]));
  const [rule] = await rules();
  const edited = await members.admin.read(`${base}/${rule?.id}`);
  expect(
    (await members.admin.post(`${base}/${rule?.id}`, unchangedFields(edited.form(`${base}/${rule?.id}`)))).status,
  ).toBe(303);
  expect(await rules()).toEqual([rule]);
});

test("the form says at its field how to fix a path, and a blank condition breaks no group", async () => {
  const wrong = await members.admin.post(base, fields([KIND, ["properties.total", "equals", "1"]], [1]));
  expect([wrong.status, wrong.page.all("#condition-1-error").map(({ text }) => text)]).toEqual([
    422,
    [
      "It is about the same element as the condition before it: begin the path with “properties.items[]”, and write no further “[]”.",
    ],
  ]);
  expect(wrong.page.field("same_element").isChecked).toBe(true);
  const blank: Row = ["", "equals", ""];
  await members.admin.post(base, fields([blank, KIND, blank, PRICE, KIND], [1, 2, 3]));
  expect((await rules())[0]?.conditions).toEqual([
    { path: "properties.items[].kind", operator: "equals", value: "book" },
    { path: "properties.items[].price", operator: "greater_than", value: 50, same_element: true },
    { path: "properties.items[].kind", operator: "equals", value: "book" },
  ]);
});

test("versions show the change, and an import takes what an export gives", async () => {
  await members.admin.post(base, fields([KIND, PRICE], []));
  const [rule] = await rules();
  await members.admin.post(`${base}/${rule?.id}`, fields([KIND, PRICE], [1], { version: "1" }));
  const versions = await members.member.read(`${base}/${rule?.id}/versions`);
  expect(versions.text).toContain(
    "Condition added: properties.items[].price is greater than 50 (same element as the condition before)",
  );
  const items = await workspace.list<Stored>("/rules");
  const imported = () => workspace.operator("POST", "/rules/import", { items });
  expect(await imported()).toMatchObject({ items: [{ result: "unchanged" }] });
  await workspace.operator("POST", `/rules/${rule?.id}/versions/1/restore`);
  expect(await imported()).toMatchObject({ items: [{ result: "changed" }] });
  expect((await rules())[0]?.conditions).toEqual(items[0]?.conditions);
});
