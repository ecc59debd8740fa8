/** What every log keeps in its head besides lines; whoever keeps the log adds to it. */
export interface LogMeta {
  /** The longest span of a segment, in milliseconds: how far around its time a signal is looked for. */
  maxSpanMs: number;
}
