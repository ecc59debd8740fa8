/** Finds the end of an HTTP/1.1 response, for clients without a complete HTTP parser. */

/** @param response as received so far, a character for each byte. */
export function isComplete(response: string): boolean {
  const headEnd = response.indexOf("\r\n\r\n");
  if (headEnd < 0) return false;
  const length = /^content-length: (\d+)/im.exec(response.slice(0, headEnd))?.[1];
  if (length === undefined) return response.endsWith("\r\n0\r\n\r\n");
  return response.length >= headEnd + 4 + Number(length);
}
