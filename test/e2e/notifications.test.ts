/**
 * Settings › Notifications in the browser, with a receiver on this machine that verifies signatures with the library.
 */
import type { Page } from "playwright-core";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Receiver } from "../notifications/support/receiver.ts";
import { browserForFile, dismissed } from "./support/browser.ts";
import { overflow } from "./support/problems.ts";
import { FORM, newWorkspace, send } from "./support/workspace.ts";

const { open } = browserForFile();
let receiver: Receiver;

beforeEach(async () => {
  receiver = await Receiver.listen();
});

afterEach(() => receiver.close());

const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).first().click();

/** From the page that shows the secret; the receiver uses it from then on. */
async function newWebhook(page: Page, home: string): Promise<void> {
  await page.goto(`${home}/settings/notifications`);
  await page.getByText("No destinations yet").waitFor();
  await page.getByRole("link", { name: "Create destination" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("CRM");
  await page.getByLabel("URL").fill(receiver.url);
  await press(page, "Create destination");
  receiver.secret = await page.locator("#new-secret").innerText();
}

const atCrm = (page: Page) => page.getByRole("navigation", { name: "Breadcrumbs" }).getByRole("link", { name: "CRM" });

test("a destination is created, tested, fails, is fixed and gets the missed deliveries; then a score crosses a threshold", async () => {
  const workspace = await newWorkspace("notified");
  const key = await workspace.newKey();
  const rule = { name: "Form", event: "Filled Out Form", scoring_signal: "form", points: 60 };
  await workspace.operator.post(`workspaces/${workspace.id}/rules`, rule);
  const page = await open(workspace.admin);
  await newWebhook(page, workspace.home);

  await press(page, "Send test");
  await page.getByText("Test delivered: accepted with 200").waitFor();
  expect(receiver.received.map(({ body }) => body?.type)).toEqual(["destination.test"]);

  receiver.answer = (response) => void response.writeHead(500).end("<b>the database is down</b>");
  await atCrm(page).click();
  await press(page, "Send test");
  await page.getByText("Test failed").waitFor();
  await page.getByText("<b>the database is down</b>").waitFor();

  receiver.answer = (response) => void response.writeHead(204).end();
  await press(page, "Deliver again");
  await page.getByText("Test delivered: accepted with 204").waitFor();
  const [, failed, again] = receiver.received;
  expect([again?.id, again?.text]).toEqual([failed?.id, failed?.text]);
  expect(await page.getByRole("row").count()).toBe(3);

  await page.goto(`${workspace.home}/settings/notifications`);
  await page.getByText("No score threshold yet").waitFor();
  await page.getByLabel("Notify when a person's score reaches or falls below").fill("50, 100");
  await press(page, "Save thresholds");
  await page.getByText("Thresholds saved.").waitFor();
  expect(await send(key, FORM)).toBe(202);
  await expect.poll(() => receiver.ofType("person.score_crossed").length).toBe(1);
  expect(receiver.ofType("person.score_crossed")[0]?.body?.data).toMatchObject({ email: FORM.email, threshold: 50 });
  await page.getByRole("link", { name: "CRM", exact: true }).click();
  await page.getByRole("link", { name: "A person's score crosses a threshold" }).click();
  await page.getByText("Notification delivered: accepted with 204").waitFor();
  expect(receiver.forged).toEqual([]);
});

test("the page of a new secret asks before a test is sent, until the secret is copied", async () => {
  const workspace = await newWorkspace("secret-asks");
  const page = await open(workspace.admin);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const asked = dismissed(page);
  await newWebhook(page, workspace.home);
  await press(page, "Send test");
  await expect.poll(() => asked).toEqual(["beforeunload"]);
  expect(await page.locator("#new-secret").innerText()).toBe(receiver.secret);
  expect(receiver.received).toEqual([]);
  await press(page, "Copy signing secret");
  await press(page, "Send test");
  await page.getByText("Test delivered: accepted with 200").waitFor();
  expect(asked).toHaveLength(1);
});

test("a failed test and its button fit the page at every width", async () => {
  const workspace = await newWorkspace("failed-fits");
  const page = await open(workspace.admin);
  await newWebhook(page, workspace.home);
  receiver.answer = (response) => void response.writeHead(500).end("down");
  await press(page, "Send test");
  await page.getByText("Test failed").waitFor();
  await atCrm(page).click();
  await page.getByRole("button", { name: "Deliver Test again" }).waitFor();
  for (const width of [360, 766, 768, 900, 1020, 1021, 1100, 1280]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await overflow(page), `${width} pixels`).toEqual([]);
  }
});

test("without JavaScript a destination is tested with its result at once, paused, its secret rotated, and deleted", async () => {
  const workspace = await newWorkspace("notified-plainly");
  const page = await open(workspace.owner, "/", { javaScriptEnabled: false });
  await newWebhook(page, workspace.home);
  await press(page, "Send test");
  await page.getByText("Test delivered: accepted with 200").waitFor();
  await atCrm(page).click();
  const unfold = (name: string) => page.locator("summary", { hasText: name }).click();
  await unfold("…");
  await press(page, "Pause");
  await page.getByText("Destination paused.").waitFor();
  await unfold("…");
  await unfold("Rotate secret");
  await press(page, "Rotate secret");
  receiver.secret = await page.locator("#new-secret").innerText();
  await press(page, "Send test");
  await page.getByText("Test delivered").waitFor();
  expect(receiver.received.at(-1)?.signatures).toBe(2);
  await atCrm(page).click();
  await unfold("…");
  await unfold("Delete");
  await press(page, "Delete destination");
  await page.getByText("Destination deleted.").waitFor();
  await page.getByText("No destinations yet").waitFor();
  expect(receiver.forged).toEqual([]);
});

test("a test to a slow receiver is shown as in progress, then its result without a reload", async () => {
  const workspace = await newWorkspace("notified-slowly");
  const page = await open(workspace.admin);
  await newWebhook(page, workspace.home);
  const release = Promise.withResolvers<undefined>();
  receiver.answer = async (response) => {
    await release.promise;
    response.end("at last");
  };
  await press(page, "Send test");
  await page.getByText("Test in progress").waitFor();
  release.resolve(undefined);
  await page.getByText("Test delivered").waitFor();
  await page.getByText("at last").waitFor();
  expect(receiver.received).toHaveLength(1);
});
