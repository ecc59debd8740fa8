/** Design §10: sign-in with each driver in a real browser, and a session that ends in the middle. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { startProvider } from "../sign-in/support/provider.ts";
import { startWithMembers } from "../sign-in/support/members.ts";
import { browserForFile, signIn } from "./support/browser.ts";
import { FORM, newWorkspace, send } from "./support/workspace.ts";

const { openContext } = browserForFile();

const whoIs = (page: Page) => page.locator(".who");

describe("a member signs in, lands on the requested page, and signs out", () => {
  test("from the list of members", async () => {
    const { home, admin } = await newWorkspace("local");
    const context = await openContext();
    const page = await context.newPage();
    await page.goto(`${home}/usage`);
    await page.getByRole("button", { name: admin }).click();
    await page.getByRole("heading", { name: "Usage" }).waitFor();
    expect(await whoIs(page).innerText()).toContain(admin);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.goto(`${home}/usage`);
    expect(new URL(page.url()).pathname).toBe("/sign-in");
  });

  test("by an OpenID provider", async () => {
    const provider = await startProvider();
    const { service } = await startWithMembers({
      vars: { SIGN_IN: "oidc", OIDC_ISSUER: provider.issuer, OIDC_CLIENT_ID: "signal-ingestion" },
    });
    provider.serve({
      client_id: "signal-ingestion",
      token_endpoint_auth_method: "none",
      redirect_uris: [`${service.origin}/sign-in/oidc/callback`],
    });
    provider.account = { email: "owner@acme.example" };
    const context = await openContext({ baseURL: service.origin });
    try {
      const page = await context.newPage();
      await page.goto("/w/acme/usage");
      await page.getByRole("link", { name: "Sign in" }).click();
      await page.getByRole("heading", { name: "Usage" }).waitFor();
      expect(await whoIs(page).innerText()).toContain("owner@acme.example");
      expect(provider.asked).toContain("/token");
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("link", { name: "Sign in" }).waitFor();

      provider.account = { email: "stranger@elsewhere.example" };
      await context.clearCookies();
      await page.getByRole("link", { name: "Sign in" }).click();
      await page.getByRole("heading", { name: "You are not a member of any workspace" }).waitFor();
    } finally {
      await service.remove();
      provider.close();
    }
  });

  test("by Cloudflare Access, which has already asked", async () => {
    const { service } = await startWithMembers({
      vars: { ACCESS_AUD: "an application" },
      access: { aud: "an application", identity: { email: "owner@acme.example" } },
    });
    const { origin } = await service.running.miniflare.ready;
    const context = await openContext({ baseURL: origin });
    try {
      const page = await context.newPage();
      await page.goto("/w/acme/usage");
      await page.getByRole("heading", { name: "Usage" }).waitFor();
      expect(await whoIs(page).innerText()).toContain("owner@acme.example");
      const ended = page.waitForURL("**/cdn-cgi/access/logout");
      await page.getByRole("button", { name: "Sign out" }).click();
      await ended;
    } finally {
      await service.remove();
    }
  });
});

describe("after a session ends", () => {
  test("a form says so, and its input is sent again after sign-in", async () => {
    const { home, owner } = await newWorkspace("ended");
    const context = await openContext();
    const page = await signIn(context, owner, `${home}/settings/api-keys/new`);
    const secondPage = await context.newPage();
    await secondPage.goto(`${home}/usage`);
    await secondPage.getByRole("button", { name: "Sign out" }).click();
    await secondPage.getByRole("heading", { name: "Sign in" }).waitFor();

    // The preview of the typed input is rejected and changes none of it.
    const previewed = page.waitForResponse(`**${home}/settings/api-keys/new/preview`);
    await page.getByLabel("Name", { exact: true }).fill('"Website" <1>');
    expect((await previewed).status()).toBe(401);
    await page.getByRole("button", { name: "Create API key" }).last().click();
    await page.getByRole("heading", { name: "Your session has ended" }).waitFor();
    // Sent again before signing in, the form is rejected again.
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByRole("heading", { name: "Your session has ended" }).waitFor();

    const opened = context.waitForEvent("page");
    await page.getByRole("link", { name: "Sign in" }).click();
    await (await opened).getByRole("button", { name: owner }).click();
    await (await opened).getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByRole("heading", { name: "API key created" }).waitFor();
    await page.getByRole("link", { name: "View all keys" }).click();
    expect(await page.locator("tbody th").allInnerTexts()).toEqual([expect.stringMatching(/^"Website" <1>\s+sk_/)]);
  });

  test("a button that changes a form says so too, and the input is restored after sign-in", async () => {
    const { home, owner } = await newWorkspace("ended-editor");
    const context = await openContext();
    const page = await signIn(context, owner, `${home}/rules/new`);
    const secondPage = await context.newPage();
    await secondPage.goto(`${home}/usage`);
    await secondPage.getByRole("button", { name: "Sign out" }).click();
    await secondPage.getByRole("heading", { name: "Sign in" }).waitFor();

    await page.getByLabel("Name", { exact: true }).fill("Asked for a demo");
    await page.getByRole("button", { name: "Add condition" }).click();
    await page.getByRole("heading", { name: "Your session has ended" }).waitFor();
    await secondPage.getByRole("button", { name: owner }).click();
    await secondPage.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByLabel("Condition 2: path").waitFor();
    expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("Asked for a demo");
  });

  test("a removed member changes nothing and sees the reason", async () => {
    const { id, home, admin, operator } = await newWorkspace("removed");
    const context = await openContext();
    const page = await signIn(context, admin, `${home}/settings/api-keys/new`);
    await operator.call("DELETE", `workspaces/${id}/members/${admin}`);
    await page.getByLabel("Name", { exact: true }).fill("Website");
    await page.getByRole("button", { name: "Create API key" }).last().click();
    await page.getByRole("heading", { name: "Your session has ended" }).waitFor();
    expect(await operator.list(`workspaces/${id}/keys`)).toEqual([]);
  });

  test("the live page redirects a removed member to sign-in", async () => {
    const workspace = await newWorkspace("ended-live");
    const key = await workspace.newKey();
    const context = await openContext();
    await context.clock.install();
    const page = await signIn(context, workspace.member, `${workspace.home}/live`);
    await page.locator("#live-state", { hasText: /^Live$/ }).waitFor();
    await send(key, FORM);
    await page.getByRole("cell", { name: "jane@example.com" }).waitFor();
    await workspace.operator.call("DELETE", `workspaces/${workspace.id}/members/${workspace.member}`);
    await context.clock.runFor("00:10");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(await page.content()).not.toContain("jane@example.com");
  });
});
