/** Mapping rules are copied, exported to another workspace, changed and restored. */
import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { browserForFile } from "./support/browser.ts";
import { overflow } from "./support/problems.ts";
import { FORM, newWorkspace, send, type TestWorkspace } from "./support/workspace.ts";

const browser = browserForFile();
const WIDTHS = [360, 390, 540, 768, 1024, 1280, 1440, 1920];

const RULE = {
  name: "Asked for a demo",
  event: "Filled Out Form",
  scoring_signal: "demo",
  points: 15,
  frequency: "once_ever",
  conditions: [{ path: "properties.form_name", operator: "contains", value: "demo" }],
};

const open = ({ owner, home }: TestWorkspace, at: string, options = {}) =>
  browser.open(owner, `${home}/rules${at}`, options);

const newRule = (workspace: TestWorkspace, more: object = {}) =>
  workspace.operator.post<{ id: string }>(`workspaces/${workspace.id}/rules`, { ...RULE, ...more });
const focused = (page: Page) => page.evaluate<string>("document.activeElement.id");
const proposed = (page: Page, list: string) =>
  page.evaluate<string[]>(`[...document.querySelectorAll("#${list} option")].map((option) => option.value)`);

test("a new rule focuses its name, and its suggestions follow the event while the user types", async () => {
  const workspace = await newWorkspace("proposed");
  const key = await workspace.newKey();
  for (const n of [1, 2]) await send(key, { ...FORM, properties: { form_name: "Demo", plan: `p${n}` } });
  await send(key, { ...FORM, event: "Ordered", properties: { total: 5 } });
  await expect.poll(() => workspace.score("jane@example.com")).toBe(0);
  const page = await open(workspace, "/new");
  await expect.poll(() => focused(page)).toBe("name");
  await expect
    .poll(async () => page.reload().then(() => proposed(page, "events")))
    .toEqual(["Filled Out Form", "Ordered"]);
  // The browser sets the focus with the first frame, after the page has loaded.
  await expect.poll(() => focused(page)).toBe("name");
  await page.keyboard.type("Ordered something");
  await page.getByLabel("Event", { exact: true }).fill("Ordered");
  await expect.poll(() => proposed(page, "paths")).toEqual(["event", "source", "email", "properties.total"]);
  await page.getByLabel("Points", { exact: true }).fill("many");
  await page.getByRole("button", { name: "Create rule" }).click();
  await page.getByRole("alert").waitFor();
  await expect.poll(() => focused(page)).toBe("scoring_signal");
  expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("Ordered something");
});

test.each([
  ["with a script where both paths have a list", "same-element", {}, [false, false, true]],
  ["without a script always", "plain-same-element", { javaScriptEnabled: false }, [true, true, true]],
])("a condition about the same element is offered %s, and is saved", async (_, slug, options, offered) => {
  const page = await open(await newWorkspace(slug), "/new", options);
  const box = page.getByRole("checkbox", { name: "Condition 2: about the same element as the condition above" });
  await page.getByLabel("Condition 1: path").fill("properties.items[].kind");
  await page.getByLabel("Condition 1: value").fill("book");
  const seen: boolean[] = [];
  await page.getByRole("button", { name: "Add condition" }).click();
  await page.getByLabel("Condition 2: path").waitFor();
  seen.push(await box.isVisible());
  await page.getByLabel("Condition 2: path").fill("properties.total");
  seen.push(await box.isVisible());
  await page.getByLabel("Condition 2: path").fill("properties.items[].price");
  seen.push(await box.isVisible());
  expect(seen).toEqual(offered);
  await box.check();
  await page.getByLabel("Condition 2: value").fill("50");
  for (const [label, text] of Object.entries({
    Name: "Book",
    Event: "Ordered",
    "Scoring signal": "book",
    Points: "5",
  })) {
    await page.getByLabel(label, { exact: true }).fill(text);
  }
  await page.getByRole("button", { name: "Create rule" }).last().click();
  await page.getByRole("heading", { name: "Book" }).waitFor();
  expect(await box.isChecked()).toBe(true);
});

test("a copy is saved as a second rule and applied to the past from the banner", async () => {
  const workspace = await newWorkspace("copied");
  const key = await workspace.newKey();
  await send(key, FORM);
  await expect.poll(() => workspace.score("jane@example.com")).toBe(0);
  const { id } = await newRule(workspace, { frequency: "every_time" });
  const page = await open(workspace, `/${id}`);
  const menu = page.getByRole("group").filter({ hasText: "Duplicate" }).locator("summary").first();
  await menu.click();
  await page.getByText("Delete", { exact: true }).click();
  const question = page.getByRole("dialog", { name: "Delete “Asked for a demo”?" });
  await question.waitFor();
  await page.keyboard.press("Escape");
  await question.waitFor({ state: "hidden" });
  await menu.click();
  await page.getByRole("link", { name: "Duplicate" }).click();
  await page.getByLabel("Enabled").check();
  await page.getByLabel("Points", { exact: true }).fill("4");
  await page.getByRole("button", { name: "Create rule" }).click();
  await page.getByRole("heading", { name: "Copy of Asked for a demo" }).waitFor();
  await page.getByRole("button", { name: "Apply to 1 past signal" }).click();
  await page.locator("#job").getByText("1 match.").waitFor();
  expect(await workspace.score("jane@example.com")).toBe(4);
  await page.getByRole("link", { name: "Mapping rules" }).first().click();
  await expect.poll(() => page.locator("tbody tr").count()).toBe(2);
});

test.each([
  ["with a script", "files", {}],
  ["without a script", "plain-files", { javaScriptEnabled: false }],
])("all rules are taken to another workspace as a file, shown first, %s", async (_, slug, options) => {
  const [source, target] = [await newWorkspace(slug), await newWorkspace(`${slug}-other`)];
  await newRule(source);
  await newRule(source, { name: "Second", enabled: false, frequency: "once_per_day" });
  await newRule(target, { points: 1 });
  const page = await open(source, "", options);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "Export" }).click(),
  ]);
  expect(download.suggestedFilename()).toBe(`${slug}-mapping-rules.json`);
  const buffer = await readFile(await download.path());
  expect(JSON.parse(buffer.toString())).toMatchObject({ items: [{ name: "Second" }, RULE] });

  const there = await open(target, "", options);
  await there.getByRole("link", { name: "Import" }).click();
  await there.getByLabel("File").setInputFiles({ name: "rules.json", mimeType: "application/json", buffer });
  await there.getByRole("button", { name: "Preview import" }).click();
  await there.getByText("Points: +1 → +15").waitFor();
  await there.getByRole("row", { name: "Second" }).getByText("Disabled").waitFor();
  await there.getByRole("button", { name: "Import 2 rules" }).click();
  await there.getByText("Rules imported. They apply from the next signal on.").waitFor();
  const rules = await target.operator.get<{ items: object[] }>(`workspaces/${target.id}/rules`);
  expect(rules.items).toMatchObject([
    { name: "Second", enabled: false, frequency: "once_per_day" },
    { ...RULE, version: 2 },
  ]);
});

test.each([
  ["with a script", "versions", {}],
  ["without a script", "plain-versions", { javaScriptEnabled: false }],
])("an earlier version of a rule is viewed and restored, %s", async (_, slug, options) => {
  const workspace = await newWorkspace(slug);
  const key = await workspace.newKey();
  const { id } = await newRule(workspace);
  await send(key, FORM);
  await expect.poll(() => workspace.score("jane@example.com")).toBe(15);
  const page = await open(workspace, `/${id}`, options);
  await page.getByLabel("Points", { exact: true }).fill("1");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Apply to 1 past signal" }).click();
  await expect.poll(() => workspace.score("jane@example.com")).toBe(1);
  await page.getByRole("link", { name: "Version 2" }).click();
  await page.getByText("Points: +15 → +1").waitFor();
  await page.getByRole("link", { name: "Version 1" }).click();
  await page.getByRole("button", { name: "Restore version 1" }).click();
  await page.getByText("Restored version 1 as version 3.").waitFor();
  await page.getByRole("button", { name: "Apply to 1 past signal" }).click();
  await expect.poll(() => workspace.score("jane@example.com")).toBe(15);
  await page.getByRole("link", { name: "Version 3" }).waitFor();
});

test("a long path of a condition is readable", async () => {
  const workspace = await newWorkspace("long-paths");
  const key = await workspace.newKey();
  await newRule(workspace, { event: "form_response_partial", frequency: "every_time", conditions: [] });
  const properties = { form_response: { definition: { title: "Contact sales" } } };
  await send(key, { event: "form_response_partial", email: "jane@customer.example", properties });
  await expect.poll(() => workspace.score("jane@customer.example")).toBe(15);

  const { items } = await workspace.operator.get<{ items: { id: string }[] }>(`workspaces/${workspace.id}/signals`);
  const page = await open(workspace, `/new?from=${items[0]?.id}`);
  const path = page.getByLabel("Condition 1: path");
  expect(await path.inputValue()).toBe("properties.form_response.definition.title");
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    const cut = await page.evaluate<number>(
      `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.getElementById("path-0"))`,
    );
    // A narrow screen has less room than this path needs, but shows most of it.
    expect(cut, `${width} pixels`).toBeLessThanOrEqual(width < 1280 ? 60 : 0);
  }
});

test("the preview of an exclusion follows its conditions, whether they are typed, added or removed", async () => {
  const workspace = await newWorkspace("follows");
  const key = await workspace.newKey();
  await newRule(workspace, { frequency: "every_time", conditions: [] });
  for (const email of ["ann@own.example", "bob@customer.example"]) await send(key, { ...FORM, email });
  await expect.poll(() => workspace.score("ann@own.example")).toBe(15);
  await expect.poll(() => workspace.score("bob@customer.example")).toBe(15);
  const staff = { name: "Own staff", conditions: [{ path: "email", operator: "ends_with", value: "@own.example" }] };
  await workspace.operator.call("PUT", `workspaces/${workspace.id}/exclusions`, { items: [staff] });
  const page = await open(workspace, "/exclusions");
  await page.getByRole("link", { name: "Own staff" }).first().click();
  const preview = page.locator("#preview");
  await preview.getByRole("row", { name: /ann@own.example.* 15 → 0/ }).waitFor();
  await page.getByLabel("Condition 1: value").fill("@customer.example");
  await preview.getByRole("row", { name: /bob@customer.example.* 15 → 0/ }).waitFor();
  expect(await preview.innerText()).not.toContain("ann@own.example");
  await page.getByLabel("Condition 1: value").fill("");
  await preview.getByText("Complete the conditions").waitFor();
  await page.getByLabel("Condition 1: value").fill("@own.example");
  await preview.getByRole("row", { name: /ann@own.example.* 15 → 0/ }).waitFor();
  await page.getByRole("button", { name: "Remove condition 1" }).click();
  await preview.getByText("Complete the conditions").waitFor();
});

test("the signals that an exclusion would cover fit their panel at every width", async () => {
  const workspace = await newWorkspace("long-events");
  const key = await workspace.newKey();
  await newRule(workspace, { event: "form_response_partial", frequency: "every_time", conditions: [] });
  await send(key, { event: "form_response_partial", email: "jane@customer.example" });
  await expect.poll(() => workspace.score("jane@customer.example")).toBe(15);
  const page = await open(workspace, "/exclusions/new");
  await page.getByLabel("Condition 1: path").fill("email");
  await page.getByLabel("Condition 1: comparison").selectOption({ label: "ends with" });
  await page.getByLabel("Condition 1: value").fill("@customer.example");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("Excluded: New exclusion").waitFor();
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    expect(await overflow(page), `${width} pixels`).toEqual([]);
  }
});
