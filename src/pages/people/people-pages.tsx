/** People (spec §2.3): the list, one person, their deletion with a receipt, exports. */
import type { Context } from "hono";
import { iso } from "../../control/database.ts";
import { deletionAskedMs } from "../../control/deletions.ts";
import { ruleNames } from "../../control/stored-rules.ts";
import { PAGE_ROWS } from "../../limits.ts";
import type { PersonTimeline } from "../../store/protocol/people-and-accounts.ts";
import { deletePerson } from "../../workspace/delete-person.ts";
import { exportFile } from "../../workspace/export-file.ts";
import { signalStore } from "../../workspace/objects.ts";
import { pages, type PagesEnv, workspacePath, contextOf } from "../pages-env.ts";
import { formText } from "../form-text.ts";
import { readForm } from "../read-form.tsx";
import { readExport } from "./export-copy.ts";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { readPeopleQuery } from "./people-query.ts";
import { requireManager } from "../session/require-sign-in.ts";
import { DeletePersonView, NotBegunView, ReceiptView } from "./deletion-view.tsx";
import { PeopleView, personPath } from "./people-view.tsx";
import { PersonView } from "./person-view.tsx";

type Ctx = Context<PagesEnv>;

export const peoplePages = pages
  .createApp()
  .get("/", async (c) => {
    const { email } = c.req.query();
    // `?email=` is for links that know no more of a person: it leads to their page.
    if (email !== undefined) return c.redirect(personPath(workspacePath(c), email.trim().toLowerCase()), 303);
    const list = readPeopleQuery(c.req.query());
    const asked = { cursor: c.req.query("cursor") ?? null, limit: PAGE_ROWS };
    const people = await storeOf(c).findPeople(list.query, asked);
    const nobody = people.items.length === 0 && list.q.includes("@");
    const wasDeleted = nobody && (await storeOf(c).deletion(list.q.toLowerCase())) !== null;
    const shown = { base: workspacePath(c), list, people, wasDeleted, mayExport: mayManage(c), nowMs: Date.now() };
    return page(c, { title: "People", section: "people" }, <PeopleView {...shown} />);
  })
  .get("/export", requireManager, async (c) => {
    const asked = readExport(c.req.query());
    if (asked === null) return notFoundPage(c, "export");
    const { name, contentType, body } = await exportFile(contextOf(c), c.get("workspace").slug, asked);
    return c.body(body, 200, {
      "content-type": contentType,
      "content-disposition": `attachment; filename="${name}"`,
      "x-content-type-options": "nosniff",
    });
  })
  .get("/deletions/:deletion_id", async (c) => {
    const receipt = await storeOf(c).deletionById(c.req.param("deletion_id"));
    if (receipt === null) return notBegunOr404(c, { id: c.req.param("deletion_id") });
    const view = { base: workspacePath(c), email: null, receipt, isBack: false, nowMs: Date.now() };
    return page(c, { title: "Deletion receipt", section: "people" }, <ReceiptView {...view} />);
  })
  .get("/deletions/:deletion_id/download", async (c) => {
    const receipt = await storeOf(c).deletionById(c.req.param("deletion_id"));
    if (receipt === null) return notFoundPage(c, "deletion");
    const { requestedAtMs, finishedAtMs, ...counts } = receipt;
    const times = { requestedAt: iso(requestedAtMs), finishedAt: finishedAtMs === null ? null : iso(finishedAtMs) };
    return c.body(JSON.stringify({ workspace: c.get("workspace").id, ...counts, ...times }, null, 2), 200, {
      "content-type": "application/json",
      "content-disposition": `attachment; filename="${receipt.id}.json"`,
      "x-content-type-options": "nosniff",
    });
  })
  .get("/:email", async (c) => {
    const email = addressOf(c);
    const shown: PersonTimeline = c.req.query("show") === "scores" ? "scores" : "all";
    const cursor = cursorAsked(c);
    const found = await storeOf(c).personPage(email, shown, { cursor: cursor ?? null, limit: PAGE_ROWS });
    if (found === null) return receiptOr404(c, email);
    const ruleIds = found.timeline.items.flatMap(({ scores }) => scores.map(({ ruleId }) => ruleId));
    const rules = await ruleNames(c.get("db"), c.get("workspace").id, [...new Set(ruleIds)]);
    const view = { base: workspacePath(c), found, shown, cursor, rules, mayManage: mayManage(c), nowMs: Date.now() };
    return page(c, { title: email, section: "people" }, <PersonView {...view} />);
  })
  .get("/:email/delete", requireManager, async (c) => {
    const email = addressOf(c);
    if (!(await isThere(c, email))) return receiptOr404(c, email);
    return page(
      c,
      { title: "Delete a person", section: "people" },
      <DeletePersonView base={workspacePath(c)} email={email} typed="" />,
    );
  })
  .post("/:email/delete", requireManager, readForm(), async (c) => {
    const email = addressOf(c);
    const typed = formText(c.get("form"), "email");
    // A form that is sent twice must not delete twice: a second deletion would replace the receipt of the first.
    if (!(await isThere(c, email))) return receiptOr404(c, email);
    if (typed.trim().toLowerCase() !== email) {
      const error = "What you typed is not this person's email.";
      const again = { base: workspacePath(c), email, typed, error };
      return page(c, { title: "Delete a person", section: "people", status: 422 }, <DeletePersonView {...again} />);
    }
    await deletePerson(contextOf(c), email);
    return toReceipt(c, email);
  })
  .get("/:email/deletion", async (c) => {
    const email = addressOf(c);
    const [receipt, isBack] = await Promise.all([storeOf(c).deletion(email), isThere(c, email)]);
    if (receipt === null) return notBegunOr404(c, { email });
    const view = { base: workspacePath(c), email, receipt, isBack, nowMs: Date.now() };
    return page(c, { title: "Deletion receipt", section: "people" }, <ReceiptView {...view} />);
  });

function storeOf(c: Ctx) {
  return signalStore(c.env, c.get("workspace").id);
}

/** The email of the path, as the store has it. */
function addressOf(c: Ctx): string {
  return (c.req.param("email") ?? "").trim().toLowerCase();
}

function cursorAsked(c: Ctx): string | undefined {
  const cursor = c.req.query("cursor");
  return cursor !== undefined && /^\d{1,15}$/.test(cursor) ? cursor : undefined;
}

async function isThere(c: Ctx, email: string): Promise<boolean> {
  return (await storeOf(c).people({ email }, { cursor: null, limit: 1 })).items.length > 0;
}

async function receiptOr404(c: Ctx, email: string): Promise<Response> {
  return (await storeOf(c).deletion(email)) === null ? notFoundPage(c, "person") : toReceipt(c, email);
}

/** A deletion that D1 knows and the store does not: whoever asked for it was told of an error. */
async function notBegunOr404(c: Ctx, which: { id: string } | { email: string }): Promise<Response> {
  const nowMs = Date.now();
  const askedMs = await deletionAskedMs(c.get("db"), c.get("workspace").id, which, nowMs);
  if (askedMs === null) return notFoundPage(c, "deletion");
  const view = { base: workspacePath(c), email: "email" in which ? which.email : null, askedMs, nowMs };
  return page(c, { title: "Deletion receipt", section: "people" }, <NotBegunView {...view} />);
}

function toReceipt(c: Ctx, email: string): Response {
  return c.redirect(`${personPath(workspacePath(c), email)}/deletion`, 303);
}
