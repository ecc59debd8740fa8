/** The curve of a billing period against the limit and twice the limit: accepted, held on top, and the forecast. */
import { NO_VERDICTS, ordinalsTaken } from "../../domain/quota/quota.ts";
import { DAY_MS } from "../../domain/duration.ts";
import { scaleLinear, scaleUtc } from "d3-scale";
import { area, line } from "d3-shape";
import type { Pace } from "../../domain/quota/forecast.ts";
import type { CurvePoint } from "../../domain/quota/usage-day.ts";
import { Axes } from "../views/charts.tsx";
import { day, grouped } from "../kit/format.ts";

const WIDTH = 720;
const HEIGHT = 260;
const MARGIN = { top: 16, right: 12, bottom: 26, left: 48 };
/** Full days from which on a forecast counts for the height of the chart. */
const FORECAST_SCALES_AFTER_DAYS = 3;
const INNER_WIDTH = WIDTH - MARGIN.left - MARGIN.right;

interface UsageChartData {
  /** What is to be seen, in words. */
  label: string;
  curve: readonly CurvePoint[];
  periodStartMs: number;
  periodEndMs: number;
  signalLimit: number;
  /** The count at which refusals begin; null with overages on. */
  ceiling: number | null;
  /** The pace to forecast by; null: there is no forecast. */
  pace: Pace | null;
}

export function UsageChart({ label, curve, periodStartMs, periodEndMs, signalLimit, ceiling, pace }: UsageChartData) {
  const now = curve.at(-1) ?? { atMs: periodStartMs, ...NO_VERDICTS };
  const forecast = pace === null ? [] : forecastLine(now, pace.perDay, periodEndMs, ceiling);
  // A forecast from a few days may be far off: it leaves the chart, rather than flattening what is sure.
  const measured = pace !== null && pace.fullDays >= FORECAST_SCALES_AFTER_DAYS ? [...curve, ...forecast] : curve;
  const top = Math.max(1, ceiling ?? signalLimit, ...measured.map(ordinalsTaken));
  const x = scaleUtc([periodStartMs, periodEndMs], [MARGIN.left, WIDTH - MARGIN.right]);
  const y = scaleLinear([0, top], [HEIGHT - MARGIN.bottom, MARGIN.top]).nice(4);
  const limitY = y(signalLimit);
  const across = { x1: MARGIN.left, x2: WIDTH - MARGIN.right };
  const layer = (from: (point: CurvePoint) => number, to: (point: CurvePoint) => number) =>
    area<CurvePoint>(
      (point) => x(point.atMs),
      (point) => y(from(point)),
      (point) => y(to(point)),
    )([...curve]) ?? "";
  const total = (points: readonly CurvePoint[]) =>
    line<CurvePoint>(
      (point) => x(point.atMs),
      (point) => y(ordinalsTaken(point)),
    )([...points]) ?? "";
  const accepted = layer(
    () => 0,
    (point) => point.accepted,
  );
  const held = layer((point) => point.accepted, ordinalsTaken);
  return (
    <svg class="chart usage-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <clipPath id="within-limit">
        <rect x={MARGIN.left} y={limitY} width={INNER_WIDTH} height={Math.max(0, y(0) - limitY)} />
      </clipPath>
      <clipPath id="beyond-limit">
        <rect x={MARGIN.left} y={0} width={INNER_WIDTH} height={limitY} />
      </clipPath>
      <clipPath id="within-chart">
        <rect x={MARGIN.left} y={0} width={INNER_WIDTH} height={y(0)} />
      </clipPath>
      <Axes x={x} y={y} height={HEIGHT} />
      <path class="accepted" d={accepted} clip-path="url(#within-limit)" />
      <path class="overage" d={accepted} clip-path="url(#beyond-limit)" />
      <path class="held" d={held} />
      <path class="line" d={total(curve)} />
      {forecast.length > 0 && <path class="dashed" d={total(forecast)} clip-path="url(#within-chart)" />}
      {refusedOn(curve).map(({ atMs, used, refused }) => (
        <path class="bad" d={`M${x(atMs)} ${y(used) - 4}l-5 -9h10z`}>
          <title>{`${grouped(refused)} refused on ${day(atMs - 1)}`}</title>
        </path>
      ))}
      <line class="reference" {...across} y1={limitY} y2={limitY} />
      <text x={MARGIN.left + 6} y={limitY - 5}>{`Limit ${grouped(signalLimit)}`}</text>
      {ceiling !== null && ceiling > signalLimit && (
        <>
          <line class="reference bad" {...across} y1={y(ceiling)} y2={y(ceiling)} />
          <text x={MARGIN.left + 6} y={y(ceiling) - 5}>{`Twice the limit ${grouped(ceiling)}`}</text>
        </>
      )}
    </svg>
  );
}

/** The forecast from now to the period's end at this pace; flat from where signals would be refused. */
function forecastLine(now: CurvePoint, perDay: number, periodEndMs: number, ceiling: number | null): CurvePoint[] {
  const used = ordinalsTaken(now);
  const until = used + (perDay * Math.max(0, periodEndMs - now.atMs)) / DAY_MS;
  const at = (atMs: number, count: number): CurvePoint => ({ atMs, ...NO_VERDICTS, accepted: count });
  if (ceiling === null || until <= ceiling) return [at(now.atMs, used), at(periodEndMs, until)];
  const reached = perDay === 0 ? now.atMs : now.atMs + (Math.max(0, ceiling - used) / perDay) * DAY_MS;
  const most = Math.max(used, ceiling);
  return [at(now.atMs, used), at(reached, most), at(periodEndMs, most)];
}

/** The days on which signals were refused because they were over the limit. */
function refusedOn(curve: readonly CurvePoint[]): { atMs: number; used: number; refused: number }[] {
  return curve.flatMap((point, index) => {
    const refused = point.rejected - (curve[index - 1]?.rejected ?? 0);
    return refused > 0 ? [{ atMs: point.atMs, used: ordinalsTaken(point), refused }] : [];
  });
}
