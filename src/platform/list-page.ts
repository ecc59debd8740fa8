/** A slice of a list, from a cursor. */
export interface Page {
  cursor: string | null;
  limit: number;
}

export interface PageOf<T> {
  items: T[];
  next: string | null;
}
