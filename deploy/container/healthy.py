"""The container's health: 0 when the address in FAULTWIRE_HEALTH answers with 200, or when there is none."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

WITHIN_S = 4.0


def main() -> int:
    address = os.environ.get("FAULTWIRE_HEALTH", "")
    if not address:
        return 0
    try:
        with urllib.request.urlopen(address, timeout=WITHIN_S) as answer:  # noqa: S310 - our own address
            return 0 if answer.status == 200 else 1
    except (urllib.error.URLError, OSError):
        return 1


if __name__ == "__main__":
    sys.exit(main())
