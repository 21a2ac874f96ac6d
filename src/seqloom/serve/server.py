"""The process that serves: socket, connections, start of the models, signals, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from seqloom.errors import SeqloomError
from seqloom.serve.app import build
from seqloom.serve.config import RequestLimits, ServeConfig
from seqloom.serve.context import Context

log = logging.getLogger(__name__)

_BACKLOG = 1024
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b'Content-Type: application/json\r\nContent-Length: 33\r\n\r\n{"error": "Too many connections"}'
)


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address; raise if the port is in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise SeqloomError(f"There is no address {host}.", "e.g. --host 127.0.0.1") from error
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        reason = error.strerror or str(error)
        raise SeqloomError(
            f"Cannot listen on {host}, port {port}: {reason}.",
            "choose another one with --port, or 0 for a free one",
        ) from error
    found.setblocking(False)
    return found


def serve(config: ServeConfig, imports: tuple[str, ...] = ()) -> None:
    """Serve until SIGTERM or SIGINT; raise SeqloomError if a model cannot be loaded."""
    listener = open_socket(config.host, config.port)
    with contextlib.closing(listener):
        app, context = build(config, imports)
        server = Server(app, context, listener)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(server.run())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the event loop of uvloop, which does not exist for every system."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class Server(uvicorn.Server):
    """Uvicorn with our start, signals and end."""

    def __init__(self, app: ASGIApp, context: Context, listener: socket.socket) -> None:
        trusted = context.config.trusted_proxies
        super().__init__(
            uvicorn.Config(
                app,
                http=limited_protocol(context.limits),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=trusted is not None,
                forwarded_allow_ips=trusted,
                timeout_graceful_shutdown=5,
            )
        )
        self._context, self._listener = context, listener
        self._stopping: asyncio.Task[None] | None = None

    async def run(self, *, handle_signals: bool = True) -> None:  # type: ignore[override]
        """Serve while the models start; end if one of them cannot be loaded."""
        if handle_signals:
            self._handle_signals()
        starting = asyncio.create_task(self._start_models())
        host, port = self._listener.getsockname()[:2]
        log.info("listening", extra={"url": f"http://{f'[{host}]' if ':' in host else host}:{port}"})
        try:
            await self.serve([self._listener])
        finally:
            starting.cancel()
            failure = (await asyncio.gather(starting, return_exceptions=True))[0]
            await self._context.stop()
        log.info("stopped")
        if isinstance(failure, SeqloomError):
            raise failure

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload_keys)

    async def _start_models(self) -> None:
        try:
            await self._context.start()
        except SeqloomError:
            self.should_exit = True
            raise

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone: `run` handles them."""
        yield

    def stop(self) -> None:
        """Stop after the accepted requests; a second signal stops at once."""
        if self._stopping is not None:
            self.force_exit = self.should_exit = True
            return
        log.info("stopping", extra={"active": self._context.active})
        self._context.is_draining = True
        self._stopping = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.limits.drain_seconds):
                while self._context.active:
                    await asyncio.sleep(0.02)
        self.should_exit = True

    def _reload_keys(self) -> None:
        try:
            self._context.access.keys.reload()
        except SeqloomError as error:
            log.error("API keys were not reread", extra={"reason": error.message})
        else:
            log.info("API keys were reread")


def limited_protocol(limits: RequestLimits) -> type[asyncio.Protocol]:
    """Return a protocol that refuses connections above the limit and closes those without a request."""

    class LimitedProtocol(HttpToolsProtocol):
        """HTTP connection with limits."""

        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Refuse the connection if there are too many; expect its headers in time."""
            if len(self.server_state.connections) >= limits.connections:
                self.transport = transport
                transport.write(_TOO_MANY)
                transport.close()
                return
            super().connection_made(transport)
            self._expect_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the timer."""
            self._stop_waiting()
            if self in self.server_state.connections:
                super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """Read data unless the connection was refused."""
            if self in self.server_state.connections:
                super().data_received(data)

        def on_message_begin(self) -> None:
            """Expect the headers of a request in time."""
            super().on_message_begin()
            self._stop_waiting()
            self._expect_headers()

        def on_headers_complete(self) -> None:
            """Stop to expect headers."""
            self._stop_waiting()
            super().on_headers_complete()

        def _expect_headers(self) -> None:
            self._waiting = self.loop.call_later(limits.body_seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return LimitedProtocol
