/** Bytes as a parameter of a statement: the platform takes a view of a buffer, although its types know buffers only. */
export function toSqlBlob(bytes: Uint8Array): SqlStorageValue {
  return bytes as SqlStorageValue & Uint8Array;
}
