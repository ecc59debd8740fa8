/** The main flows without JavaScript. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { browserForFile } from "./support/browser.ts";
import { FORM, newWorkspace, send } from "./support/workspace.ts";

const { open } = browserForFile();

const signInPlain = (email: string, to: string) => open(email, to, { javaScriptEnabled: false });
const submit = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click();

test("the button that takes a sender is as wide as its text", async () => {
  const { home, owner } = await newWorkspace("plain-sender");
  const page = await signInPlain(owner, `${home}/settings/api-keys/new`);
  const [button, field] = await Promise.all([
    page.getByRole("button", { name: "Use this sender" }).boundingBox(),
    page.getByLabel("Who sends?").boundingBox(),
  ]);
  expect(button?.width).toBeLessThan((field?.width ?? 0) / 2);
});

test("a key with a payload template is created, used and deactivated", async () => {
  const { id, home, owner, operator } = await newWorkspace("plain-key");
  const page = await signInPlain(owner, `${home}/settings/api-keys/new`);
  await page.getByLabel("Name", { exact: true }).fill("Product database");
  await page.getByLabel("Product Org Updates").check();
  await page.getByLabel("Sample payload").fill('{ "company": { "id": "acct-1", "name": "Initech" } }');
  await submit(page, "Propose mappings");
  await page.getByText("acct-1").last().waitFor();
  await page.getByRole("button", { name: "Create API key" }).last().click();
  const url = await page.locator("#url-product-orgs").innerText();
  const account = JSON.stringify({ company: { id: "acct-1", name: "Initech" } });
  expect((await fetch(url, { method: "POST", body: account })).status).toBe(202);
  await expect
    .poll(() => operator.get(`workspaces/${id}/accounts?external_id=acct-1`))
    .toMatchObject({ items: [{ name: "Initech" }] });

  await page.getByRole("link", { name: "View all keys" }).click();
  await page.getByLabel(/^Actions for API key Product database/).click();
  await page.getByText("Deactivate", { exact: true }).first().click();
  await submit(page, "Deactivate");
  await page.getByText("API key deactivated.").waitFor();
  expect((await fetch(url, { method: "POST", body: account })).status).toBe(401);
});

test("a rule gets a second condition, is previewed, and keeps its input after an error", async () => {
  const workspace = await newWorkspace("plain-rule");
  const key = await workspace.newKey();
  await send(key, FORM);
  await send(key, { ...FORM, source: "event-app" });
  await expect.poll(() => workspace.score("jane@example.com")).toBe(0);
  const page = await signInPlain(workspace.owner, `${workspace.home}/rules/new`);
  await page.getByLabel("Event", { exact: true }).fill("Filled Out Form");
  await page.getByLabel("Condition 1: path").fill("properties.form_name");
  await page.getByLabel("Condition 1: value").fill("demo request");
  await submit(page, "Add condition");
  await page.getByLabel("Condition 2: path").fill("source");
  await page.getByLabel("Condition 2: value").fill("website");
  await page.getByLabel("Points", { exact: true }).fill("7");
  await submit(page, "Preview");
  await page.locator("#preview").getByText("+7", { exact: true }).first().waitFor();
  await submit(page, "Create rule");
  // The form is rejected, because it has neither a name nor a scoring signal yet.
  await page.getByRole("alert").waitFor();
  expect(await page.getByLabel("Condition 2: value").inputValue()).toBe("website");
  await page.getByLabel("Scoring signal").fill("demo_requested");
  await page.getByLabel("Name", { exact: true }).fill("Asked for a demo");
  await submit(page, "Create rule");
  await page.getByText("Rule created. It applies from the next signal on.").waitFor();

  await page.getByText("Apply to past signals").click();
  await submit(page, "Apply");
  await expect.poll(() => workspace.score("jane@example.com")).toBe(7);
});

test("the live page has a link to refresh it", async () => {
  const workspace = await newWorkspace("plain-live");
  const key = await workspace.newKey();
  const page = await signInPlain(workspace.member, `${workspace.home}/live?text=jane`);
  await page.getByText("No rows match these filters yet").waitFor();
  await send(key, FORM);
  await send(key, { ...FORM, email: "joe@example.com" });
  await expect.poll(() => workspace.score("joe@example.com")).toBe(0);
  await page.getByRole("link", { name: "Refresh" }).click();
  await page.getByRole("cell", { name: "jane@example.com" }).waitFor();
  expect(await page.getByRole("cell", { name: "joe@example.com" }).count()).toBe(0);
});

test("people are found by any part of their company, and an empty filter result can be cleared", async () => {
  const workspace = await newWorkspace("plain-people");
  const key = await workspace.newKey();
  for (const name of ["jane", "joe"]) {
    await send(key, { ...FORM, email: `${name}@example.com`, properties: { company: `Café ${name} GmbH` } });
  }
  await expect.poll(() => workspace.score("joe@example.com")).toBe(0);
  const page = await signInPlain(workspace.member, `${workspace.home}/people`);
  const filtered = async (label: string, fill: () => Promise<unknown>, button: string) => {
    if (button === "Apply") await page.getByText("Filter", { exact: true }).click();
    await fill();
    await submit(page, button);
    await page.getByRole("link", { name: `Remove filter ${label}` }).waitFor();
  };
  await filtered("Search: CAFE J", () => page.getByLabel("Search email, name or company").fill("CAFE J"), "Search");
  expect(await page.getByRole("rowheader").count()).toBe(2);
  await filtered("Score at least: 5", () => page.getByLabel("Score at least").fill("5"), "Apply");
  await page.getByText("No people match these filters").waitFor();
  await page.getByRole("link", { name: "Remove filter Score at least: 5" }).click();
  expect(await page.getByRole("rowheader").count()).toBe(2);
});

test("a member is changed and removed by questions that open in the page", async () => {
  const { home, owner, member } = await newWorkspace("plain-members");
  const page = await signInPlain(owner, `${home}/settings/members`);
  const ask = async (question: string) => {
    await page.getByLabel(`Actions for ${member}`).click();
    await page.getByLabel(question).click();
  };
  await ask(`Change the role of ${member}`);
  await page.locator(`[id="role-${member}-admin"]`).check();
  await submit(page, "Save role");
  await page.getByText("Role changed.").waitFor();
  await ask(`Remove ${member}?`);
  await page.getByRole("button", { name: "Remove member" }).locator("visible=true").click();
  await page.getByText("Member removed.").waitFor();
  expect(await page.getByRole("rowheader").allInnerTexts()).not.toContain(member);
});
