"""The transport against servers that misbehave below HTTP."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from embyproc.clients.base import Http
from embyproc.errors import ServiceDown

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"


@contextmanager
def dripping(whole: bytes) -> Iterator[tuple[str, threading.Event]]:
    """Sends `whole`, then a byte at a time for ever - until it is told to behave."""
    behave = threading.Event()
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.recv(65536)
            if behave.is_set():
                connection.sendall(HEAD + b"done")
                return
            connection.sendall(whole)
            while not over.wait(0.05):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", behave
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.mark.parametrize(
    "whole", [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Slow: "]
)
def test_an_answer_that_drips_has_an_end(whole: bytes) -> None:
    with dripping(whole) as (url, behave):
        http = Http("The service")
        began = time.monotonic()
        with pytest.raises(ServiceDown, match=r"The service at 127.0.0.1:\d+ did not answer in"):
            http.request("GET", url, headers={}, whole_seconds=0.5)
        assert time.monotonic() - began < 20
        behave.set()
        assert http.request("GET", url, headers={}).body == b"done"


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/x.jpg", "http://[::1/x.jpg"])
def test_an_address_that_is_none_is_one_clear_sentence(url: str) -> None:
    with pytest.raises(ServiceDown, match="The picture"):
        Http("The picture").request("GET", url, headers={})
