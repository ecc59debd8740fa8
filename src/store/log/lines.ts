/** Lines in memory, column by column: the facts of one are put together when somebody asks for them. */
import { COLUMNS, decodeFacts, encodeFacts, textOf } from "./line.ts";
import type { Cell, ColumnName, Facts, Names } from "./line.ts";

const PLACES = new Map<string, number>(COLUMNS.map(({ name }, place) => [name, place]));

export class Lines {
  /** In the order of COLUMNS, each with a cell for every line. */
  readonly #columns: Cell[][];

  constructor(columns: Cell[][] = COLUMNS.map(() => [])) {
    this.#columns = columns;
  }

  get length(): number {
    return this.column("id").length;
  }

  column(name: ColumnName): readonly Cell[] {
    return this.#columns[PLACES.get(name) ?? 0] ?? [];
  }

  /** @param cells in the order of COLUMNS; what is missing at their end is absent. */
  push(cells: readonly Cell[]): void {
    for (let place = 0; place < COLUMNS.length; place++) this.#columns[place]?.push(cells[place] ?? 0);
  }

  /** @param index of a line that is there. */
  facts(index: number): Facts {
    return decodeFacts((name) => this.cell(index, name));
  }

  cell(index: number, name: ColumnName): Cell {
    return this.column(name)[index] ?? 0;
  }

  names(index: number): Names {
    return { userId: textOf(this.cell(index, "userId")), anonymousId: textOf(this.cell(index, "anonymousId")) };
  }

  cells(index: number): Cell[] {
    return this.#columns.map((column) => column[index] ?? 0);
  }

  /** The same lines, but for some by their index. */
  with(changes: ReadonlyMap<number, Facts>): Lines {
    const columns = this.#columns.map((column) => [...column]);
    for (const [index, facts] of changes) {
      const cells = encodeFacts(facts);
      for (const [place, column] of columns.entries()) column[index] = cells[place] ?? 0;
    }
    return new Lines(columns);
  }
}
