"""Split by a hash of the source: the same in every run, with duplicates always in the same part."""

from __future__ import annotations

import hashlib
import unicodedata


def fingerprint(text: str) -> int:
    """Return a 64-bit hash that ignores Unicode composition and differences in white space."""
    normal = " ".join(unicodedata.normalize("NFC", text).split())
    return int.from_bytes(hashlib.blake2b(normal.encode(), digest_size=8).digest(), "big")


def is_held_out(source: str, share: float) -> bool:
    """Return True for about this fraction of sources. A larger fraction only adds held-out sources."""
    return fingerprint(source) < share * 2**64


def held_out_share(total: int, share: float, maximum: int) -> float:
    """Return `share`, reduced so that about `maximum` of `total` lines are held out at most.

    One counting pass determines it, so the second pass can decide line by line without storing lines.
    """
    return min(share, maximum / total) if total else 0.0
