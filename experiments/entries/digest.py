"""What tells one content from all others."""

import hashlib


def digest(content: bytes) -> str:
    """The first half of the SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:32]
