/** Takes lines that are gone off the lists of those visitors whom nobody knows: each list is written once. */
import type { Facts } from "../log/line.ts";
import { changeEntries } from "../people/timelines.ts";
import { visitorList } from "../people/visitor-keys.ts";
import type { ListKey } from "../people/visitor-keys.ts";

export class VisitorLists {
  readonly #gone = new Map<ListKey, Map<number, "gone">>();

  /** Notes a line that is to leave the lists on which recording (record-signals.ts) and linking put it. @param facts as they were. */
  remove(seq: number, { userId, anonymousId, owner }: Facts): void {
    if (userId !== null && (owner === null || owner.by === "anonymous_id")) {
      this.#remove(visitorList({ kind: "user_id", value: userId }), seq);
    }
    if (anonymousId !== null && owner === null) {
      this.#remove(visitorList({ kind: "anonymous_id", value: anonymousId }), seq);
    }
  }

  write(sql: SqlStorage): void {
    for (const [list, gone] of this.#gone) changeEntries(sql, list, "", gone);
    this.#gone.clear();
  }

  #remove(list: ListKey, seq: number): void {
    const gone = this.#gone.get(list);
    if (gone === undefined) this.#gone.set(list, new Map([[seq, "gone"]]));
    else gone.set(seq, "gone");
  }
}
