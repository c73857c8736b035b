"""Health checks over HTTP for load balancers and Kubernetes, with as little of HTTP as they need.

``/live`` is 200 as long as the process answers. ``/ready`` is 200 for a leader whose ports are open, and for a standby
that has everything and could take over. ``/leader`` is 200 for the instance that applications and other hosts should
be sent to. Each returns the state of the instance as JSON; everything else is 404.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

_LONGEST_REQUEST: Final = 4096
_REQUEST_S: Final = 5.0
_MOST: Final = 64
_WORDS: Final = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


class Health:
    """The HTTP server for health checks; ``state`` returns the state of the instance."""

    def __init__(self, address: str, state: Callable[[], Mapping[str, Any]]) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._state = state
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def port(self) -> int:
        """The port that it listens on, for a configured port of 0."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, self._host.strip("[]") or None, self._port, limit=_LONGEST_REQUEST
        )

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and body for a path."""
        state = self._state()
        fine = {
            "/live": True,
            "/ready": bool(state["serves"] if state["role"] == "leader" else state["current"]),
            "/leader": bool(state["serves"]),
        }
        status = 404 if path not in fine else 200 if fine[path] else 503
        return status, json.dumps(dict(state)).encode() + b"\n"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _MOST:
                async with asyncio.timeout(_REQUEST_S):
                    await self._exchange(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        words = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        method, path = (words[0], words[1].partition("?")[0]) if len(words) == 3 else ("", "")
        status, body = self.answer(path if method in ("GET", "HEAD") else "")
        head = (
            f"HTTP/1.1 {status} {_WORDS[status]}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        writer.write("\r\n".join((*head, "", "")).encode() + (b"" if method == "HEAD" else body))
        await writer.drain()
