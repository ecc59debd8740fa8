/** What somebody who watches a workspace is sent, as JSON. */
export interface LiveMessage<Row> {
  /** In the order in which they came. */
  rows: Row[];
  /** What came besides. */
  more: number;
}
