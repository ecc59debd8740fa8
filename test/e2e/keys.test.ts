/** Spec §2.1, §3.1: the life of a key in the browser. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { browserForFile, dismissed, launch, newContext, signIn } from "./support/browser.ts";
import { FORM, newWorkspace, send, type TestWorkspace } from "./support/workspace.ts";

const browser = browserForFile();
const open = ({ home }: TestWorkspace, email: string, options = {}) =>
  browser.open(email, `${home}/settings/api-keys`, options);

const create = (page: Page) => page.getByRole("button", { name: "Create API key" }).last();

async function formOf(page: Page, { home }: TestWorkspace, name: string): Promise<void> {
  await page.goto(`${home}/settings/api-keys/new`);
  await page.getByLabel("Name", { exact: true }).fill(name);
}

/** The full key, from the only page that shows it. */
async function newKey(page: Page, workspace: TestWorkspace, name: string): Promise<string> {
  await formOf(page, workspace, name);
  await create(page).click();
  return page.locator("#new-key").innerText();
}

test("the email in the details of a key stays whole where a line has room for it, and else breaks before its domain", async () => {
  const workspace = await newWorkspace("bymail");
  const page = await open(workspace, workspace.owner);
  await newKey(page, workspace, "Shop");
  await page.getByRole("link", { name: "I have copied it" }).click();
  await page.getByRole("heading", { level: 1, name: "Shop" }).waitFor();
  for (const width of [360, 400, 500, 768, 1_000, 1_200, 1_440]) {
    await page.setViewportSize({ width, height: 900 });
    const shown = await page.evaluate<{ lines: string[][]; fits: boolean }>(`
      (() => {
        const email = document.querySelector("dd .email");
        const lines = [...email.childNodes].map((node) => {
          const content = document.createRange();
          content.selectNodeContents(node);
          return [...new Set([...content.getClientRects()].map(({ top }) => Math.round(top)))].map(String);
        });
        const copy = email.cloneNode(true);
        copy.style.cssText = "position: absolute; white-space: nowrap; max-width: none";
        document.body.append(copy);
        const fits = copy.offsetWidth <= email.closest("dd").clientWidth;
        copy.remove();
        return { lines, fits };
      })()
    `);
    expect(
      shown.lines.map((tops) => tops.length),
      `${width} pixels`,
    ).toEqual([1, 1]);
    if (shown.fits) expect(shown.lines[0], `${width} pixels`).toEqual(shown.lines[1]);
  }
});

const rowOf = (page: Page, name: string) => page.getByRole("row").filter({ hasText: name });

async function names(page: Page, { home }: TestWorkspace): Promise<string[]> {
  await page.goto(`${home}/settings/api-keys`);
  const cells = await page.locator("tbody th").allInnerTexts();
  return cells.map((text) => text.replace(/\s*sk_\S+$/, ""));
}

test("the page of a new key asks before it is left, until the key is copied, and shows a sender's code by its tab", async () => {
  const workspace = await newWorkspace("asks-before");
  const page = await open(workspace, workspace.admin);
  const asked = dismissed(page);
  const key = await newKey(page, workspace, "Shop");
  const python = page.locator("pre", { hasText: "import" }).filter({ hasText: key });
  expect(await python.first().isVisible()).toBe(false);
  await page.getByText("Python", { exact: true }).click();
  await python.locator("visible=true").first().waitFor();
  await page.getByRole("link", { name: "View all keys" }).click();
  await expect.poll(() => asked).toEqual(["beforeunload"]);
  expect(await page.locator("#new-key").innerText()).toBe(key);
  await page.getByRole("link", { name: "I have copied it" }).click();
  await page.getByRole("heading", { level: 1, name: "Shop" }).waitFor();
  expect(asked).toHaveLength(1);
});

test("an admin creates, uses and rotates a key, an owner deactivates it, and a member sees none of it", async () => {
  const workspace = await newWorkspace("life");
  const page = await open(workspace, workspace.admin);
  await page.getByText("No API keys yet").waitFor();
  const first = await newKey(page, workspace, "Website");
  expect(first).toMatch(/^sk_[0-9A-Za-z]{40}$/);
  expect(await send(first, FORM)).toBe(202);

  await page.getByRole("link", { name: "View all keys" }).click();
  const row = rowOf(page, "Website");
  expect(await row.innerText()).toContain("Active");
  expect(await row.innerText()).toContain(`${first.slice(0, 8)}…${first.slice(-4)}`);
  expect(await row.innerText()).toMatch(/just now|minutes? ago/);
  expect(await page.content()).not.toContain(first);

  await row.getByLabel(/^Actions for API key Website/).click();
  await row.getByRole("link", { name: "Rotate" }).click();
  await page.getByLabel("The old key ends").selectOption("In 24 hours");
  await page.getByRole("button", { name: "Rotate key" }).click();
  const second = await page.locator("#new-key").innerText();
  expect([await send(first, FORM), await send(second, FORM)]).toEqual([202, 202]);

  const ownerPage = await open(workspace, workspace.owner);
  const masked = `Website (${first.slice(0, 8)}…${first.slice(-4)})`;
  await rowOf(ownerPage, "Replaced by").getByLabel(`Actions for API key ${masked}`).click();
  await ownerPage.getByLabel(`Deactivate ${masked}?`).click();
  const dialog = ownerPage.getByRole("dialog", { name: `Deactivate ${masked}?` });
  await dialog.getByText("cannot be undone").waitFor();
  // Escape closes the question, and the key still works.
  await ownerPage.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  expect(await send(first, FORM)).toBe(202);
  await rowOf(ownerPage, "Replaced by").getByLabel(`Actions for API key ${masked}`).click();
  await ownerPage.getByLabel(`Deactivate ${masked}?`).click();
  await dialog.getByRole("button", { name: "Deactivate" }).click();
  await ownerPage.getByText("API key deactivated.").waitFor();
  expect([await send(first, FORM), await send(second, FORM)]).toEqual([401, 202]);
  expect(await rowOf(ownerPage, "Replaced by").innerText()).toContain("Inactive");
  expect(
    await rowOf(ownerPage, "Replaced by")
      .getByLabel(/^Actions/)
      .count(),
  ).toBe(0);

  const memberPage = await open(workspace, workspace.member);
  await memberPage.getByText("Only owners and admins can see or manage API keys.").waitFor();
  expect(await memberPage.content()).not.toContain("sk_");
  expect(await memberPage.getByRole("navigation", { name: "Workspace" }).innerText()).not.toContain("API keys");
});

describe("the full key is shown once", () => {
  test("neither a reload nor going back and forward shows it again or creates a second key", async () => {
    const workspace = await newWorkspace("once");
    // Browsers keep a page in their back-forward cache and show it again after going back.
    const keeping = await launch({ keepPages: true });
    const context = await newContext(keeping);
    try {
      const page = await signIn(context, workspace.owner, `${workspace.home}/settings/api-keys`);
      const value = await newKey(page, workspace, "Website");
      const shows = async () => (await page.content()).includes(value);
      expect(await shows()).toBe(true);

      await page.getByRole("link", { name: "View all keys" }).click();
      await page.getByRole("heading", { name: "API keys", exact: true }).waitFor();
      // Chromium asks for confirmation to send the form again.
      await expect(page.goBack()).rejects.toThrow("ERR_CACHE_MISS");
      await expect.poll(shows).toBe(false);

      await newKey(page, workspace, "Shop");
      const shop = await page.locator("#new-key").innerText();
      await page.reload();
      await page.getByRole("heading", { name: "This key was already created" }).waitFor();
      expect(await page.content()).not.toContain(shop);
      expect(await names(page, workspace)).toHaveLength(2);
    } finally {
      await context.close();
      await keeping.close();
    }
  });

  test("its copy button copies the full key", async () => {
    const workspace = await newWorkspace("copy");
    const page = await open(workspace, workspace.owner);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const value = await newKey(page, workspace, "Website");
    await page.getByRole("button", { name: "Copy API key" }).click();
    await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe(value);
  });
});

/**
 * On a connection so slow that the service has created the key, but the browser has no answer before the second
 * click.
 */
async function doubleClick(page: Page, { operator, id }: TestWorkspace): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const slow = { offline: false, latency: 6_000, downloadThroughput: -1, uploadThroughput: -1 };
  await session.send("Network.enable");
  await session.send("Network.emulateNetworkConditions", slow);
  const { x, y } = (await create(page).boundingBox()) ?? { x: 0, y: 0 };
  await page.mouse.click(x + 5, y + 5);
  await expect.poll(() => operator.list(`workspaces/${id}/keys`), { interval: 20, timeout: 5_500 }).toHaveLength(1);
  await page.mouse.click(x + 5, y + 5);
  await page.waitForLoadState();
}

describe("a test signal", () => {
  const testCall = (page: Page) => page.locator("#test-call");
  const sendIt = (page: Page) => page.getByRole("button", { name: "Send test signal" }).click();

  test("sent from the page of a new key shows its answer and follows the signal until it is recorded", async () => {
    const workspace = await newWorkspace("test-signal");
    const page = await open(workspace, workspace.owner);
    await formOf(page, workspace, "With a secret");
    await page.getByLabel("Shared secret").check();
    await create(page).click();
    await sendIt(page);
    await testCall(page).getByText("202 Accepted").waitFor();
    await testCall(page).locator("#trace").getByText("Recorded", { exact: true }).waitFor();
    await testCall(page).getByText("Processed", { exact: true }).waitFor();
    await testCall(page).getByRole("link", { name: "Open its trace" }).click();
    expect(await page.getByRole("heading", { level: 1 }).innerText()).toBe("Filled Out Form");
  });

  test("sent from Connect uses the typed key and shows a rejection as senders receive it", async () => {
    const workspace = await newWorkspace("test-connect");
    const key = await workspace.newKey();
    const page = await open(workspace, workspace.owner);
    await page.goto(`${workspace.home}/connect`);
    await page.getByLabel("Full API key").fill(`${key.slice(0, -1)}_`);
    await sendIt(page);
    await testCall(page).getByText("401 Unauthorized").waitFor();
    await page.getByLabel("Full API key").fill(key);
    expect(await page.getByLabel("webhook URL", { exact: true }).first().innerText()).toContain(`/webhook/${key}`);
    await page.getByLabel("Body").fill('{"event":');
    await sendIt(page);
    await testCall(page).getByText("400 Bad Request").waitFor();
    await testCall(page).getByText("body_not_json").waitFor();
    await page.getByLabel("Body").fill('{"event":"Typed here"}');
    await sendIt(page);
    await testCall(page).locator("#trace").getByText("Recorded", { exact: true }).waitFor();
    expect(await testCall(page).locator(".badge").first().innerText()).toBe("202 Accepted");
  });
});

test("a double click on Create creates one key and shows it", async () => {
  const workspace = await newWorkspace("double");
  const page = await open(workspace, workspace.owner);
  await formOf(page, workspace, "Website");
  await doubleClick(page, workspace);
  const value = await page.locator("#new-key").innerText();
  expect(await send(value, FORM)).toBe(202);
  expect(await names(page, workspace)).toEqual(["Website"]);
});

test("a double click without JavaScript creates one key too, and the second answer says so", async () => {
  const workspace = await newWorkspace("double-plain");
  const page = await open(workspace, workspace.owner, { javaScriptEnabled: false });
  await formOf(page, workspace, "Website");
  await doubleClick(page, workspace);
  await page.getByRole("heading", { name: "This key was already created" }).waitFor();
  expect(await names(page, workspace)).toEqual(["Website"]);
});

test("a key can be created with the keyboard alone, with a visible focus", async () => {
  const workspace = await newWorkspace("keyboard");
  const page = await open(workspace, workspace.owner);
  const focused = () => page.evaluate<string>(FOCUSED);
  const tabTo = async (target: string) => {
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press("Tab");
      const at = await focused();
      expect(at).toContain("outlined");
      if (at.startsWith(target)) return;
    }
    throw new Error(`Tab does not reach ${target}.`);
  };
  await page.getByText("No API keys yet").waitFor();
  await page.keyboard.press("Tab");
  expect(await focused()).toContain("Skip to content");
  await page.keyboard.press("Enter");
  await tabTo("Create API key");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Create API key" }).waitFor();
  // The form focuses its first field.
  await expect.poll(focused).toBe("name outlined");
  await page.keyboard.type("By keyboard");
  await tabTo("endpoint_type");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  await tabTo("secret");
  await page.keyboard.press("Space");
  await tabTo("Create API key");
  await page.keyboard.press("Enter");
  await page.locator("#new-secret").waitFor();
  expect(await names(page, workspace)).toEqual(["By keyboard"]);
});

/** Name or text of the focused element, and whether its focus is visible. */
const FOCUSED = `(() => {
  const { activeElement } = document;
  const { outlineStyle, outlineWidth } = getComputedStyle(activeElement);
  const seen = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
  return (activeElement.name || activeElement.textContent.trim()) + (seen ? " outlined" : "");
})()`;
