/** The table of presets in docs/senders.md, between two comments of HTML. A unit test compares it with the document. */
import type { Preset } from "./preset.ts";

const BEGIN = "<!-- presets: begin (rendered from src/presets) -->";
const END = "<!-- presets: end -->";
const HEADINGS = ["Vendor", "Event", "Person", "Address", "Note"];

/** The document with a new table. @throws where the document lacks the comments. */
export function withSendersTable(document: string, presets: readonly Preset[]): string {
  const [begin, end] = [document.indexOf(BEGIN), document.indexOf(END)];
  if (begin === -1 || end < begin) throw new Error("The document lacks the comments around the table of presets.");
  return `${document.slice(0, begin + BEGIN.length)}\n\n${sendersTable(presets)}\n\n${document.slice(end)}`;
}

/** A table of Markdown whose columns are as wide as the formatter writes them. */
function sendersTable(presets: readonly Preset[]): string {
  const rows = [HEADINGS, ...presets.map(rowOf)];
  const widths = HEADINGS.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(HEADINGS), rule, ...rows.slice(1).map(line)].join("\n");
}

function rowOf({ name, documentation, events, person, address, answer, note = "" }: Preset): string[] {
  const answers = answer === 200 ? "Answered with 200." : "";
  return [`[${name}](${documentation})`, events, person, `\`…${address}\``, [note, answers].filter(Boolean).join(" ")];
}
