import { styleText } from "node:util";

export const bold = (text: string): string => styleText("bold", text);
export const dim = (text: string): string => styleText("dim", text);
const green = (text: string): string => styleText("green", text);
export const red = (text: string): string => styleText("red", text);

export function mark(good: boolean): string {
  return good ? green("✓") : red("✗");
}

/** A table with columns as wide as their widest cell; numbers are aligned right. */
export function table(headings: string[], rows: (string | number)[][]): string {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => String(row[column] ?? "").length)),
  );
  const line = (cells: (string | number)[]): string =>
    cells
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        const isNumber = rows.length > 0 && rows.every((row) => typeof row[column] === "number");
        return isNumber ? String(cell).padStart(width) : String(cell).padEnd(width);
      })
      .join("  ")
      .trimEnd();
  return [dim(`  ${line(headings)}`), ...rows.map((row) => `  ${line(row)}`)].join("\n");
}
