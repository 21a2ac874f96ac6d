"""A held-out part chosen by a hash of the source: the same in every run, and duplicates never straddle."""

from __future__ import annotations

import hashlib
import unicodedata


def fingerprint(text: str) -> int:
    """64 bits that are the same for texts which differ only in Unicode composition or in white space."""
    normal = " ".join(unicodedata.normalize("NFC", text).split())
    return int.from_bytes(hashlib.blake2b(normal.encode(), digest_size=8).digest(), "big")


def is_held_out(source: str, share: float) -> bool:
    """True for about this share of all sources. Raising the share only ever adds to the held-out part."""
    return fingerprint(source) < share * 2**64


def held_out_share(total: int, share: float, maximum: int) -> float:
    """The share that holds out about `maximum` of `total` lines at the most.

    It is known after one counting pass, so the second pass can decide line by line without remembering any.
    """
    return min(share, maximum / total) if total else 0.0
