/** Takes lines off the lists of visitors' ids: each list is written once. */
import type { Facts, ListingId } from "../log/line.ts";
import { deletePairs } from "./dropped-ids.ts";
import { pairedIds } from "./identities.ts";
import { changeEntries, hasEntries } from "./timelines.ts";
import { visitorKey, visitorList } from "./visitor-keys.ts";
import type { ListKey, VisitorId } from "./visitor-keys.ts";

export class VisitorLists {
  readonly #gone = new Map<ListKey, Map<number, "gone">>();
  /** Ids of lines that are no longer stored, with any owner. */
  readonly #ids = new Map<ListKey, VisitorId>();

  /** Removes a line from its lists, except `kept`. @param facts before the change. */
  remove(seq: number, { userId, anonymousId, listedBy }: Facts, kept: readonly ListingId[] = []): void {
    for (const kind of listedBy) {
      const value = kind === "user_id" ? userId : anonymousId;
      if (value !== null && !kept.includes(kind)) this.removeFrom(visitorList({ kind, value }), seq);
    }
  }

  /** Takes a line that is no longer stored off all its lists. With the last line of an id, the pairs of the id leave too. */
  drop(seq: number, facts: Facts): void {
    this.remove(seq, facts);
    for (const kind of ["user_id", "anonymous_id"] as const) {
      const value = kind === "user_id" ? facts.userId : facts.anonymousId;
      if (value !== null) this.#ids.set(visitorList({ kind, value }), { kind, value });
    }
  }

  removeFrom(list: ListKey, seq: number): void {
    const gone = this.#gone.get(list);
    if (gone === undefined) this.#gone.set(list, new Map([[seq, "gone"]]));
    else gone.set(seq, "gone");
  }

  write(sql: SqlStorage): void {
    for (const [list, gone] of this.#gone) changeEntries(sql, list, "", gone);
    for (const id of pairedIds(sql, [...this.#ids.values()])) {
      if (!hasEntries(sql, visitorList(id))) deletePairs(sql, visitorKey(id));
    }
    this.#gone.clear();
    this.#ids.clear();
  }
}
