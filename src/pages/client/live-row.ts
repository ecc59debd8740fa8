/** A row of the live page: the same as live/live-view.tsx makes. */
import type { LiveItem } from "../live/live-item.ts";
import { localTimes } from "./times.ts";

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** @param page carries the badges as templates and the address of a signal's page. */
export function liveRow(page: HTMLElement, item: LiveItem): HTMLTableRowElement {
  const time = document.createElement("time");
  time.dateTime = new Date(item.atMs).toISOString();
  time.textContent = clock.format(item.atMs);
  time.className = "nowrap";
  const badge = page.querySelector<HTMLTemplateElement>(`template[data-live-badge="${item.status}"]`);
  const row = document.createElement("tr");
  row.dataset["key"] = item.key;
  row.dataset["status"] = item.status;
  row.append(
    cell(time),
    cell(badge?.content.cloneNode(true) ?? item.status),
    cell(item.signalId === null ? item.what : link(`${page.dataset["liveSignals"] ?? ""}${item.signalId}`, item.what)),
    cell(item.email),
    cell(item.from),
    cell(clamped(item.reason)),
  );
  row.cells[2]?.classList.add("event");
  row.cells[3]?.classList.add("event");
  row.cells[4]?.classList.add("what");
  row.cells[5]?.classList.add("why");
  localTimes(row);
  return row;
}

/** A row that stands for lines that came faster than anyone reads. */
export function moreRow(more: number): HTMLTableRowElement {
  const row = document.createElement("tr");
  const all = cell(`and ${more} more`);
  all.colSpan = 6;
  all.className = "quiet small";
  row.append(all);
  return row;
}

function cell(content: Node | string): HTMLTableCellElement {
  const made = document.createElement("td");
  made.append(content);
  return made;
}

/** A long text of which one sees the beginning: the same markup as Clamped of views/parts.tsx. */
function clamped(text: string): Node | string {
  if (text === "") return text;
  const made = document.createElement("details");
  made.className = "clamp";
  const summary = document.createElement("summary");
  summary.textContent = text;
  made.append(summary);
  return made;
}

function link(href: string, text: string): HTMLAnchorElement {
  const made = document.createElement("a");
  made.href = href;
  made.textContent = text;
  return made;
}
