/**
 * Takes lines that are gone off the lists of those visitors whom nobody knows: each list is written once. With the last line
 * that is listed under an id, the pairs of the id leave too.
 */
import type { Facts } from "../log/line.ts";
import { deletePairs } from "../people/dropped-ids.ts";
import { pairedIds } from "../people/identities.ts";
import { changeEntries, hasEntries } from "../people/timelines.ts";
import { visitorKey, visitorList } from "../people/visitor-keys.ts";
import type { ListKey, VisitorId } from "../people/visitor-keys.ts";

export class VisitorLists {
  readonly #gone = new Map<ListKey, Map<number, "gone">>();
  /** The ids that these lines name, whoever's they are. */
  readonly #ids = new Map<ListKey, VisitorId>();

  /** Notes a line that is to leave the lists on which recording (record-signals.ts) and linking put it. @param facts as they were. */
  remove(seq: number, { userId, anonymousId, owner }: Facts): void {
    const isOpen = owner === null || owner.by === "anonymous_id";
    if (userId !== null) this.#remove({ kind: "user_id", value: userId }, seq, isOpen);
    if (anonymousId !== null) this.#remove({ kind: "anonymous_id", value: anonymousId }, seq, owner === null);
  }

  write(sql: SqlStorage): void {
    for (const [list, gone] of this.#gone) changeEntries(sql, list, "", gone);
    for (const id of pairedIds(sql, [...this.#ids.values()])) {
      if (!hasEntries(sql, visitorList(id))) deletePairs(sql, visitorKey(id));
    }
    this.#gone.clear();
    this.#ids.clear();
  }

  #remove(id: VisitorId, seq: number, isListed: boolean): void {
    const list = visitorList(id);
    this.#ids.set(list, id);
    if (!isListed) return;
    const gone = this.#gone.get(list);
    if (gone === undefined) this.#gone.set(list, new Map([[seq, "gone"]]));
    else gone.set(seq, "gone");
  }
}
