/** Problems of a page that people see: errors of accessibility, and contents that are too wide, cut or look like others. */
import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "playwright-core";
import { SIZES } from "./browser.ts";

const LOOKS = (["light", "dark"] as const).flatMap((colorScheme) =>
  (["wide", "narrow"] as const).map((size) => ({ colorScheme, size })),
);

/** The problems of the shown page, in each look. */
export async function problems(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const { colorScheme, size } of LOOKS) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(SIZES[size]);
    const inLook = [...(await violations(page)), ...(await overflow(page)), ...(await misplaced(page))];
    found.push(...inLook.map((problem) => `${colorScheme}, ${size}: ${problem}`));
  }
  await page.setViewportSize(SIZES.large);
  const onLarge = [...(await overflow(page)), ...(await misplaced(page))];
  found.push(...onLarge.map((problem) => `large: ${problem}`));
  return found;
}

/**
 * Serious accessibility errors with their elements. The pages have no frames, so that the faster check is sufficient.
 */
async function violations(page: Page): Promise<string[]> {
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ["violations"] });
  const { violations: found } = await axe.analyze();
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, any }) => `${id}: ${html} ${any[0]?.message ?? ""}`));
}

export async function overflow(of: Page): Promise<string[]> {
  const { scrollWidth, clientWidth } = await of.evaluate<{ scrollWidth: number; clientWidth: number }>(
    "({ scrollWidth: document.documentElement.scrollWidth, clientWidth: document.documentElement.clientWidth })",
  );
  const tables = await of.evaluate<string[]>(
    `[...document.querySelectorAll(".table")]
      .filter((table) => table.checkVisibility() && table.scrollWidth > table.clientWidth)
      .map((table) => table.querySelector("caption").textContent + " scrolls sideways")`,
  );
  return [
    ...(scrollWidth > clientWidth ? [`${scrollWidth} pixels wide on ${clientWidth}`] : []),
    ...tables,
    ...(await unreadable(of)),
    ...(await stickingOut(of)),
    ...(await linksLikeText(of)),
  ];
}

/** Unreadable content: cells that cut their label on a phone, and overlapping labels of an axis. */
export function unreadable(of: Page): Promise<string[]> {
  return of.evaluate<string[]>(`(() => {
    const cells = [...document.querySelectorAll(".table tbody > tr > *")].filter((cell) => cell.scrollHeight > cell.clientHeight + 1);
    const meet = ([a, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    const charts = [...document.querySelectorAll("svg.chart")].flatMap((chart) => {
      const boxes = [...chart.querySelectorAll("text")].map((text) => text.getBoundingClientRect());
      const pairs = boxes.flatMap((box, index) => boxes.slice(index + 1).map((next) => [box, next]));
      return pairs.some(meet) ? [chart] : [];
    });
    return [
      ...cells.map((cell) => "a cell cuts " + cell.dataset.label + ": " + cell.textContent),
      ...charts.map((chart) => "texts meet in: " + chart.getAttribute("aria-label")),
    ];
  })()`);
}

/** Texts that are wider than the box that holds them, such as a panel. A box that scrolls or cuts its text on purpose may. */
function stickingOut(of: Page): Promise<string[]> {
  return of.evaluate<string[]>(`(() => {
    const boxOf = (element) => (getComputedStyle(element).display === "inline" ? boxOf(element.parentElement) : element);
    const found = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode() !== null) {
      const text = texts.currentNode;
      if (text.data.trim() === "" || !text.parentElement.checkVisibility() || text.parentElement.closest("svg")) continue;
      const box = boxOf(text.parentElement);
      if (getComputedStyle(box).overflowX !== "visible") continue;
      const content = document.createRange();
      content.selectNode(text);
      const [own, outer] = [content.getBoundingClientRect(), box.getBoundingClientRect()];
      if (own.right > outer.right + 1 || own.left < outer.left - 1) found.push("sticks out of its box: " + text.data.trim());
    }
    return found;
  })()`);
}

/**
 * Links that look like the text around them: in the middle of a text only an underline shows them to everybody. axe-core
 * does not decide where the text has parts, such as bold words.
 */
function linksLikeText(of: Page): Promise<string[]> {
  return of.evaluate<string[]>(`(() => {
    const isInline = (element) => getComputedStyle(element).display === "inline";
    const blockOf = (element) => (isInline(element) ? blockOf(element.parentElement) : element);
    const hasTextBeside = (link) => {
      const block = blockOf(link);
      const texts = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
      while (texts.nextNode() !== null) {
        const { data, parentElement } = texts.currentNode;
        if (/[\\p{L}\\p{N}]/u.test(data) && !parentElement.closest("a, button") && blockOf(parentElement) === block) return true;
      }
      return false;
    };
    return [...document.querySelectorAll("a")]
      .filter((link) => isInline(link) && link.checkVisibility() && getComputedStyle(link).textDecorationLine !== "underline")
      .filter(hasTextBeside)
      .map((link) => "a link looks like the text around it: " + link.outerHTML);
  })()`);
}

/** Figures and columns without anything to see, and values whose label and value are not on one line. */
async function misplaced(of: Page): Promise<string[]> {
  return [...(await invisible(of)), ...(await offBaseline(of))];
}

/** Values without a box, and columns of a table in which no cell has content with a box. */
function invisible(of: Page): Promise<string[]> {
  return of.evaluate<string[]>(`(() => {
    const shows = (element) => {
      const content = document.createRange();
      content.selectNodeContents(element);
      return [...content.getClientRects()].some(({ width, height }) => width > 0 && height > 0);
    };
    const values = [...document.querySelectorAll("dd")].filter((value) => value.checkVisibility() && !shows(value));
    const columns = [...document.querySelectorAll("table")].flatMap((table) => {
      const rows = [...table.querySelectorAll("tbody tr")].filter((row) => row.checkVisibility());
      return [...table.querySelectorAll("thead th")].filter((head, column) => {
        const cells = rows.map((row) => row.children[column]).filter((cell) => cell.checkVisibility());
        return cells.some(({ childNodes }) => childNodes.length > 0) && !cells.some(shows);
      });
    });
    return [
      ...values.map((value) => "nothing to see in: " + value.innerHTML.slice(0, 80)),
      ...columns.map((head) => "nothing to see in the column: " + head.textContent),
    ];
  })()`);
}

/** Values whose label stands higher or lower than the first line of their value. */
function offBaseline(of: Page): Promise<string[]> {
  return of.evaluate<string[]>(`(() => {
    // An empty inline block stands on the baseline of its line.
    const baselineOf = (element) => {
      const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
      while (texts.nextNode() !== null) {
        const text = texts.currentNode;
        if (text.data.trim() === "" || !text.parentElement.checkVisibility()) continue;
        const probe = document.createElement("span");
        probe.style.display = "inline-block";
        text.before(probe);
        const { bottom } = probe.getBoundingClientRect();
        probe.remove();
        return bottom;
      }
      return null;
    };
    return [...document.querySelectorAll(".value-list > dt")].flatMap((label) => {
      const [own, other] = [baselineOf(label), baselineOf(label.nextElementSibling)];
      if (own === null || other === null || Math.abs(own - other) < 0.5) return [];
      return [label.textContent + " is " + (other - own).toFixed(1) + " pixels above its value"];
    });
  })()`);
}
