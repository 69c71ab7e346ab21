"""Secrets out of what an upstream writes, before it reaches a client or the log.

Some servers quote the key that they were sent when they refuse it.
"""

import re
from collections.abc import Callable

from afterword.config.vendor import VendorConfig

REMOVED = "[removed]"

_LIKE_A_KEY = re.compile(r"(?i)\bbearer\s+[^\s\"']+|\b(?:sk|pk|aw|gsk|hf|xai|key)[-_][A-Za-z0-9_*.-]{6,}")
"""What keys look like, whole or with a part starred out."""

SHORTEST_SECRET = 6
"""Shorter values of headers are no secrets, and would be found everywhere."""


def redaction(vendor: VendorConfig) -> Callable[[str], str]:
    """A function that replaces the vendor's own secrets, and whatever else looks like a key."""
    known = [] if vendor.api_key is None else [vendor.api_key]
    known += [part for value in vendor.headers.values() for part in value.split()]
    secrets = sorted({secret for secret in known if len(secret) >= SHORTEST_SECRET}, key=len, reverse=True)

    def redact(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, REMOVED)
        return _LIKE_A_KEY.sub(REMOVED, text)

    return redact
