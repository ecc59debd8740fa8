/**
 * Invariant 4 over HTTP: no call that begins after a deactivation has returned is answered with 202, although two
 * isolates cache the key and 32 senders use it. `npm run test:longer -- races --trials 1000` for longer.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { randomNumbers } from "../../src/dev/sample.ts";
import { SERVICE_CONFIG, buildOnce } from "../bench/build.ts";
import { OperatorApi } from "../bench/operator-api.ts";
import { amount, seedOr, note } from "../support/amount.ts";
import { Service } from "../support/service.ts";

const TRIALS = Number(process.env["RACES_TRIALS"] ?? amount(1, 10));
const FIRST_SEED = seedOr(process.env["RACES_SEED"]);
const SENDERS = 32;
/** Calls that each sender makes after the rejection of the deactivated key. */
const CALLS_AFTER = 2;

let service: Service;
/** Two Workers with the same database and the same objects, each an isolate with a separate cache of keys. */
let origins: [string, string];
let workspaceId: string;

beforeAll(async () => {
  const vars = { REQUEST_RATE_PER_SECOND: "100000", REQUEST_BURST: "100000" };
  service = await Service.make({ vars, consumer: await buildOnce(SERVICE_CONFIG) });
  origins = [service.origin, service.running.besideOrigin];
  ({ id: workspaceId } = await service.api.provision());
}, 120_000);

afterAll(() => service.remove());

interface Made {
  sent: number;
  accepted: number;
  /** Statuses of the calls that began after the deactivation had returned. */
  after: number[];
}

/** @param seed determines the number of calls with the key, the Worker that ends the key, and the way it ends. */
async function trial(seed: number): Promise<Made> {
  const random = randomNumbers(seed);
  const [firstOrigin, secondOrigin] = random() < 0.5 ? origins : [origins[1], origins[0]];
  const api = new OperatorApi(firstOrigin, service.token);
  const { id, key } = await api.newKey(workspaceId);
  const enough = SENDERS + Math.floor(random() * 200);
  const isRotated = random() < 0.25;
  const batch = random() < 0.5 ? 1 : 3;
  const made: Made = { sent: 0, accepted: 0, after: [] };
  const warm = Promise.withResolvers<void>();
  let isOver = false;

  const send = async (origin: string): Promise<number> => {
    const signals = Array.from({ length: batch }, (_, nth) => ({ event: "Visit", n: `${seed}-${made.sent}-${nth}` }));
    made.sent++;
    const answer = await fetch(`${origin}/api/signal-staging/webhook/${key}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "cf-connecting-ip": `10.${made.sent % 250}.${seed % 250}.${made.sent >> 8}`,
      },
      body: JSON.stringify(batch === 1 ? signals[0] : signals),
    });
    await answer.arrayBuffer();
    if (answer.status === 202) made.accepted += batch;
    if (made.accepted >= enough) warm.resolve();
    return answer.status;
  };
  const sender = async (nth: number): Promise<void> => {
    const origin = nth % 2 === 0 ? firstOrigin : secondOrigin;
    for (let left = CALLS_AFTER; left > 0;) {
      const isLate = isOver;
      const status = await send(origin);
      if (isLate) made.after.push(status);
      if (isLate) left--;
    }
  };
  for (const origin of origins) expect(await send(origin)).toBe(202);
  const senders = Promise.all(Array.from({ length: SENDERS }, (_, nth) => sender(nth)));
  await warm.promise;
  await api.post(`workspaces/${workspaceId}/keys/${id}/${isRotated ? "rotate" : "deactivate"}`, {
    ...(isRotated && { overlap: "none" }),
  });
  isOver = true;
  await senders;
  return made;
}

test(
  `no call that begins after the deactivation returned is accepted, in ${TRIALS} trials with ${SENDERS} senders`,
  async () => {
    const all: Made = { sent: 0, accepted: 0, after: [] };
    for (let seed = FIRST_SEED; seed < FIRST_SEED + TRIALS; seed++) {
      const made = await trial(seed);
      expect(made.after, `npm run test:longer -- races --trials 1 --seed ${seed}`).toHaveLength(SENDERS * CALLS_AFTER);
      expect(new Set(made.after), `npm run test:longer -- races --trials 1 --seed ${seed}`).toEqual(new Set([401]));
      all.sent += made.sent;
      all.accepted += made.accepted;
      all.after.push(...made.after);
    }
    note(
      `races: seeds ${FIRST_SEED} to ${FIRST_SEED + TRIALS - 1}: ${all.sent} calls, ${all.accepted} signals accepted, ${all.after.length} calls after a deactivation, none accepted`,
    );
    const usage = await service.api.get<{ accepted: number }>(`workspaces/${workspaceId}/usage`);
    expect(usage.accepted).toBe(all.accepted);
  },
  60_000 + TRIALS * 5_000,
);
