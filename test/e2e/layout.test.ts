/** Sizes and places of texts at every width of a screen. */
import type { Page } from "playwright-core";
import { expect, inject, test } from "vitest";
import { browserForFile } from "./support/browser.ts";
import { overflow } from "./support/problems.ts";

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
