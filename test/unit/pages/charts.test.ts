/** The labels of charts. d3 has its own tests. */
import { scaleUtc } from "d3-scale";
import * as fc from "fast-check";
import { html } from "hono/html";
import { describe, expect, test } from "vitest";
import { NO_VERDICTS } from "../../../src/domain/quota/quota.ts";
import { DayBars, Sparkline, timeLabels } from "../../../src/pages/kit/charts.tsx";
import { readHtml } from "../../support/html.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const TO = Date.parse("2031-03-14T20:58:00Z");

/** The least widths of a plot on a phone, of half a page and of a page, in pixels. */
const [PHONE, ...WIDER] = [236, 404, 788] as const;
/** A digit of DejaVu Sans, the widest of the common system fonts, takes 0.636 of the font size; the mean letter less. */
const widthOf = (text: string): number => text.length * 0.636 * 12;

const labelsOf = (toMs: number, spanMs: number, width: number) =>
  timeLabels(scaleUtc([toMs - spanMs, toMs], [0, width]));

/** The faults of a chart's labels, at each width. The smallest phone has no room for a second label in a few cases. */
function faults(toMs: number, spanMs: number, least: number): string[] {
  return [PHONE, ...WIDER].flatMap((width) => {
    const labels = labelsOf(toMs, spanMs, width);
    const isFew = labels.length < (width === PHONE ? least / 2 : least);
    const found = isFew ? [`${labels.length} labels`] : [];
    // The labels of the vertical axis end here.
    let free = -8;
    for (const { center, text } of labels) {
      if (center - widthOf(text) / 2 <= free) found.push(`${text} overlaps what is left of it`);
      free = center + widthOf(text) / 2;
    }
    if (free > width + 12) found.push("the last label leaves the chart");
    if (labels.some(({ text }, index) => text === labels[index - 1]?.text)) found.push("a label is repeated");
    return found.map((fault) => `${width}: ${fault}`);
  });
}

describe("the time labels of a chart", () => {
  test.each([
    ["an hour, without the label at the vertical axis", HOUR, ["20:15", "20:30", "20:45"]],
    ["two days, with one label a day", 2 * DAY, ["Mar 13", "Mar 14"]],
    ["a week, with a label every second day", 7 * DAY, ["Mar 9", "Mar 11", "Mar 13"]],
    ["a year", 366 * DAY, ["Jul 2030", "Oct 2030", "Jan 2031"]],
    ["five years, with a label every second year", 5 * 366 * DAY, ["Jan 2027", "Jan 2029"]],
  ])("cover %s", (_, spanMs, texts) => {
    expect(labelsOf(TO, spanMs, 296).map(({ text }) => text)).toEqual(texts);
  });

  test("never overlap each other or the vertical axis, and are at least two from an hour on", () => {
    const toMs = fc.integer({ min: Date.UTC(2020, 0), max: Date.UTC(2060, 0) });
    const spans = fc.oneof(
      fc.tuple(fc.integer({ min: 1, max: HOUR }), fc.constant(0)),
      ...[3 * HOUR, 3 * DAY, 90 * DAY, 20 * 366 * DAY].map((max) =>
        fc.tuple(fc.integer({ min: HOUR, max }), fc.constant(2)),
      ),
    );
    fc.assert(
      fc.property(toMs, spans, (to, [spanMs, least]) => {
        expect(faults(to, spanMs, least)).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });
});

test("the bars of a day stand on each other, before a few lines at round values", async () => {
  const days = [{ ...NO_VERDICTS, atMs: TO, accepted: 300, held: 200, rejected: 100 }];
  const chart = readHtml(await html`${DayBars({ label: "Days", days, legend: {} })}`).only(".chart");
  expect(chart.all("line.grid")).toHaveLength(4);
  const bars = chart.all("rect").map((bar) => [Number(bar.attribute("y")), Number(bar.attribute("height"))] as const);
  const heights = bars.map(([, height]) => height);
  expect(heights.map((height) => Math.round((6 * height) / (heights[0] ?? 0)))).toEqual([6, 4, 2]);
  const tops = bars.map(([top]) => top);
  for (const [index, [top, height]] of bars.entries())
    if (index > 0) expect(top + height).toBeCloseTo(tops[index - 1] ?? 0);
});

test("a small chart shows a count of zero as a low quiet bar, and every other count above it", async () => {
  const chart = readHtml(await html`${Sparkline({ values: [0, 1, 1_000], label: "Calls" })}`).only("svg");
  expect(chart.attribute("aria-label")).toBe("Calls");
  const bars = chart.all("rect").map((bar) => [bar.attribute("class"), Number(bar.attribute("height"))]);
  expect(bars).toEqual([
    ["rest", 1],
    [undefined, 2],
    [undefined, 20],
  ]);
});
