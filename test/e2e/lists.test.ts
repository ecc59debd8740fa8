/** The pages' scripts: search, filters, slices of a list, menus and questions. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { browserForFile, SIZES } from "./support/browser.ts";
import { problems } from "./support/problems.ts";
import { FORM, newWorkspace, send } from "./support/workspace.ts";

// As people's browsers do, it keeps a page that was left for the way back.
const { open } = browserForFile({ keepPages: true });

/** A page of a workspace with `count` people of the events `Visit` and, for every second one, `Demo`. */
async function withPeople(slug: string, count: number): Promise<Page> {
  const workspace = await newWorkspace(slug);
  const key = await workspace.newKey();
  const people = Array.from({ length: count }, (_, n) => ({
    ...FORM,
    email: `p${String(n).padStart(2, "0")}@example.com`,
    event: n % 2 === 0 ? "Demo" : "Visit",
  }));
  for (const signal of people) expect(await send(key, signal)).toBe(202);
  await expect.poll(() => workspace.score(people.at(-1)?.email ?? "")).toBe(0);
  return signInWithScript(workspace.owner, `${workspace.home}/people?sort=email`);
}

/** A page whose script has started: it handles keys from now on. */
async function signInWithScript(email: string, path: string): Promise<Page> {
  const page = await open(email, path);
  await page.locator("html.js").waitFor();
  return page;
}

const names = (page: Page) => page.getByRole("rowheader").allInnerTexts();

test("the slash key leads to the search, except while typing, and results are grouped", async () => {
  const page = await withPeople("slash", 2);
  const search = page.getByRole("combobox", { name: "Search people, events, signals, accounts, rules and API keys" });
  await page.keyboard.press("/");
  await page.keyboard.type("d/");
  expect(await search.inputValue()).toBe("d/");
  await search.fill("demo");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Search results" }).waitFor();
  expect(await page.getByRole("heading", { level: 2 }).locator("visible=true").allInnerTexts()).toContain("Events");
  await page.getByRole("link", { name: "Demo", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Demo" }).waitFor();
});

test("the search suggests while somebody types: arrow keys choose, Enter opens, Escape closes", async () => {
  const page = await withPeople("suggests", 3);
  const asked: string[] = [];
  let [inFlight, most] = [0, 0];
  await page.route("**/search/suggestions?*", async (route) => {
    asked.push(new URL(route.request().url()).searchParams.get("q") ?? "");
    most = Math.max(most, ++inFlight);
    // As from far away, so that more is typed meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 600));
    await route.continue();
    inFlight--;
  });
  const search = page.getByRole("combobox", { name: /^Search people/ });
  const list = page.getByRole("listbox", { name: "Suggestions" });
  const options = list.getByRole("option");
  const chosen = () => list.getByRole("option", { selected: true }).allInnerTexts();
  await page.keyboard.press("/");
  expect(await search.getAttribute("aria-expanded")).toBe("false");
  await page.keyboard.type("p0", { delay: 350 });
  await page.keyboard.type("1@exa", { delay: 350 });
  await expect.poll(() => asked.at(-1)).toBe("p01@exa");
  await expect.poll(() => options.count()).toBe(1);
  expect([asked.includes("p"), most]).toEqual([false, 1]);

  await search.fill("p0");
  await expect.poll(() => options.count()).toBe(3);
  expect([await search.getAttribute("aria-expanded"), await chosen()]).toEqual(["true", []]);
  // On a narrow screen the field is in the menu.
  await page.evaluate("document.querySelector('#menu').checked = true");
  expect([await problems(page), await options.count()]).toEqual([[], 3]);
  await page.setViewportSize(SIZES.wide);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  const second = await options.nth(1).innerText();
  expect(await chosen()).toEqual([second]);
  expect(await search.getAttribute("aria-activedescendant")).toBe(await options.nth(1).getAttribute("id"));
  await page.keyboard.press("Escape");
  expect([await options.count(), await search.inputValue(), await search.getAttribute("aria-expanded")]).toEqual([
    0,
    "p0",
    "false",
  ]);
  await page.keyboard.press("ArrowDown");
  await expect.poll(() => options.count()).toBe(3);
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: second.split("\n")[0] ?? "" }).waitFor();

  await page.getByRole("combobox", { name: /^Search people/ }).fill("p02");
  await options.first().click();
  await page.getByRole("heading", { level: 1, name: "p02@example.com" }).waitFor();

  await search.fill("p0");
  await expect.poll(() => options.count()).toBe(3);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Search results" }).waitFor();
});

test("after Back, the filters show the values that the list was filtered by", async () => {
  const page = await withPeople("back", 2);
  const search = page.getByRole("searchbox", { name: /^Search email/ });
  await search.fill("p00");
  await search.press("Enter");
  await page.getByRole("link", { name: "Remove filter Search: p00" }).waitFor();
  expect(await names(page)).toEqual(["p00@example.com"]);
  await page.goBack({ waitUntil: "commit" });
  await expect.poll(() => names(page)).toEqual(["p00@example.com", "p01@example.com"]);
  expect(await search.inputValue()).toBe("");
  await page.goForward({ waitUntil: "commit" });
  await expect.poll(() => names(page)).toEqual(["p00@example.com"]);
  expect(await search.inputValue()).toBe("p00");
});

test("a list is read forwards and backwards", async () => {
  const page = await withPeople("slices", 60);
  const emails = Array.from({ length: 60 }, (_, n) => `p${String(n).padStart(2, "0")}@example.com`);
  const go = async (name: string) => {
    await page.getByRole("link", { name, exact: true }).click();
    return names(page);
  };
  expect(await names(page)).toEqual(emails.slice(0, 25));
  expect(await go("Next")).toEqual(emails.slice(25, 50));
  expect(await go("Next")).toEqual(emails.slice(50));
  expect(await page.getByRole("link", { name: "Next" }).count()).toBe(0);
  expect(await go("Previous")).toEqual(emails.slice(25, 50));
  expect(await go("Previous")).toEqual(emails.slice(0, 25));
  expect(await page.getByRole("link", { name: "Previous" }).count()).toBe(0);
});

test("a question is a modal dialog that keeps the focus; Escape and a click beside it close it", async () => {
  const { home, owner, admin } = await newWorkspace("dialog");
  const page = await signInWithScript(owner, `${home}/settings/members`);
  const menu = page.getByLabel(`Actions for ${admin}`);
  await menu.click();
  await page.keyboard.press("Escape");
  await page.getByText("Change role").first().waitFor({ state: "hidden" });
  await menu.press("Enter");
  const question = page.getByLabel(`Remove ${admin}?`);
  await question.press("Enter");
  const dialog = page.getByRole("dialog", { name: `Remove ${admin}?` });
  await dialog.waitFor();
  for (let n = 0; n < 5; n++) {
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.closest('dialog, body').tagName")).toMatch(/DIALOG|BODY/);
    expect(await page.evaluate("document.activeElement.closest('main')")).toBeNull();
  }
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  // The browser reports the end of a dialog a moment after it has hidden it.
  const focused = () => page.evaluate("document.activeElement.getAttribute('aria-label')");
  await expect.poll(focused).toBe(`Actions for ${admin}`);
  await menu.click();
  await question.click();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await menu.click();
  await question.click();
  await dialog.waitFor();
  await page.mouse.click(5, 5);
  await dialog.waitFor({ state: "hidden" });
  await menu.click();
  await question.click();
  await dialog.getByRole("button", { name: "Remove member" }).click();
  await page.getByText("Member removed. They no longer have access.").waitFor();
});
