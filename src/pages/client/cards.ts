/** On a phone a table's rows become cards (style/tables.css): each cell then says which column it is of. */
export function labelCells(root: ParentNode): void {
  for (const table of root.querySelectorAll<HTMLTableElement>(".table table")) {
    const columns = Array.from(table.tHead?.rows[0]?.cells ?? [], columnOf);
    for (const body of table.tBodies) for (const row of body.rows) labelRow(row, columns);
  }
}

function labelRow(row: HTMLTableRowElement, columns: readonly string[]): void {
  for (const [index, cell] of Array.from(row.cells).entries()) {
    if (cell.colSpan === 1) cell.dataset["label"] = columns[index] ?? "";
  }
}

/** What cells of a column are labelled with; empty where its heading is for screen readers only: such cells are buttons. */
function columnOf(head: HTMLTableCellElement): string {
  return head.querySelector(".visually-hidden") === null ? (head.textContent ?? "") : "";
}
