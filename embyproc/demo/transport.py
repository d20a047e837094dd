"""Sockets and threads of a stand-in server: reads requests, sends or cuts answers, stops fast."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Protocol

from embyproc.demo.messages import Reply, Request

_POLL_SECONDS = 0.02
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Application(Protocol):
    """What the transport needs from a stand-in."""

    send_content_length: bool
    errors: list[str]

    def answer(self, request: Request) -> tuple[Reply | None, float]: ...
    def answered(self) -> None: ...
    def pause(self, seconds: float) -> bool: ...
    def now(self) -> float: ...


class Listener(ThreadingHTTPServer):
    """Accepts connections in a daemon thread and knows the open ones, so that it can cut them."""

    daemon_threads = True
    # The default backlog of 5 makes a burst of connections wait a second for a SYN retry.
    request_queue_size = 128

    def __init__(self, application: Application, port: int) -> None:
        self.application = application
        self._open: set[Any] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL_SECONDS,), name="stand-in", daemon=True
        )

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join(timeout_seconds)
        # A kept-alive connection would otherwise be served on after the "outage" began.
        with self._changed:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
            self._changed.wait_for(lambda: not self._open, timeout_seconds)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that hangs up is part of the game; anything else is a mistake to be seen.
        error = sys.exception()
        if not isinstance(error, OSError):
            self.application.errors.append(f"{type(error).__name__}: {error}")

    def server_bind(self) -> None:
        # HTTPServer.server_bind asks the resolver for the host's name, which can take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.port


class Handler(BaseHTTPRequestHandler):
    """One connection with any number of requests."""

    protocol_version = "HTTP/1.1"
    server_version = "StandIn"
    sys_version = ""
    # Head and body leave in one packet: otherwise delayed acknowledgements cost 40 ms a request.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: Listener

    def _serve(self) -> None:
        application = self.server.application
        try:
            body = self._read_body()
        except (ValueError, OSError):
            self.close_connection = True
            return
        # A header sent twice is kept once: the last one, as most servers do.
        headers = {name: str(value) for name, value in self.headers.items()}
        # Not self.path: the standard library tidies a leading double slash away, and a client that
        # sends one is to be found out.
        target = self.requestline.split()[1]
        request = Request(method=self.command, target=target, headers=headers, body=body)
        reply, delay_seconds = application.answer(request)
        try:
            if application.pause(delay_seconds):
                self.close_connection = True
            elif reply is None:
                self._reset()
            else:
                self._send(reply)
        finally:
            application.answered()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve

    def _read_body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._read_chunks()
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length > 0 else b""
        if len(body) < length:
            raise ValueError("the client hung up inside its request")
        return body

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        bodiless = reply.status in (204, 304)
        chunked = not bodiless and not self.server.application.send_content_length
        if not bodiless:
            if reply.content_type:
                self.send_header("Content-Type", reply.content_type)
            if chunked:
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if bodiless or self.command == "HEAD":
            return
        if chunked:
            head = f"{len(reply.body):x}\r\n".encode() if reply.body else b""
            self.wfile.write(head + reply.body + (b"\r\n" if reply.body else b"") + b"0\r\n\r\n")
        else:
            self.wfile.write(reply.body)

    def _reset(self) -> None:
        # Closing with linger 0 sends RST. The descriptor is closed directly, because socketserver
        # would first send an orderly FIN, which a client reports as another kind of failure.
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        os.close(self.connection.detach())

    def date_time_string(self, timestamp: float | None = None) -> str:
        moment = self.server.application.now() if timestamp is None else timestamp
        return super().date_time_string(int(moment))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the request log replaces the lines on stderr."""
