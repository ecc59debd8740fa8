/**
 * Where the tests' files are: in memory, where this machine has room for them there. Every commit of an object waits for the
 * disk, and the tests make hundreds of thousands: on one they take four times as long. What is killed is a process and never
 * the machine, so that nothing is lost in memory that a disk would keep.
 */
import { mkdirSync, statfsSync } from "node:fs";
import path from "node:path";

const IN_MEMORY = "/dev/shm";
/** A whole run has up to 1 GB at a time. */
const ROOM_BYTES = 4_000_000_000;

/** Has everything that this process and its children make for a while made there. */
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
