"""The live report: an HTTP server on this machine whose page follows a run."""

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from feddr.report.gather import gather, sources
from feddr.report.page import page

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")
"""The names by which a browser on this machine may call the server; any other is a page that means ill."""


class LiveServer:
    """Serves the page of some runs until it is closed.

    Parameters
    ----------
    runs
        Their folders.
    port
        0 for one that is free.

    Examples
    --------
    >>> with LiveServer([Path("runs/first")]) as watch:  # doctest: +SKIP
    ...     print(watch.url)
    """

    def __init__(self, runs: Sequence[Path], port: int = 0) -> None:
        self.runs = runs
        self._known: tuple[str, bytes] = ("", b"")
        self._lock = threading.Lock()
        self.data()  # what cannot be shown is refused before there is a server
        self._server = ThreadingHTTPServer((ADDRESS, port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.port}/"

    @property
    def port(self) -> int:
        """The port, also where it was left to the system."""
        return int(self._server.server_address[1])

    def __enter__(self) -> "LiveServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def data(self) -> tuple[str, bytes]:
        """Return the state of the runs as JSON, and its name, which changes when they do."""
        with self._lock:
            name = hashlib.sha256(repr(sources(self.runs)).encode()).hexdigest()[:16]
            if name != self._known[0]:
                self._known = name, json.dumps({**gather(self.runs), "state": name}, allow_nan=False).encode()
            return self._known

    def answer(self, target: str) -> tuple[HTTPStatus, str, bytes]:
        """Return status, type and content for a path."""
        url = urlsplit(target)
        if url.path == "/":
            return HTTPStatus.OK, "text/html; charset=utf-8", page(json.loads(self.data()[1]), live=True).encode()
        if url.path == "/data.json":
            name, content = self.data()
            if parse_qs(url.query).get("state") == [name]:
                return HTTPStatus.NO_CONTENT, "application/json", b""
            return HTTPStatus.OK, "application/json", content
        return HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"There is a page at / and its data at /data.json.\n"


def _handler(watch: LiveServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "feddr", ""

        def do_GET(self) -> None:
            allowed = {f"{name}:{watch.port}" for name in NAMES} | (set(NAMES) if watch.port == 80 else set())
            if self.headers.get("Host") not in allowed:
                self._send(HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", b"This page is for its own machine.\n")
                return
            try:
                answer = watch.answer(self.path)
            except ValueError as error:
                answer = HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", f"{error}\n".encode()
            self._send(*answer)

        do_HEAD = do_GET

        def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
            self.send_response(status)
            headers = {
                "Content-Type": kind,
                "Content-Length": str(len(content)),
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
                "X-Frame-Options": "DENY",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Referrer-Policy": "no-referrer",
            }
            for name, value in headers.items():
                if status != HTTPStatus.NO_CONTENT or name != "Content-Length":
                    self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Print nothing: a person reads the page."""

    return Handler
