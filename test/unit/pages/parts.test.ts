/** What the small parts of pages mean: their look, their names for screen readers, and the times and numbers in them. */
import { html } from "hono/html";
import type { Child } from "hono/jsx";
import { afterAll, describe, expect, test, vi } from "vitest";
import {
  Badge,
  Clock,
  CopyId,
  CopyText,
  Count,
  Day,
  EmailText,
  Empty,
  ExactTime,
  Json,
  Meter,
  Notice,
  OneLine,
  Panel,
  ShareBar,
  shareText,
  ShortId,
  Stat,
  StatusBadge,
  Table,
  Tabs,
  Time,
  Timeline,
  ValueList,
  WithCode,
} from "../../../src/pages/kit/parts.tsx";
import { readHtml } from "../../support/html.ts";

const NOW = Date.UTC(2031, 2, 5, 10, 35, 12, 345);
const MINUTE = 60_000;

// Before the tables of the tests, which contain times.
vi.useFakeTimers({ toFake: ["Date"], now: NOW });
afterAll(() => void vi.useRealTimers());

/** The attribute of each element that the selector finds; `text`: its text. */
async function found(part: Child, selector: string, attribute: string): Promise<(string | undefined)[]> {
  const elements = readHtml(await html`${part}`).all(selector);
  return elements.map((element) => (attribute === "text" ? element.text : element.attribute(attribute)));
}

const EXACT = "Mar 5, 2031, 10:35:12 AM UTC";

test.each<[string, Child, string, string, unknown[]]>([
  ["a time says how long ago", Time({ ms: NOW - 3 * MINUTE }), "time", "text", ["3 minutes ago"]],
  ["and has the exact time", Time({ ms: NOW }), "time", "title", [EXACT]],
  ["for scripts too", Time({ ms: NOW }), "time", "datetime", ["2031-03-05T10:35:12.345Z"]],
  ["a clock has hours and minutes", Clock({ ms: NOW }), "time", "text", ["10:35"]],
  ["and the exact time", Clock({ ms: NOW }), "time", "title", [EXACT]],
  ["a day is today", Day({ ms: NOW }), "time", "text", ["Today"]],
  ["or yesterday", Day({ ms: NOW - 24 * 60 * MINUTE }), "time", "text", ["Yesterday"]],
  ["or a date", Day({ ms: NOW - 48 * 60 * MINUTE }), "time", "text", ["Mar 3, 2031"]],
  ["without a time", Day({ ms: NOW }), "time", "datetime", ["2031-03-05"]],
  ["an exact time has its day", ExactTime({ ms: NOW }), "time", "text", ["Mar 5, 2031, 10:35:12.345 UTC"]],
  ["unless it is known", ExactTime({ ms: NOW, fromMs: NOW - 1 }), "time", "text", ["10:35:12.345 UTC"]],
  ["or another one", ExactTime({ ms: NOW, fromMs: NOW - 24 * 60 * MINUTE }), "time", "text", [/^Mar 5, 2031, /]],
  ["a badge is quiet", Badge({ children: "x" }), "span", "class", ["badge quiet"]],
  ["or has a tone", Badge({ tone: "bad", children: "x" }), "span", "class", ["badge bad"]],
  ["a status has its tone", StatusBadge({ status: "held" }), "span", "class", ["badge warn"]],
  ["and its meaning", StatusBadge({ status: "dead" }), "span", "title", [/could not be processed/]],
  ["a panel has a heading", Panel({ title: "T", actions: "A" }), ".panel-head", "text", ["T A"]],
  ["or none", Panel({ children: "c" }), ".panel-head, h2", "text", []],
  ["a list is a panel without padding", Panel({ list: true }), "section", "class", ["panel list"]],
  ["the current tab is marked", tabs(), "a", "aria-current", [undefined, "page"]],
  ["a figure groups its digits", Stat({ label: "l", value: 12_345 }), "dd", "text", ["12,345"]],
  ["with a note", Stat({ label: "l", value: 1, note: "n" }), "small", "text", ["n"]],
  ["or none", Stat({ label: "l", value: 1 }), "small", "text", []],
  ["the figure of the page is large", Stat({ label: "l", value: 1, lead: true }), "div", "class", ["stat lead"]],
  ["others are not", Stat({ label: "l", value: 1 }), "div", "class", ["stat"]],
  ["a bar of shares has a part for each", ShareBar({ parts: [3, 1], label: "l" }), "rect", "width", ["75", "25"]],
  ["side by side", ShareBar({ parts: [3, 1], label: "l" }), "rect", "x", ["0", "75"]],
  ["and says them in words", ShareBar({ parts: [1], label: "l" }), "svg", "aria-label", ["l"]],
  ["values have their names", ValueList({ of: [["n", "v"], false, ["empty", ""]] }), "dt, dd", "text", ["n", "v"]],
  ["code stands between backticks", WithCode({ text: "a `b` c `d`" }), "code", "text", ["b", "d"]],
  ["a short id has the whole id", ShortId({ id: "sig_1" }), "code", "title", ["sig_1"]],
  ["an id can be copied", CopyId({ id: "sig_1", label: "signal id" }), "button", "data-copy", ["#signal-id"]],
  ["from where it stands", CopyId({ id: "sig_1", label: "signal id" }), "code", "id", ["signal-id"]],
  ["with a name", CopyId({ id: "sig_1", label: "signal id" }), "button", "aria-label", ["Copy signal id"]],
  ["a name on one line has all of it", OneLine({ text: "long" }), "span", "title", ["long"]],
  ["an email breaks before its domain", EmailText({ text: "a@b.example" }), ".domain", "text", ["@b.example"]],
  ["a text without domain does not", EmailText({ text: "a" }), ".domain", "text", []],
  ["an empty state has a text", Empty({ title: "t", text: "x" }), "p", "text", ["x"]],
  ["or none", Empty({ title: "t" }), "p", "text", []],
  ["a bad notice interrupts", Notice({ tone: "bad" }), "div", "role", ["alert"]],
  ["others do not", Notice({ tone: "warn" }), "div", "role", ["status"]],
  ["its tone is its look", Notice({ tone: "warn" }), "div", "class", ["notice warn"]],
  ["a notice informs", Notice({ title: "t", text: "x" }), "div", "class", ["notice info"]],
  [
    "long JSON is cut",
    Json({ value: "x".repeat(1_012), label: "l", characters: 10 }),
    "pre",
    "text",
    [/\(1,002 more\)/],
  ],
  ["short JSON is not", Json({ value: "x".repeat(10), label: "l", characters: 10 }), "pre", "text", ["xxxxxxxxxx"]],
  ["and it can be reached by keyboard", Json({ value: {}, label: "l" }), "pre", "tabindex", ["0"]],
  ["a text is copied by its id", CopyText({ id: "url", label: "URL", text: "t" }), "button", "data-copy", ["#url"]],
  ["in a line", CopyText({ id: "url", label: "URL", text: "t" }), "output", "aria-label", ["URL"]],
  ["or a block", CopyText({ id: "url", label: "URL", text: "t", block: true }), "pre", "aria-label", ["URL"]],
  ["none is quiet", Count({ value: 0 }), ".quiet", "text", ["0"]],
  ["some are not", Count({ value: 1_000 }), ".quiet", "text", []],
  ["a quiet step has no mark", timeline(), "li", "class", [undefined, "bad"]],
  ["steps have relative times", timeline(), "time", "text", ["just now"]],
  ["or exact ones", timeline(NOW - 1_500), ".at-end", "text", [/^\+1\.50 s · 10:35:12\.345 UTC$/]],
])("%s", async (_, part, selector, attribute, expected) => {
  const like = expected.map((text) => (text instanceof RegExp ? (expect.stringMatching(text) as unknown) : text));
  expect(await found(part, selector, attribute)).toEqual(like);
});

function tabs(): Child {
  return Tabs({
    label: "l",
    tabs: [
      { href: "/a", text: "a", current: false },
      { href: "/b", text: "b", current: true },
    ],
  });
}

function timeline(fromMs?: number): Child {
  const steps = [
    { title: "none", text: "" },
    { title: "now", ms: NOW, tone: "bad", text: "" },
  ] as const;
  return Timeline({ steps, ...(fromMs !== undefined && { fromMs }) });
}

test.each([
  [1, 100, "1%"],
  [99, 10_000, "<1%"],
  [155, 1_000, "16%"],
])("%d of %d is %s", (part, sum, text) => {
  expect(shareText(part, sum)).toBe(text);
});

describe("a meter", () => {
  const meter = (share: number, mark?: number) =>
    Meter({ share, label: "l", beyond: "bad", ...(mark !== undefined && { mark }) });

  test.each<[string, Child, (string | undefined)[][]]>([
    ["below its limit is as long as its share", meter(0.25), [["25", undefined]]],
    ["that is empty has no length", meter(-1), [["0", undefined]]],
    ["at its end has the tone of what is beyond", meter(1.5), [["100", "bad"]]],
    ["below a mark has no tone", meter(0.25, 0.5), [["25", undefined]]],
    [
      "beyond a mark has the tone from there on",
      meter(0.75, 0.5),
      [
        ["50", undefined],
        ["25", "bad"],
      ],
    ],
    [
      "at the end beyond a mark has the tone from there on",
      meter(2, 0.5),
      [
        ["50", undefined],
        ["50", "bad"],
      ],
    ],
  ])("%s", async (_, part, expected) => {
    const [widths, tones] = [await found(part, "rect", "width"), await found(part, "rect", "class")];
    expect(widths.slice(1).map((width, index) => [width, tones[index + 1]])).toEqual(expected);
  });

  test("marks a limit before its end", async () => {
    expect([await found(meter(0.75, 0.5), "line.mark", "x1"), await found(meter(0.75), "line.mark", "x1")]).toEqual([
      ["50"],
      [],
    ]);
  });
});

describe("a table", () => {
  const rows = [{ name: "n", points: 1, note: "" }];
  const make = (current: string) =>
    Table({
      caption: "c",
      rows,
      href: ({ name }) => `/${name}`,
      order: { current, href: (sort) => `?sort=${sort}` },
      columns: [
        { head: "Name", cell: ({ name }) => name, sorts: ["name"] },
        {
          head: "Points",
          cell: ({ points }) => points,
          kind: "number",
          sorts: ["points", "points_up"],
          drop: "narrow",
        },
        { head: "Last seen", cell: () => "s", sorts: ["seen"], drop: "phone" },
        { head: "", cell: () => "b", kind: "actions" },
        { head: "Note", cell: ({ note }) => note },
      ],
    });

  test.each<[string, string, string, unknown[]]>([
    ["leaves out a column whose cells are empty", "th[scope=col]", "text", ["Name", "Points", "Last seen", "Actions"]],
    ["has a heading for actions that only screen readers read", "thead .visually-hidden", "text", ["Actions"]],
    [
      "has classes for kinds, and for columns that leave",
      "td",
      "class",
      ["number narrow-drop", "phone-drop", "actions"],
    ],
    ["has labels for short values on a phone", "td", "data-label", ["Points", "Last seen", undefined]],
    ["links its rows", "tbody a.row-link", "href", ["/n"]],
    ["has a caption", "caption", "text", ["c"]],
  ])("%s", async (_, selector, attribute, expected) => {
    expect(await found(make("other"), selector, attribute)).toEqual(expected);
  });

  test.each([
    ["points", ["?sort=name", "?sort=points_up", "?sort=seen"], [undefined, "descending", undefined, undefined]],
    ["points_up", ["?sort=name", "?sort=points", "?sort=seen"], [undefined, "ascending", undefined, undefined]],
    ["name", ["?sort=name", "?sort=points", "?sort=seen"], ["ascending", undefined, undefined, undefined]],
    ["seen", ["?sort=name", "?sort=points", "?sort=seen"], [undefined, undefined, "descending", undefined]],
  ])("in the order %s says so, and offers the others", async (current, links, orders) => {
    const part = make(current);
    expect([await found(part, "thead a", "href"), await found(part, "thead th", "aria-sort")]).toEqual([links, orders]);
  });

  test("without rows shows its empty state", async () => {
    expect(await found(Table({ caption: "c", rows: [], columns: [], empty: "none" }), "table", "text")).toEqual([]);
  });
});
