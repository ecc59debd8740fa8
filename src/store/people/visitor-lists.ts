/** Takes lines off the lists of visitors' ids: each list is written once. */
import type { Facts, ListingId } from "../log/line.ts";
import { changeEntries } from "./timelines.ts";
import { visitorList } from "./visitor-keys.ts";
import type { ListKey } from "./visitor-keys.ts";

export class VisitorLists {
  readonly #gone = new Map<ListKey, Map<number, "gone">>();

  /** Takes a line off the lists that it says it stands on, but for `kept`. @param facts as they were. */
  remove(seq: number, { userId, anonymousId, listedBy }: Facts, kept: readonly ListingId[] = []): void {
    for (const kind of listedBy) {
      const value = kind === "user_id" ? userId : anonymousId;
      if (value !== null && !kept.includes(kind)) this.removeFrom(visitorList({ kind, value }), seq);
    }
  }

  removeFrom(list: ListKey, seq: number): void {
    const gone = this.#gone.get(list);
    if (gone === undefined) this.#gone.set(list, new Map([[seq, "gone"]]));
    else gone.set(seq, "gone");
  }

  write(sql: SqlStorage): void {
    for (const [list, gone] of this.#gone) changeEntries(sql, list, "", gone);
    this.#gone.clear();
  }
}
