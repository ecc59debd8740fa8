/** Settings › Activity: the audit log. Whoever may not see API keys (spec §1) and notifications sees nothing of them here. */
import { listAudit } from "../../control/audit.ts";
import { keyNames } from "../../control/api-keys.ts";
import { planNames } from "../../control/plans.ts";
import { listMembers } from "../../control/members.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { PAGE_ROWS } from "../../limits.ts";
import { readKeyFilter } from "../key-filter.ts";
import { readActivityQuery } from "./activity-query.ts";
import { pages, workspacePath } from "../pages-env.ts";
import { page } from "../page.tsx";
import { ActivityView } from "./activity-view.tsx";

/** Members offered as names to filter the audit log by. */
const AUDIT_ACTORS_OFFERED = 100;

export const activityPages = pages.createApp().get("/", async (c) => {
  const [db, { id }] = [c.get("db"), c.get("workspace")];
  const keyFilter = canManageKeys(c.get("role")) ? await readKeyFilter(db, id, c.req.query()) : null;
  const asked = readActivityQuery(c.req.query(), keyFilter);
  const [entries, members, plans] = await Promise.all([
    listAudit(db, id, asked.filter, { cursor: c.req.query("cursor") ?? null, limit: PAGE_ROWS }),
    listMembers(db, id, { cursor: null, limit: AUDIT_ACTORS_OFFERED }),
    planNames(db),
  ]);
  const targets = keyFilter === null ? [] : entries.items.map(({ target }) => target);
  const keys = await keyNames(db, id, targets);
  const actors = ["operator", ...members.items.map(({ email }) => email)];
  const view = { base: workspacePath(c), asked, entries, actors, keyFilter, keys, plans, nowMs: Date.now() };
  return page(c, { title: "Activity", section: "activity" }, <ActivityView {...view} />);
});
