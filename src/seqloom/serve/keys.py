"""API keys, compared in constant time, and the rate of requests per client."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request

from seqloom.data.lines import lines
from seqloom.errors import SeqloomError
from seqloom.serve.config import is_loopback
from seqloom.serve.errors import ApiError

_CLIENTS = 10_000  # whose rate is remembered
_LONGEST_KEY = 500


class ApiKeys:
    """Keys of a file with one key per line; # starts a comment line."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._digests: tuple[bytes, ...] = ()
        self.reload()

    @property
    def required(self) -> bool:
        """Whether requests need a key."""
        return self._path is not None

    def reload(self) -> None:
        """Read the file again; raise if it cannot be read or has no keys, and keep the old keys then."""
        if self._path is None:
            return
        found = [line.strip() for line in lines(self._path)]
        keys = [key for key in found if key and not key.startswith("#")]
        if not keys:
            raise SeqloomError(f"{self._path} contains no API key.", "write one key per line")
        if Path(self._path).is_file() and any(len(key) < 8 for key in keys):
            raise SeqloomError(f"{self._path} contains a key of less than 8 characters.", "use longer keys")
        self._digests = tuple(map(_digest, keys))

    def check(self, request: Request, given: str = "") -> str | None:
        """Return a name of the client's key; raise if it is wrong; None if no keys are required."""
        if self._path is None:
            return None
        key = given or key_of(request)
        if not key:
            raise ApiError(403, "This server requires an API key.", "missing_api_key", "api_key")
        digest, is_known = _digest(key), False
        for own in self._digests:  # all of them: the time does not depend on the key
            is_known |= hmac.compare_digest(own, digest)
        if not is_known:
            raise ApiError(403, "Invalid API key", "invalid_api_key", "api_key")
        return f"key {digest.hex()[:16]}"


def key_of(request: Request) -> str:
    """Return the key in the headers of a request."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get("x-api-key", "").strip()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key[:_LONGEST_KEY].encode(errors="surrogatepass")).digest()


class RateLimiter:
    """Limit on the requests per minute of each client: a bucket that fills up at a constant rate."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = per_minute, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when

    def count(self, client: str) -> None:
        """Count a request; raise if the client has sent too many."""
        now = self._clock()
        left, since = self._buckets.pop(client, (float(self._most), now))
        left = min(self._most, left + (now - since) * self._most / 60)
        self._buckets[client] = (max(0.0, left - 1) if left >= 1 else left, now)
        if len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = (1 - left) * 60 / self._most
            raise ApiError(
                429,
                f"Slowdown: at most {self._most} requests per minute.",
                "rate_limit",
                retry_after=max(1.0, wait),
            )


class ClientAccess:
    """Decides who may send a request, and names the client for the scheduler."""

    def __init__(self, keys: ApiKeys, per_minute: int) -> None:
        self.keys, self._rate = keys, RateLimiter(per_minute)

    def client(self, request: Request, key: str = "") -> str:
        """Return the name of the client; raise for a wrong key and for too many requests."""
        address = request.client.host if request.client else "local"
        try:
            own = self.keys.check(request, key)
        except ApiError:
            self._rate.count(f"address {address}")  # guessing keys is limited as well
            raise
        name = own or f"address {address}"
        if own or not is_loopback(address):
            self._rate.count(name)
        return name
