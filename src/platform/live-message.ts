/** What somebody who watches a workspace is sent, as JSON. */
export interface LiveMessage<Row> {
  /** What has happened, in the order in which it came. */
  rows: Row[];
  /** How much more came than `rows` tells of. */
  more: number;
}
