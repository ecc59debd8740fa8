/** The figures of the benches: measurements of the store next to their targets, and medians. */

export interface StoreFigure {
  name: string;
  value: number;
  unit: "rows" | "bytes" | "MB" | "µs" | "ms" | "s" | "×" | "signals";
  /** The target, if any. */
  atMost?: number;
  atLeast?: number;
}

/** One part of the report. */
export interface StorePart {
  title: string;
  figures: StoreFigure[];
  /** The basis of the figures. */
  notes: string[];
}

/** Figures that miss their targets or are no numbers. */
export function missed(parts: readonly StorePart[]): string[] {
  return parts
    .flatMap(({ figures }) => figures)
    .filter((figure) => !isMet(figure))
    .map((figure) => `store: ${figure.name}: ${shown(figure)}, the target is ${target(figure)}`);
}

export function isMet({ value, atMost, atLeast }: StoreFigure): boolean {
  return !Number.isNaN(value) && value <= (atMost ?? Number.POSITIVE_INFINITY) && value >= (atLeast ?? 0);
}

export function shown({ value, unit }: StoreFigure): string {
  const digits = unit === "rows" || unit === "×" || unit === "s" ? 2 : Math.abs(value) < 10 ? 1 : 0;
  return `${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
}

export function target({ atMost, atLeast, unit }: StoreFigure): string {
  if (atMost !== undefined) return `≤ ${atMost.toLocaleString("en")} ${unit}`;
  return atLeast === undefined ? "–" : `≥ ${atLeast} ${unit}`;
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
