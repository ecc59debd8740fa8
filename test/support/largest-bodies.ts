/** The largest bodies that the service takes, in the alphabets and with the options that take the most room. */
import { BODY_MAX_BYTES, BODY_MAX_SIGNALS } from "../../src/limits.ts";
import { largestBulk, signal } from "../bench/signals.ts";

export interface LargestBody {
  title: string;
  /** The texts of its signals. */
  signals: () => string[];
  /** `{source}` of the path. */
  source?: string;
  idempotencyKey?: string;
  gzip?: true;
}

const EMOJI_SOURCE = "😀".repeat(255);
const LONG_KEY = "x".repeat(255);

const filled = (comment: string) => () => largestBulk(BODY_MAX_SIGNALS, BODY_MAX_BYTES, comment);

export const LARGEST_BODIES: readonly LargestBody[] = [
  { title: "10,000 signals, ASCII", signals: filled("x") },
  { title: "10,000 signals, one emoji each", signals: filled("😀") },
  { title: "10,000 signals, Cyrillic", signals: cyrillic },
  { title: "10,000 signals, Cyrillic, gzip", signals: cyrillic, gzip: true },
  {
    title: "10,000 signals, Cyrillic, an emoji source and a long Idempotency-Key",
    signals: cyrillic,
    source: EMOJI_SOURCE,
    idempotencyKey: LONG_KEY,
  },
  {
    title: "10,000 of the smallest signals, an emoji source and a long Idempotency-Key",
    signals: () => Array.from({ length: BODY_MAX_SIGNALS }, () => '{"event":"E"}'),
    source: EMOJI_SOURCE,
    idempotencyKey: LONG_KEY,
  },
  // A CDP posts as many in one array.
  {
    title: "4,000 events of 1.5 KB, Cyrillic, gzip",
    signals: () => Array.from({ length: 4_000 }, (_, n) => signal(n, { comments: "ж".repeat(600) })),
    gzip: true,
  },
];

/** The comments have letters of two bytes. */
function cyrillic(): string[] {
  const each = Math.floor(BODY_MAX_BYTES / BODY_MAX_SIGNALS) - 1;
  return Array.from({ length: BODY_MAX_SIGNALS }, (_, n) => {
    const room = each - Buffer.byteLength(signal(n, { comments: "" }));
    return signal(n, { comments: "ж".repeat(Math.floor(room / 2)) });
  });
}
