/** The deployment that a command calls: `--origin`, and the operator token in the environment, where no list of processes shows it. */
import { isLoopback } from "../domain/loopback.ts";
import { CommandError } from "./local-service.ts";

export interface Deployment {
  origin: string;
  token: string;
}

/** @throws CommandError without a token, and for an address to which it must not be sent. */
export function deploymentAt(origin: string): Deployment {
  const url = URL.canParse(origin) ? new URL(origin) : null;
  if (url === null || (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback(origin))))
    throw new CommandError(`--origin is an address like https://signals.example.com, not ${origin}.`);
  const token = process.env["OPERATOR_TOKEN"] ?? "";
  if (token === "") throw new CommandError("Set OPERATOR_TOKEN to the operator token of the deployment.");
  return { origin: url.origin, token };
}
