/** The life of an API token in the browser: created, used, revoked. */
import type { Page } from "playwright-core";
import { expect, inject, test } from "vitest";
import { browserForFile, dismissed } from "./support/browser.ts";
import { newWorkspace, type TestWorkspace } from "./support/workspace.ts";

const { open } = browserForFile();

/** Creates a token with the scopes `read` and `export`, and returns it from the only page that shows it. */
async function newToken(page: Page, name: string): Promise<string> {
  await page.getByRole("link", { name: "Create API token" }).click();
  await page.getByLabel("Name", { exact: true }).fill(name);
  expect(await page.getByRole("checkbox", { name: "read" }).isChecked()).toBe(true);
  await page.getByRole("checkbox", { name: "export" }).check();
  await page.getByLabel("Expiration").selectOption("In 30 days");
  await page.getByRole("button", { name: "Create API token" }).click();
  return page.locator("#new-token").innerText();
}

async function statusOf(token: string, { id }: TestWorkspace, path: string, method = "GET"): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch(`${inject("origin")}/operator/workspaces/${id}/${path}`, { method, headers });
  await answer.body?.cancel();
  return answer.status;
}

test("the page of a new token asks before it is left, until the token is copied", async () => {
  const workspace = await newWorkspace("token-asks");
  const page = await open(workspace.owner, `${workspace.home}/settings/api-tokens`);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const asked = dismissed(page);
  const token = await newToken(page, "Nightly export");
  await page.getByRole("link", { name: "View all tokens" }).click();
  await expect.poll(() => asked).toEqual(["beforeunload"]);
  expect(await page.locator("#new-token").innerText()).toBe(token);
  await page.getByRole("button", { name: "Copy API token" }).click();
  await page.getByRole("link", { name: "View all tokens" }).click();
  await page.getByRole("row").filter({ hasText: "Nightly export" }).waitFor();
  expect(asked).toHaveLength(1);
});

test("an owner creates a token, calls the API with it, and revokes it", async () => {
  const workspace = await newWorkspace("tokens");
  const page = await open(workspace.owner, `${workspace.home}/settings/api-tokens`);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByText("No API tokens yet").waitFor();
  const token = await newToken(page, "Nightly export");
  await page.getByRole("button", { name: "Copy API token" }).click();
  await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe(token);
  expect(await page.locator("#token-curl").innerText()).toContain(token);
  const calls = () =>
    Promise.all([
      statusOf(token, workspace, "usage"),
      statusOf(token, workspace, "export/people"),
      statusOf(token, workspace, "rules", "POST"),
      statusOf(token, workspace, "tokens"),
    ]);
  expect(await calls()).toEqual([200, 200, 403, 403]);

  await page.getByRole("link", { name: "View all tokens" }).click();
  const row = page.getByRole("row").filter({ hasText: "Nightly export" });
  await expect
    .poll(async () => {
      await page.reload();
      return row.innerText();
    })
    .toContain("just now");
  expect(await page.content()).not.toContain(token);
  // The end of a token within a month stands out.
  const colour = (selector: string) =>
    page.evaluate<string>(`getComputedStyle(document.querySelector("tbody ${selector}")).color`);
  expect(await colour("small.warn")).not.toBe(await colour("th small"));

  const title = `Nightly export (${token.slice(0, 8)}…${token.slice(-4)})`;
  await row.getByLabel(`Actions for API token ${title}`).click();
  await page.getByLabel(`Revoke ${title}?`).click();
  const dialog = page.getByRole("dialog", { name: `Revoke ${title}?` });
  await dialog.getByText("cannot be undone").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  expect(await statusOf(token, workspace, "usage")).toBe(200);
  await row.getByLabel(`Actions for API token ${title}`).click();
  await page.getByLabel(`Revoke ${title}?`).click();
  await dialog.getByRole("button", { name: "Revoke token" }).click();
  await page.getByText("API token revoked.").waitFor();
  expect(await calls()).toEqual([401, 401, 401, 401]);
  expect(await row.innerText()).toContain("Revoked");
});

test("a token is created and revoked without JavaScript", async () => {
  const workspace = await newWorkspace("tokens-plain");
  const page = await open(workspace.owner, `${workspace.home}/settings/api-tokens`, { javaScriptEnabled: false });
  const token = await newToken(page, "Plain");
  expect(await statusOf(token, workspace, "usage")).toBe(200);
  await page.getByRole("link", { name: "View all tokens" }).click();
  await page.getByLabel(/^Actions for API token Plain/).click();
  await page.getByLabel(/^Revoke Plain/).click();
  await page.getByRole("button", { name: "Revoke token" }).click();
  await page.getByText("API token revoked.").waitFor();
  expect(await statusOf(token, workspace, "usage")).toBe(401);
});
