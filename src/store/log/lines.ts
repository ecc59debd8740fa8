/** Lines in memory, column by column: a column is unpacked, and a line's facts are put together, when somebody asks for them. */
import { packColumn, unpackColumn } from "./columns.ts";
import type { PackedColumn } from "./columns.ts";
import { COLUMNS, decodeFacts, encodeFacts, placeOf, textOf } from "./line-cells.ts";
import type { Cell, ColumnName, PayloadNames } from "./line-cells.ts";
import type { Facts } from "./line.ts";

export class Lines {
  #length: number;
  /** Cells in the order of COLUMNS, one for every line; a column that is packed does not change any more. */
  readonly #cells: (Cell[] | undefined)[];
  readonly #packed: (PackedColumn | undefined)[];

  constructor(length = 0, packed: readonly (PackedColumn | undefined)[] = [], cells?: readonly (Cell[] | undefined)[]) {
    this.#length = length;
    this.#packed = [...packed];
    this.#cells =
      cells === undefined ? COLUMNS.map((_, place) => (packed[place] === undefined ? [] : undefined)) : [...cells];
  }

  get length(): number {
    return this.#length;
  }

  column(name: ColumnName): readonly Cell[] {
    return this.#column(placeOf(name));
  }

  /** The columns packed, in the order of COLUMNS. */
  packed(): PackedColumn[] {
    return COLUMNS.map(({ is }, place) => (this.#packed[place] ??= packColumn(this.#column(place), is)));
  }

  /** Adds a line. @param cells in the order of COLUMNS; what is missing at their end is absent. */
  push(cells: readonly Cell[]): void {
    for (let place = 0; place < COLUMNS.length; place++) this.#column(place).push(cells[place] ?? 0);
    this.#length++;
  }

  /** @param index of a line that is there. */
  facts(index: number): Facts {
    return decodeFacts((name) => this.cell(index, name));
  }

  cell(index: number, name: ColumnName): Cell {
    return this.column(name)[index] ?? 0;
  }

  names(index: number): PayloadNames {
    return { userId: textOf(this.cell(index, "userId")), anonymousId: textOf(this.cell(index, "anonymousId")) };
  }

  cells(index: number): Cell[] {
    return COLUMNS.map((_, place) => this.#column(place)[index] ?? 0);
  }

  /** The same lines, but for those with other facts, by their index. */
  with(changes: ReadonlyMap<number, Facts>): Lines {
    const packed = [...this.#packed];
    const columns = COLUMNS.map((_, place) =>
      packed[place] === undefined ? [...this.#column(place)] : this.#cells[place],
    );
    for (const [index, facts] of changes) {
      for (const [place, cell] of encodeFacts(facts).entries()) {
        let column = columns[place] ?? this.#column(place);
        if (column[index] === cell) continue;
        if (packed[place] !== undefined) column = [...column];
        column[index] = cell;
        columns[place] = column;
        packed[place] = undefined;
      }
    }
    return new Lines(this.#length, packed, columns);
  }

  #column(place: number): Cell[] {
    const packed = this.#packed[place];
    const { is } = COLUMNS[place] ?? COLUMNS[0];
    return (this.#cells[place] ??= packed === undefined ? [] : unpackColumn(packed, is, this.#length));
  }
}
