/** A list that is read piece by piece, from a cursor on. */
export interface Page {
  cursor: string | null;
  limit: number;
}

export interface PageOf<T> {
  items: T[];
  next: string | null;
}
