/** A JSON object as `JSON.parse` makes it. */
export type JsonObject = { [name: string]: unknown };
