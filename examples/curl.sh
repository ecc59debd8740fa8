#!/bin/sh
# Sends a signal. WEBHOOK_URL is the address that was shown with the API key.
# --retry repeats the call after 408, 429 and 5xx, and waits as long as Retry-After says.
set -eu
curl --silent --show-error --fail-with-body --retry 5 "$WEBHOOK_URL" \
  -H 'Content-Type: application/json' \
  -H "Idempotency-Key: ${1:-order-4711}" \
  -d '{"email":"jane@example.com","event":"Order Completed","properties":{"total":49.9,"currency":"EUR"}}'
echo
