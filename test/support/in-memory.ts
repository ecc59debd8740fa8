/**
 * Places the tests' files in memory if there is enough. Every commit of an object waits for the disk, and the tests
 * make hundreds of thousands of commits: on a disk they take four times as long. Tests kill processes and never the
 * machine, so that memory keeps the same files as a disk.
 */
import { mkdirSync, statfsSync } from "node:fs";
import path from "node:path";

const IN_MEMORY = "/dev/shm";
/** A whole run needs up to 1 GB at a time. */
const ROOM_BYTES = 4_000_000_000;

/** Makes this process and its children create temporary files there. */
export function keepFilesInMemory(): void {
  if (process.env["TMPDIR"] !== undefined || !hasRoom()) return;
  const folder = path.join(IN_MEMORY, "signal-ingestion");
  mkdirSync(folder, { recursive: true });
  process.env["TMPDIR"] = folder;
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY);
    return bavail * bsize >= ROOM_BYTES;
  } catch {
    return false;
  }
}
