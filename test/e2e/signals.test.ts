/** The pages show the signals of senders (spec §6.3, §8; design §1.3). */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { browserForFile } from "./support/browser.ts";
import { FORM, newWorkspace, send, type TestWorkspace } from "./support/workspace.ts";

const browser = browserForFile();
const open = ({ owner, home }: TestWorkspace, path: string) => browser.open(owner, home + path);

/** In a POSIX shell, as a reader would paste it. */
async function inShell(line: string): Promise<unknown> {
  const { stdout } = await promisify(execFile)("sh", ["-c", line]);
  return JSON.parse(stdout);
}

/** Reloads the page until it shows the text. */
async function reloadUntil(page: Page, text: string): Promise<void> {
  await expect
    .poll(async () => {
      await page.reload();
      return page.locator("main").innerText();
    })
    .toContain(text);
}

test("a signal goes from the page's curl command to the score on screen", async () => {
  const workspace = await newWorkspace("curl");
  const page = await open(workspace, "/rules/new");
  await page.getByLabel("Event", { exact: true }).fill("Filled Out Form");
  await page.getByLabel("Condition 1: path").fill("properties.form_name");
  await page.getByLabel("Condition 1: comparison").selectOption("contains");
  await page.getByLabel("Condition 1: value").fill("demo");
  await page.getByLabel("Scoring signal").fill("demo_requested");
  await page.getByLabel("Points", { exact: true }).fill("20");
  await page.getByLabel("Name", { exact: true }).fill("Asked for a demo");
  await page.getByRole("button", { name: "Create rule" }).click();
  await page.getByText("Rule created. It applies from the next signal on").waitFor();

  await page.goto(`${workspace.home}/settings/api-keys/new`);
  await page.getByLabel("Name", { exact: true }).fill("Website");
  await page.getByLabel("Shared secret").check();
  await page.getByRole("button", { name: "Create API key" }).last().click();
  const answer = await inShell((await page.locator("#curl-universal").textContent()) ?? "");
  expect(answer).toEqual({ status: "accepted", id: expect.stringMatching(/^sig_/) });

  await page.getByRole("link", { name: "Signal queue" }).click();
  await reloadUntil(page, "Filled Out Form");
  await page.getByRole("link", { name: "Filled Out Form" }).click();
  await page
    .locator(`a[href$="${(answer as { id: string }).id}"]`)
    .last()
    .click();
  const trace = page.locator("#trace");
  await trace.getByText("+20").first().waitFor();
  expect(await trace.innerText()).toContain("Asked for a demo");
  await trace.getByRole("link", { name: "jane@example.com" }).click();
  await page.getByRole("heading", { name: "jane@example.com" }).waitFor();
  expect(await page.locator(".stat").first().innerText()).toMatch(/Score\s+20/);
});

test("each curl command of the page works, and none does after the key is deactivated", async () => {
  const workspace = await newWorkspace("curls");
  const page = await open(workspace, "/settings/api-keys/new");
  await page.getByLabel("Name", { exact: true }).fill("O'Neill's key");
  await page.getByRole("button", { name: "Create API key" }).last().click();
  await page.locator("#new-key").waitFor();
  const lines = await page.locator('pre[id^="curl-"]').allTextContents();
  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) expect(await inShell(line)).toMatchObject({ status: "accepted" });

  // A sender learns of the deactivation with its next call.
  await page.getByRole("link", { name: "View all keys" }).click();
  await page.getByLabel(/^Actions for API key O'Neill's key/).click();
  await page.getByLabel(/^Deactivate O'Neill's key .*\?$/).click();
  await page.getByRole("dialog").getByRole("button", { name: "Deactivate" }).click();
  await page.getByText("API key deactivated.").waitFor();
  for (const line of lines) expect(await inShell(line)).toMatchObject({ status: 401, code: "unauthorized" });
  await page.getByRole("link", { name: "Rejections" }).click();
  await reloadUntil(page, "O'Neill's key");
});

test("a rule is pre-filled from a signal, previewed, and applied to stored signals", async () => {
  const workspace = await newWorkspace("prefilled");
  const key = await workspace.newKey();
  for (const email of ["jane@example.com", "joe@example.com"]) await send(key, { ...FORM, email });
  await send(key, { ...FORM, email: "ann@example.com", properties: { form_name: "Newsletter" } });
  // The first signal is recorded some seconds before the others.
  await expect.poll(() => workspace.score("ann@example.com")).toBe(0);
  const page = await open(workspace, "/signals");
  await reloadUntil(page, "Filled Out Form");
  await page.getByRole("link", { name: "Filled Out Form" }).click();
  await page.getByText("joe@example.com").first().waitFor();
  await page.getByRole("row", { name: "joe@example.com" }).getByRole("link").last().click();
  await page.getByRole("link", { name: "Create mapping rule" }).click();

  const condition = page.locator(".condition");
  const typed = async (field: string) =>
    (await condition.locator(`[name=${field}]`).all()).map((input) => input.inputValue());
  const paths = await Promise.all(await typed("path"));
  expect(paths).toContain("properties.form_name");
  expect((await Promise.all(await typed("value")))[paths.indexOf("properties.form_name")]).toBe("Demo request");
  await page.getByLabel("Scoring signal").fill("demo_requested");
  await page.getByLabel("Points", { exact: true }).fill("15");
  // The preview follows the typed input.
  await page.locator("#preview").getByText("+30").waitFor();
  await page.getByLabel("How often").selectOption("once_ever");
  await page.locator("#preview .stat", { hasText: /Scored\s*2/ }).waitFor();
  await page.getByLabel("Name", { exact: true }).fill("Asked for a demo");
  await page.getByRole("button", { name: "Create rule" }).click();

  await page.locator("summary, button", { hasText: "Apply to 2 past signals" }).click();
  await expect.poll(() => workspace.score("joe@example.com")).toBe(15);
  expect(await workspace.score("ann@example.com")).toBe(0);
  // By itself.
  await page.locator("#job").getByText("2 matches").waitFor();

  // Once ever: a person who has scored does not score again, and the trace says why.
  await send(key, { ...FORM, email: "joe@example.com", properties: { ...FORM.properties, again: true } });
  await page.getByRole("link", { name: "Signal queue" }).click();
  await page.getByRole("link", { name: "Filled Out Form" }).click();
  const joes = page.getByRole("row", { name: "joe@example.com" });
  await expect.poll(async () => page.reload().then(() => joes.count())).toBe(2);
  await joes.first().getByRole("link").last().click();
  await page.locator("#trace").getByText("already scored").waitFor();
  expect(await workspace.score("joe@example.com")).toBe(15);
});

test("signals beyond the limit are held; once overages are enabled they are released and score", async () => {
  const workspace = await newWorkspace("held", 2);
  const key = await workspace.newKey();
  const rule = { name: "Form", event: "Filled Out Form", scoring_signal: "form", points: 10 };
  await workspace.operator.post(`workspaces/${workspace.id}/rules`, rule);
  for (const at of [1, 2, 3, 4]) await send(key, { ...FORM, properties: { at } });
  expect(await send(key, { ...FORM, properties: { at: 5 } })).toBe(429);
  await expect.poll(() => workspace.score("jane@example.com")).toBe(20);
  const page = await open(workspace, "/signals");
  // The queue may deliver the held signals to the store after the accepted ones.
  await reloadUntil(page, "Held 2");
  await page.goto(`${workspace.home}/usage/plan`);
  await page.locator("summary", { hasText: "Enable overages" }).click();
  const question = page.getByRole("dialog");
  expect(await workspace.score("jane@example.com")).toBe(20);
  await question.getByRole("button", { name: "Enable overages and release 2" }).click();
  await page.getByText("Changed. The held signals are released").waitFor();
  await expect.poll(() => workspace.score("jane@example.com")).toBe(40);
  expect(await send(key, { ...FORM, properties: { at: 6 } })).toBe(202);
});

test("the page of somebody whom only held signals name lists these signals", async () => {
  const workspace = await newWorkspace("held-only", 1);
  const key = await workspace.newKey();
  for (const email of ["jane@example.com", "joe@example.com"]) expect(await send(key, { ...FORM, email })).toBe(202);
  await expect.poll(() => workspace.score("jane@example.com")).toBe(0);
  const page = await open(workspace, "/signals");
  await reloadUntil(page, "Held 1");
  await page.getByRole("link", { name: "Held 1" }).click();
  await page.getByRole("cell", { name: "joe@example.com" }).waitFor();
  expect(await page.getByRole("link", { name: "joe@example.com", exact: true }).count()).toBe(0);

  await page.goto(`${workspace.home}/people/joe@example.com`);
  const main = page.locator("main");
  await main.getByText("No processed signal names joe@example.com yet.").waitFor();
  expect(await main.innerText()).not.toContain("deleted");
  await main.getByRole("link", { name: "Filled Out Form" }).click();
  await page.locator("#trace").getByText("Held: signal 2 of 1").waitFor();

  await page.goto(`${workspace.home}/people/ann@example.com`);
  await main.getByText("No processed signal names ann@example.com yet.").waitFor();
  expect(await main.getByRole("table").count()).toBe(0);
});

test("the live page shows arriving signals, filters them and pauses", async () => {
  const workspace = await newWorkspace("live");
  const key = await workspace.newKey();
  const page = await open(workspace, "/live");
  await page.getByText("Live", { exact: true }).locator("visible=true").last().waitFor();
  const rows = page.locator("tbody tr:visible");
  await page.locator("#live-state", { hasText: /^Live$/ }).waitFor();
  expect(await rows.count()).toBe(0);
  await send(key, FORM);
  await rows.filter({ hasText: "jane@example.com" }).waitFor();
  expect(await send(key, { email: "jane@example.com" })).toBe(422);
  await rows.filter({ hasText: "Rejected" }).waitFor();

  await page.getByRole("searchbox", { name: "Filter by event" }).fill("website");
  await expect.poll(() => rows.allInnerTexts()).toEqual([expect.stringContaining("Filled Out Form")]);
  await page.getByRole("button", { name: "Pause" }).click();
  await send(key, { ...FORM, email: "joe@example.com" });
  expect(await rows.count()).toBe(1);
  await page.getByRole("button", { name: "Resume" }).click();
  await expect
    .poll(() => rows.allInnerTexts())
    .toEqual([expect.stringContaining("joe@"), expect.stringContaining("jane@")]);
  await rows.first().getByRole("link", { name: "Filled Out Form" }).click();
  await page.locator("#trace").getByText("joe@example.com").first().waitFor();

  // After Back, no filter is shown above unfiltered rows.
  await page.goBack();
  await expect.poll(() => rows.count()).toBe(3);
  expect(await page.getByRole("searchbox", { name: "Filter by event" }).inputValue()).toBe("");
});
