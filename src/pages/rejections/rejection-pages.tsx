/** Rejections: refused calls, by key and reason, with what the sender should change. */
import { keyNames } from "../../control/api-keys.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { PAGE_ROWS, REJECTIONS_KEPT } from "../../limits.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { readDayRange, shownRange } from "../day-range.ts";
import { pages, workspacePath } from "../pages-env.ts";
import { mayManage, page } from "../page.tsx";
import { isRefusalCode } from "../../http/refusal-table.ts";
import { filterRejections, groupRejections, pageOfRejections, type RejectionFilter } from "./rejection-list.ts";
import { RejectionsView } from "./rejections-view.tsx";

export const rejectionPages = pages.createApp().get("/", async (c) => {
  const { id } = c.get("workspace");
  const kept = await quotaCounter(c.env, id).rejections(REJECTIONS_KEPT);
  // Spec §1: only owners and admins may see keys; others get their ids, to ask by.
  const named = canManageKeys(c.get("role")) ? kept.map(({ keyId }) => keyId) : [];
  const names = await keyNames(c.get("db"), id, named);
  const { code, key, cursor } = c.req.query();
  const days = readDayRange(c.req.query());
  const filter: RejectionFilter = {
    days,
    ...(isRefusalCode(code) ? { code } : {}),
    ...(key === undefined || key === "" ? {} : { keyId: key }),
  };
  const query = {
    ...(filter.code === undefined ? {} : { code: filter.code }),
    ...(filter.keyId === undefined ? {} : { key: filter.keyId }),
    ...shownRange(days),
    ...(cursor === undefined ? {} : { cursor }),
  };
  const shown = filterRejections(kept, filter);
  const data = {
    path: workspacePath(c),
    manager: mayManage(c),
    kept: groupRejections(kept),
    groups: groupRejections(shown),
    isFull: kept.length === REJECTIONS_KEPT,
    keyNames: names,
    query,
    days,
    ...pageOfRejections(shown, { cursor: cursor ?? null, limit: PAGE_ROWS }),
    nowMs: Date.now(),
  };
  return page(c, { title: "Rejections", section: "rejections" }, <RejectionsView {...data} />);
});
