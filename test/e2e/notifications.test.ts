/**
 * Settings › Notifications in the browser, with a receiver on this machine that verifies signatures with the library.
 */
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Receiver } from "../events/support/receiver.ts";
import { launch, newContext, signIn } from "./support/browser.ts";
import { FORM, newWorkspace, send } from "./support/workspace.ts";

let browser: Browser;
let context: BrowserContext;
let receiver: Receiver;

beforeAll(async () => {
  browser = await launch();
});

beforeEach(async () => {
  receiver = await Receiver.listen();
});

afterEach(async () => {
  await context?.close();
  receiver.close();
});

afterAll(() => browser?.close());

const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).first().click();

/** From the page that shows the secret; the receiver uses it from then on. */
async function newWebhook(page: Page, home: string): Promise<void> {
  await page.goto(`${home}/settings/notifications`);
  await page.getByText("Nobody is told anything yet").waitFor();
  await page.getByRole("link", { name: "Create destination" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("CRM");
  await page.getByLabel("URL").fill(receiver.url);
  await press(page, "Create destination");
  receiver.secret = await page.locator("#new-secret").innerText();
}

const atCrm = (page: Page) =>
  page.getByRole("navigation", { name: "Where you are" }).getByRole("link", { name: "CRM" });

test("a destination is created, tested, fails, is fixed and gets the missed deliveries; then a score crosses a threshold", async () => {
  const workspace = await newWorkspace("told");
  const key = await workspace.newKey();
  const rule = { name: "Form", event: "Filled Out Form", scoring_signal: "form", points: 60 };
  await workspace.operator.post(`workspaces/${workspace.id}/rules`, rule);
  context = await newContext(browser);
  const page = await signIn(context, workspace.admin);
  await newWebhook(page, workspace.home);

  await press(page, "Send a test");
  await page.getByText("The test has arrived: accepted with 200").waitFor();
  expect(receiver.received.map(({ body }) => body?.type)).toEqual(["destination.test"]);

  receiver.answer = (response) => void response.writeHead(500).end("<b>the database is down</b>");
  await atCrm(page).click();
  await press(page, "Send a test");
  await page.getByText("The test was not accepted.").waitFor();
  await page.getByText("<b>the database is down</b>").waitFor();

  receiver.answer = (response) => void response.writeHead(204).end();
  await press(page, "Deliver again");
  await page.getByText("The test has arrived: accepted with 204").waitFor();
  const [, failed, again] = receiver.received;
  expect([again?.id, again?.text]).toEqual([failed?.id, failed?.text]);
  expect(await page.getByRole("row").count()).toBe(3);

  await page.goto(`${workspace.home}/settings/notifications`);
  await page.getByText("No score is a threshold yet.").waitFor();
  await page.getByLabel("Scores whose crossing is told").fill("50, 100");
  await press(page, "Save thresholds");
  await page.getByText("Crossings are told from now on.").waitFor();
  expect(await send(key, FORM)).toBe(202);
  await expect.poll(() => receiver.ofType("person.score_crossed").length).toBe(1);
  expect(receiver.ofType("person.score_crossed")[0]?.body?.data).toMatchObject({ email: FORM.email, threshold: 50 });
  await page.getByRole("link", { name: "CRM" }).click();
  await page.getByRole("link", { name: "A score crosses a threshold" }).click();
  await page.getByText("It has arrived: accepted with 204").waitFor();
  expect(receiver.forged).toEqual([]);
});

test("without JavaScript a destination is tested with its result at once, paused, its secret rotated, and deleted", async () => {
  const workspace = await newWorkspace("told-plainly");
  context = await newContext(browser, { javaScriptEnabled: false });
  const page = await signIn(context, workspace.owner);
  await newWebhook(page, workspace.home);
  await press(page, "Send a test");
  await page.getByText("The test has arrived: accepted with 200").waitFor();
  await atCrm(page).click();
  await press(page, "Pause");
  await page.getByText("It is paused.").waitFor();
  await page.getByRole("link", { name: "Rotate secret" }).click();
  await press(page, "Rotate the secret");
  receiver.secret = await page.locator("#new-secret").innerText();
  await press(page, "Send a test");
  await page.getByText("The test has arrived").waitFor();
  expect(receiver.received.at(-1)?.signatures).toBe(2);
  await atCrm(page).click();
  await press(page, "Delete");
  await press(page, "Delete the destination");
  await page.getByText("The destination is deleted.").waitFor();
  await page.getByText("Nobody is told anything yet").waitFor();
  expect(receiver.forged).toEqual([]);
});

test("a test to a slow receiver is shown as in progress, then its result without a reload", async () => {
  const workspace = await newWorkspace("told-slowly");
  context = await newContext(browser);
  const page = await signIn(context, workspace.admin);
  await newWebhook(page, workspace.home);
  const release = Promise.withResolvers<undefined>();
  receiver.answer = async (response) => {
    await release.promise;
    response.end("at last");
  };
  await press(page, "Send a test");
  await page.getByText("It is on its way.").waitFor();
  release.resolve(undefined);
  await page.getByText("The test has arrived").waitFor();
  await page.getByText("at last").waitFor();
  expect(receiver.received).toHaveLength(1);
});
