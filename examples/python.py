#!/usr/bin/env python3
"""Sends a signal: python3 python.py. WEBHOOK_URL is the address that was shown with the API key."""
import json
import os
import random
import time
import urllib.error
import urllib.request
import uuid

ATTEMPTS = 6


def send(signal, url=os.environ.get("WEBHOOK_URL")):
    """Returns the answer. Raises if the service rejects the signal, or cannot be reached in several minutes."""
    headers = {
        "Content-Type": "application/json",
        # The same for each attempt: if an attempt was counted although its answer was lost, the next one scores nothing.
        "Idempotency-Key": str(uuid.uuid4()),
    }
    request = urllib.request.Request(url, json.dumps(signal).encode(), headers)
    for attempt in range(1, ATTEMPTS + 1):
        seconds = 0
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            # 429 and 5xx: later it may work. Everything else says what is wrong with the call.
            if error.code != 429 and error.code < 500:
                raise RuntimeError(error.read().decode()) from error
            seconds = int(error.headers.get("Retry-After") or 0)
        except OSError:
            pass
        time.sleep(max(seconds, 2**attempt * 0.25 * (1 + random.random())))
    raise RuntimeError(f"not delivered after {ATTEMPTS} attempts")


if __name__ == "__main__":
    print(send({"email": "jane@example.com", "event": "Opened Email", "properties": {"campaign": "October"}}))
