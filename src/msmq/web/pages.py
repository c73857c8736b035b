"""The pages: files that were built beforehand and are part of the package, small enough to be kept in memory."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FILES: Final = Path(__file__).parent / "static"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_VIEWS: Final = (
    "queues",
    "messages",
    "failures",
    "network",
    "definitions",
    "activity",
    "access",
    "alarms",
    "login",
)
"""The addresses of the pages; all of them are the same document."""


_kept: dict[str, tuple[bytes, bytes, str, str]] = {}
"""Files that were read. Missing files are looked for again each time, because strangers ask for any name."""


def _file(name: str) -> tuple[bytes, bytes, str, str] | None:
    """Return a file: as it is, compressed, its type and its tag."""
    found = _kept.get(name)
    if found is None and (found := _read(name)) is not None:
        _kept[name] = found
    return found


def _read(name: str) -> tuple[bytes, bytes, str, str] | None:
    path = FILES / name
    if path.parent not in (FILES, FILES / "assets") or path.suffix == ".gz" or not path.is_file():
        return None
    content = path.read_bytes()
    packed = path.with_name(path.name + ".gz")
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    tag = f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
    return content, packed.read_bytes() if packed.is_file() else b"", kind, tag


async def _page(request: Request) -> Response:
    return _shown(request, "index.html", "no-cache")


async def _asset(request: Request) -> Response:
    return _shown(request, f"assets/{request.path_params['name']}", "no-cache")


async def _icon(request: Request) -> Response:
    return _shown(request, "icon.svg", "public, max-age=86400")


def _shown(request: Request, name: str, caching: str) -> Response:
    found = _file(name)
    if found is None:
        return Response("There is nothing here.", 404, media_type="text/plain")
    content, packed, kind, tag = found
    headers = {"etag": tag, "cache-control": caching, "vary": "accept-encoding"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if packed and "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        content = packed
    return Response(content, 200, headers, kind)


def page_routes() -> list[Route]:
    """Return the routes of the pages."""
    return [
        *(Route(path, _page, methods=["GET"]) for path in ("/", *(f"/{view}" for view in _VIEWS))),
        Route("/assets/{name}", _asset, methods=["GET"]),
        Route("/icon.svg", _icon, methods=["GET"]),
    ]
