/** Sizes and places of texts at every width of a screen. */
import type { Page } from "playwright-core";
import { expect, inject, test } from "vitest";
import { browserForFile } from "./support/browser.ts";
import { overflow } from "./support/problems.ts";
import { FORM, newWorkspace, send } from "./support/workspace.ts";

const browser = browserForFile();
const { slug, keyId } = inject("demo");
/** From a phone to a large screen, in pixels. */
const WIDTHS = Array.from({ length: 53 }, (_, step) => 360 + 30 * step);

const showAt = (page: Page, width: number) => page.setViewportSize({ width, height: 900 });

test.each([
  "",
  "/signals/group?event=Filled+Out+Form&source=marketing-automation",
  "/people/peter@example.com",
  "/usage",
  `/settings/api-keys/${keyId}`,
])("the text of a chart has 11 to 13 pixels at every width, within the screen: %s", async (path) => {
  const page = await browser.open("owner@example.com", `/w/${slug}${path}`);
  await page.locator("main figure").first().waitFor();
  for (const width of WIDTHS) {
    await showAt(page, width);
    const sizes = await page.evaluate<number[]>(`
      [...document.querySelectorAll("main figure svg text")]
        .filter((text) => text.getBoundingClientRect().width > 0)
        .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().d)
    `);
    expect(sizes.length, `${width} pixels`).toBeGreaterThan(3);
    expect(Math.min(...sizes), `${width} pixels`).toBeGreaterThanOrEqual(11);
    expect(Math.max(...sizes), `${width} pixels`).toBeLessThanOrEqual(13);
    expect(await overflow(page), `${width} pixels`).toEqual([]);
  }
});

/** The cells whose text takes two lines. */
const broken = (page: Page, cells: string) =>
  page.evaluate<string[]>(`
    [...document.querySelectorAll(${JSON.stringify(cells)})].flatMap((cell) => {
      const content = document.createRange();
      content.selectNodeContents(cell);
      const boxes = [...content.getClientRects()];
      const isOneLine = Math.max(...boxes.map(({ top }) => top)) < Math.min(...boxes.map(({ bottom }) => bottom));
      return isOneLine ? [] : [cell.textContent];
    })
  `);

/** The texts whose end is cut, in tables up to this width. */
const cut = (page: Page, widest: number) =>
  page.evaluate<string[]>(`
    [...document.querySelectorAll("tbody .one-line")]
      .filter((text) => text.closest(".table").clientWidth <= ${widest})
      .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
      .map(({ textContent }) => textContent)
  `);

test("an action and an email stay on one line on a wide screen, no email is cut on others, and the tables fit", async () => {
  const workspace = await newWorkspace("northwindtraders");
  const { home, owner } = workspace;
  const page = await browser.open(owner, `${home}/rules/new`);
  await page.getByLabel("Event", { exact: true }).fill("Filled Out Form");
  await page.getByLabel("Scoring signal").fill("demo_requested");
  await page.getByLabel("Points", { exact: true }).fill("20");
  await page.getByLabel("Name", { exact: true }).fill("Asked for a demonstration of the whole product, by a form");
  await page.getByRole("button", { name: "Create rule" }).click();
  await page.getByText("Rule created.").waitFor();
  await page.locator("summary", { hasText: "Apply to past signals" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await page.locator("#job").waitFor();
  const key = await workspace.newKey();
  expect(await send(key, { ...FORM, email: owner })).toBe(202);
  // Its reason takes all the room that it gets.
  expect(await send(key, { email: owner })).toBe(422);
  for (const [path, cells] of [
    ["settings/activity", "tbody :is(th, td:nth-child(3))"],
    ["settings/members", "tbody th"],
    ["live", "tbody td:nth-child(3)"],
  ] as const) {
    await page.goto(`${home}/${path}`);
    await page.locator("tbody").getByText(owner).first().waitFor();
    for (const width of WIDTHS) {
      await showAt(page, width);
      const at = `${path}, ${width} pixels`;
      expect(await overflow(page), at).toEqual([]);
      if (width >= 1280) expect(await broken(page, cells), at).toEqual([]);
      // Where Live has all its columns, it cuts a long email rather than break it.
      expect(await cut(page, path === "live" ? 928 : width), at).toEqual([]);
    }
  }
});

test("tables of signals and rejected calls fit at every width, and their filters and menus open within the screen", async () => {
  const workspace = await newWorkspace("fitting");
  const { home, owner } = workspace;
  const key = await workspace.newKey();
  const email = "a.colleague@customer.example";
  expect(await send(key, { ...FORM, email })).toBe(202);
  expect(await send(key, { email })).toBe(422);
  await expect.poll(() => workspace.score(email)).toBe(0);
  const page = await browser.open(owner, `${home}/`);
  for (const [path, opened] of [
    ["people", ".filters"],
    ["people", ".head"],
    [`people/${email}`, ".head"],
    ["signals/all", ".filters"],
    ["rejections", ".filters"],
  ] as const) {
    await page.goto(`${home}/${path}`);
    await page.locator(`main ${opened} .menu-of > summary`).click();
    for (const width of WIDTHS) {
      await showAt(page, width);
      const at = `${opened} of ${path}, ${width} pixels`;
      const box = await page.locator(`main ${opened} .menu-of > div`).boundingBox();
      expect(box, at).not.toBeNull();
      expect(box?.x, at).toBeGreaterThanOrEqual(0);
      expect((box?.x ?? 0) + (box?.width ?? 0), at).toBeLessThanOrEqual(width);
      expect(await overflow(page), at).toEqual([]);
    }
  }
});

test("the button of the menu is whole on a phone, however long the workspace's name is", async () => {
  const { id, home, owner, operator } = await newWorkspace("long-name");
  await operator.call("PATCH", `workspaces/${id}`, {
    name: "Kontinentalverwaltungsgesellschaft for signals ".repeat(2).trim(),
  });
  const page = await browser.open(owner, `${home}/`);
  for (const width of [360, 390, 540]) {
    await showAt(page, width);
    const height = await page.evaluate<number>(
      `parseFloat(getComputedStyle(document.querySelector(".menu-button"), "::after").height)`,
    );
    expect(height, `${width} pixels`).toBeLessThan(32);
    expect(await overflow(page), `${width} pixels`).toEqual([]);
  }
});

test("the receipt of a deletion fits also a screen of 320 pixels", async () => {
  const workspace = await newWorkspace("receipts");
  const email = "a.colleague@customer.example";
  expect(await send(await workspace.newKey(), { ...FORM, email })).toBe(202);
  await expect.poll(() => workspace.score(email)).toBe(0);
  const page = await browser.open(workspace.owner, `${workspace.home}/people/${email}/delete`);
  await page.getByLabel("Type the email to confirm").fill(email);
  await page.getByRole("button", { name: "Delete person" }).click();
  await page.getByText("Deletion complete").waitFor();
  for (const width of [320, ...WIDTHS]) {
    await showAt(page, width);
    expect(await overflow(page), `${width} pixels`).toEqual([]);
  }
});
