/**
 * Checks of every page: accessible, no wider than the screen, no violation of the content security policy, small over
 * the network.
 */
import { gzipSync } from "node:zlib";
import { html as markup } from "hono/html";
import type { Browser, BrowserContext, Page, Response } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { DAY_MS } from "../../src/domain/duration.ts";
import { TimeChart } from "../../src/pages/kit/charts.tsx";
import { type Part, readHtml } from "../support/html.ts";
import { launch, newContext, signIn, SIZES } from "./support/browser.ts";
import { overflow, problems, unreadable } from "./support/problems.ts";
import { newWorkspace, send } from "./support/workspace.ts";

const FIRST_VIEW_MAX_BYTES = 60 * 1024;
const { slug, keyId, ruleId, scored, destination, delivery } = inject("demo");
const HOME = `/w/${slug}`;

/** The pages with the demo's data, and with a search without results if that page differs. */
const PATHS = [
  "/",
  "/search?q=demo",
  "/signals",
  "/signals?q=nothing&source=web&only=held&from=2026-01-01",
  "/signals?sort=count&q=e",
  "/signals/group?event=Filled+Out+Form&source=marketing-automation",
  "/signals/all",
  "/signals/all?status=duplicate",
  "/signals/all?status=held",
  "/signals/dead-letters",
  `/signals/${scored}`,
  "/live",
  "/rejections",
  "/rules",
  "/rules?sort=scored_30",
  "/rules/new",
  "/rules/import",
  `/rules/new?from=${scored}`,
  `/rules/${ruleId}`,
  `/rules/${ruleId}/versions`,
  `/rules/${ruleId}/versions/1`,
  "/rules/exclusions",
  "/rules/exclusions/new",
  "/people",
  "/people?q=somebody.with.a.very.long.address@nobody.example.com&score=3&from=2026-01-01",
  "/people?q=e&sort=last_seen_up",
  "/people/peter@example.com",
  // Only a held signal names him, so the page is a 404.
  "/people/otto@example.com",
  "/people/peter@example.com/delete",
  "/accounts",
  "/accounts/one?external_id=acct-2",
  "/accounts/one?external_id=initech",
  "/connect",
  "/connect?sender=webhooks&preset=typeform",
  "/usage",
  "/usage/plan",
  "/usage/ledger",
  "/settings/api-keys",
  "/settings/api-keys/new",
  `/settings/api-keys/${keyId}`,
  `/settings/api-keys/${keyId}/rotate`,
  `/settings/api-keys/${keyId}/template`,
  "/settings/api-tokens",
  "/settings/api-tokens/new",
  "/settings/members",
  "/settings/notifications",
  "/settings/notifications/new",
  `/settings/notifications/${destination}`,
  `/settings/notifications/${destination}/again`,
  `/settings/notifications/${destination}/change`,
  `/settings/notifications/${delivery}`,
  "/settings/activity",
  `/settings/activity?key=${keyId}&action=key.renamed`,
  "/nowhere",
];

let browser: Browser;
let context: BrowserContext;
let page: Page;
/** Errors in the page's console, including violations of the content security policy. */
const consoleErrors: string[] = [];

beforeAll(async () => {
  browser = await launch();
  context = await newContext(browser, { reducedMotion: "reduce" });
  page = await signIn(context, "owner@example.com", `${HOME}/signals`);
  context.on("console", (message) => {
    const expected = /\/(nowhere|otto@example\.com)$/.test(message.location().url) && message.text().includes("404");
    if (["error", "warning"].includes(message.type()) && !expected) consoleErrors.push(message.text());
  });
  context.on("weberror", (error) => consoleErrors.push(String(error.error())));
});

beforeEach(() => void consoleErrors.splice(0));
afterAll(() => browser?.close());

describe("in light and dark, wide and narrow, and without accessibility errors", () => {
  test.each([...PATHS.map((path) => HOME + path), "/sign-in", "/w/"])(
    "%s is accessible and within the screen",
    async (path) => {
      await page.goto(path);
      expect(await problems(page)).toEqual([]);
      expect(consoleErrors).toEqual([]);
    },
  );

  test("the labels of a score curve never overlap, at any time of day and for any span", async () => {
    const HOUR = 3_600_000;
    const spans = [1, 2, 3, 6, 12, 24, 47, 49, 72, 7 * 24, 14 * 24, 31 * 24, 90 * 24, 400 * 24, 1_800 * 24];
    // Each end is 61 minutes after the previous one, so that each chart ends at another minute of the hour and the
    // day.
    const ends = Array.from({ length: 24 }, (_, n) => Date.UTC(2026, 10, 22) + (n * 61 * HOUR) / 60);
    const charts = spans.flatMap((hours) =>
      ends.map((toMs) => {
        const label = `${hours} hours to ${new Date(toMs).toISOString()}`;
        return TimeChart({ label, series: [], fromMs: toMs - hours * HOUR, toMs });
      }),
    );
    const drawn = (await markup`${charts}`).toString();
    await page.goto(`${HOME}/people/peter@example.com`);
    const figure = page.locator("main figure").first();
    await figure.evaluate((element, all) => void (element.outerHTML = all), drawn);
    expect(await page.locator("main svg.chart").count()).toBe(charts.length);
    for (const width of [320, 360, 390, 540, 640, 700, 980, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      expect(await unreadable(page), `${width} pixels`).toEqual([]);
    }
  });

  test("a long workspace name keeps the menu button on a phone's screen", async () => {
    await page.goto(`${HOME}/signals`);
    await page.setViewportSize(SIZES.narrow);
    const fits = () => page.locator(".menu-button").evaluate((bar) => bar.scrollWidth <= bar.clientWidth);
    expect(await fits()).toBe(true);
    await page.locator(".menu-button").evaluate((bar) => void (bar.textContent = "Donaudampfschifffahrt".repeat(4)));
    expect(await fits()).toBe(true);
  });

  test("unbroken names of 100 to 255 characters widen no table of signals or rejected calls", async () => {
    const workspace = await newWorkspace("unbroken");
    const keys = `workspaces/${workspace.id}/keys`;
    const { key } = await workspace.operator.post<{ key: string }>(keys, { name: "K".repeat(100) });
    const email = `${"e".repeat(64)}@${"d".repeat(60)}.${"d".repeat(60)}.example`;
    const long = { email, event: "n".repeat(255), source: "s".repeat(255) };
    expect(await send(key, long)).toBe(202);
    expect(await send(key, { email })).toBe(422);
    await expect.poll(() => workspace.score(email)).toBe(0);
    const otherContext = await newContext(browser, { reducedMotion: "reduce" });
    const listed = await signIn(otherContext, workspace.owner, `${workspace.home}/live`);
    // The row that the script adds is checked too.
    await listed.locator("#live-state", { hasText: /^Live$/ }).waitFor();
    expect(await send(key, { ...long, event: "m".repeat(255) })).toBe(202);
    await listed.getByText("m".repeat(255)).waitFor();
    expect(await overflow(listed)).toEqual([]);
    for (const path of ["live", "signals", "signals/all", "rejections", "people", "settings/api-keys"]) {
      await listed.goto(`${workspace.home}/${path}`);
      await listed.locator(".table tbody tr").first().waitFor();
      expect(await overflow(listed), path).toEqual([]);
    }
    await otherContext.close();
  });

  test.each(["wide", "narrow"] as const)(
    "on a %s screen the Live page also has room for rows of yesterday",
    async (size) => {
      const tomorrow = await newContext(browser, { reducedMotion: "reduce", viewport: SIZES[size] });
      await tomorrow.clock.setFixedTime(Date.now() + DAY_MS);
      const live = await signIn(tomorrow, "owner@example.com", `${HOME}/live`);
      await live
        .locator("tbody time", { hasText: /20\d\d/ })
        .first()
        .waitFor();
      expect(await overflow(live)).toEqual([]);
      await tomorrow.close();
    },
  );

  test("a created key is accessible and fits on the screen", async () => {
    await page.goto(`${HOME}/settings/api-keys/new`);
    await page.getByLabel("Name", { exact: true }).fill("Looked at");
    await page.getByLabel("Shared secret").check();
    await page.getByRole("button", { name: "Create API key" }).last().click();
    await page.locator("#new-key").waitFor();
    expect(await problems(page)).toEqual([]);
    expect(consoleErrors).toEqual([]);
  });

  test("a confirmation is accessible, fits on the screen, opens above the page and moves nothing on it", async () => {
    await page.setViewportSize(SIZES.wide);
    await page.goto(`${HOME}/settings/members`);
    const rows = () =>
      page.getByRole("row").evaluateAll((all) => all.map((row) => row.getBoundingClientRect().toJSON() as object));
    const before = await rows();
    expect(before.length).toBeGreaterThan(3);
    await page.getByLabel("Actions for member@example.com").click();
    await page.getByLabel("Remove member@example.com?").click();
    await page.getByRole("dialog").waitFor();
    expect(await rows()).toEqual(before);
    expect(await problems(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(consoleErrors).toEqual([]);
  });

  test.each([
    ["valid", [{ name: "Registered", event: "Registered - *", scoring_signal: "webinar", points: 5 }], "Import 1 rule"],
    ["invalid", [{ name: "Registered", event: "" }], "Preview import"],
  ])("an import of %s rules is accessible and within the screen", async (_, items, button) => {
    await page.goto(`${HOME}/rules/import`);
    await page.getByLabel("Or paste its text").fill(JSON.stringify({ items }));
    await page.getByRole("button", { name: "Preview import" }).click();
    await page.getByRole("button", { name: button }).waitFor();
    expect(await problems(page)).toEqual([]);
    expect(consoleErrors.filter((line) => !line.includes("422"))).toEqual([]);
  });

  test.each([
    ["settings/api-keys/new", "Create API key"],
    ["rules/new", "Create rule"],
    ["settings/members", "Add member"],
    ["settings/notifications/new", "Create destination"],
  ])("%s, sent empty, is accessible and within the screen", async (path, button) => {
    await page.goto(`${HOME}/${path}`);
    // The browser's own validation would keep the form from being sent.
    await page.getByRole("button", { name: button }).last().click();
    await page.locator("main .error").first().waitFor();
    await expect.poll(() => page.evaluate("document.activeElement.id")).toMatch(/^(name|email)$/);
    expect(await problems(page)).toEqual([]);
  });
});

describe("the words of the pages", () => {
  /** The first words of buttons. Previous and Next turn the pages of a list. */
  const BUTTONS =
    "Add Apply Cancel Change Clear Connect Copy Create Deactivate Delete Deliver Disable Dismiss Downgrade Enable Exclude Export Filter Import " +
    "Map Next Open Pause Preview Previous Propose Refresh Remove Replay Restore Revoke Rotate Save Search Send Set Show Sign Upgrade Use View";
  /** Capital letters within a sentence. */
  const NAMES =
    /\b(API|CSV|UTC|URL|JSON|NDJSON|Signal Staging|Product Org Updates|Typeform|Free|Starter|Growth|Scale)\b/g;

  let all: { path: string; html: Part }[];
  beforeAll(async () => {
    const paths = [...PATHS.map((path) => HOME + path), "/w/"];
    all = await Promise.all(
      paths.map(async (path) => ({ path, html: readHtml(await (await page.request.get(path)).text()) })),
    );
  });

  /** The texts of these elements that are wrong, each with a page that has it. */
  function wrongTexts(selector: string, isRight: (text: string) => boolean): string[] {
    const found = all.flatMap(({ path, html }) => html.all(selector).map(({ text }) => [text, path] as const));
    const wrongOnes = new Map(found.filter(([text]) => !isRight(text.replaceAll(NAMES, ""))));
    return [...wrongOnes].map(([text, path]) => `“${text}” on ${path}`);
  }

  const isSentenceCase = (text: string) => !/.\b[A-Z]/.test(text);

  test("each button starts with a verb, in sentence case", () => {
    const isRight = (text: string) =>
      text === "…" || (BUTTONS.split(" ").includes(text.split(" ")[0] ?? "") && isSentenceCase(text));
    expect(wrongTexts("button, a.button, .menu-of > summary, .confirm > summary", isRight)).toEqual([]);
  });

  test("labels, column heads and the sidebar are in sentence case", () => {
    expect(
      wrongTexts("label, legend, th[scope=col], nav[aria-label=Workspace] a, .tabs a, h3", isSentenceCase),
    ).toEqual([]);
  });

  test("a form has the same verb on every page, and a list is filtered with Apply or Search", () => {
    const verbs = new Map<string, Set<string>>();
    for (const form of all.flatMap(({ html }) => html.all("form"))) {
      const route = (form.target ?? "").replaceAll(/[a-z]+_[0-9a-f-]{36}|[^/]+@[^/]+/g, "…");
      const name = form.attribute("data-filters") === undefined ? route : "a list";
      const buttons = form.buttons().filter((button) => button.attribute("type") !== "button");
      // A button with its own name sends the form elsewhere, such as to its preview.
      for (const { text } of buttons.filter((button) => button.attribute("name") === undefined)) {
        verbs.set(name, (verbs.get(name) ?? new Set()).add(text.split(" ")[0] ?? ""));
      }
    }
    const several = [...verbs].filter(([, of]) => of.size > 1).map(([route, of]) => [route, [...of].toSorted()]);
    expect(several).toEqual([["a list", ["Apply", "Search"]]]);
  });

  test("no page links to a person who does not exist", async () => {
    const links = all.flatMap(({ html }) => html.links().flatMap(({ target }) => target ?? []));
    const people = new Set(links.filter((target) => /\/people\/[^/]+%40[^/?#]+$/.test(target)));
    expect(people.size).toBeGreaterThan(10);
    const answers = await Promise.all(
      [...people].map(async (target) => [target, (await page.request.get(target)).status()] as const),
    );
    expect(answers.filter(([, status]) => status !== 200)).toEqual([]);
  });

  test("a slash separates breadcrumbs, on every page", () => {
    const crumbs = all.flatMap(({ html }) => html.all(".crumbs"));
    expect(crumbs.length).toBeGreaterThan(10);
    for (const part of crumbs)
      expect(part.text).toBe(
        part
          .links()
          .map(({ text }) => text)
          .join(" / "),
      );
    expect(all.filter(({ html }) => /[›»]/.test(html.text)).map(({ path }) => path)).toEqual([]);
  });
});

test.each([...PATHS.map((path) => HOME + path), "/sign-in"])("a first view weighs at most 60 KB: %s", async (path) => {
  // In a new tab: in the first one, the Live page still asks for new rows while the browser leaves it.
  const view = await context.newPage();
  const session = await context.newCDPSession(view);
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  // Late answers to the page before this one have no body any more.
  await page.goto("about:blank");
  const responses: Response[] = [];
  view.on("response", (response) => void responses.push(response));
  await view.goto(path);
  const weights = await Promise.all(responses.map(weight));
  await view.close();
  // The page, its style sheet and its script.
  expect(weights.length).toBeGreaterThanOrEqual(3);
  expect(weights.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(FIRST_VIEW_MAX_BYTES);
});

/**
 * Bytes of headers and body. The local runtime does not compress. Cloudflare compresses HTML, CSS and JavaScript for
 * browsers, so the body counts with its gzip size, the weakest compression in use there.
 */
async function weight(response: Response): Promise<number> {
  const { responseHeadersSize } = await response.request().sizes();
  return responseHeadersSize + gzipSync(await response.body()).byteLength;
}
