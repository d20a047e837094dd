"""One request method for every service: time-outs, limits, and each failure translated."""

import json
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

from embyproc.cleaning import clean
from embyproc.errors import ServiceDown

_CONNECT_SECONDS = 5.0
_READ_SECONDS = 30.0
# The whole of an answer: one that comes byte by byte never trips over the limit of a single read.
_WHOLE_SECONDS = 60.0
_MAX_BYTES = 32 * 1024 * 1024
_CHUNK = 64 * 1024
_MAX_RETRY_AFTER = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, whole and within limits."""

    status: int
    content_type: str
    body: bytes
    retry_after: float | None

    def json(self) -> Any:
        """The decoded body, cleaned; raises ValueError where it is no JSON, whatever the header
        says."""
        try:
            return clean(json.loads(self.body))
        except RecursionError:
            raise ValueError("nested too deeply") from None


class Http:
    """A service's transport. Safe to use from several threads; nothing of requests escapes."""

    def __init__(self, service: str) -> None:
        self._service = service
        # A session is not made for sharing: its connections are, its cookies are not.
        self._local = threading.local()

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str],
        body: bytes | None = None,
        read_seconds: float = _READ_SECONDS,
        whole_seconds: float = _WHOLE_SECONDS,
        max_bytes: int = _MAX_BYTES,
    ) -> Answer:
        """Ask once. Raises ServiceDown where no whole answer came back in time.

        Redirects are not followed: a redirected POST becomes a GET without its body, and a
        redirect may lead to a host that must not see our headers.
        """
        session = self._session()

        def ask() -> Answer:
            return self._request(
                session,
                url,
                max_bytes,
                method=method,
                headers=headers,
                data=body,
                timeout=(_CONNECT_SECONDS, read_seconds),
            )

        try:
            return _within(whole_seconds, ask)
        except TimeoutError:
            del self._local.session  # the thread that still waits for it may keep it
            raise ServiceDown(f"{self._place(url)} did not answer in time") from None

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = requests.Session()
            # No proxies from the environment and no ~/.netrc: its password would replace our token.
            session.trust_env = False
        return session

    def _request(self, session: requests.Session, url: str, max_bytes: int, **how: Any) -> Answer:
        try:
            with session.request(url=url, allow_redirects=False, stream=True, **how) as response:
                return Answer(
                    status=response.status_code,
                    content_type=response.headers.get("Content-Type", "").lower(),
                    body=self._read(response, max_bytes),
                    retry_after=_seconds(response.headers.get("Retry-After")),
                )
        except requests.Timeout:
            raise ServiceDown(f"{self._place(url)} did not answer in time") from None
        except (requests.RequestException, UnicodeError, ValueError) as error:
            # The text of the exception may hold the URL: tell its kind only.
            raise ServiceDown(f"{self._place(url)} cannot be reached ({_kind(error)})") from None

    def _read(self, response: requests.Response, max_bytes: int) -> bytes:
        received = bytearray()
        for chunk in response.iter_content(_CHUNK):
            received += chunk
            if len(received) > max_bytes:
                raise ServiceDown(f"{self._service} answered with more than {max_bytes} bytes")
        return bytes(received)

    def _place(self, url: str) -> str:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            return self._service
        return f"{self._service} at {parts.hostname or '?'}{port}"


def _within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """What `call` returns or raises; TimeoutError if it takes longer than that.

    No socket has a limit for a whole answer, nor has the look-up of a name: a thread that hangs
    is left behind, and as a daemon it does not hold up the end of the program.
    """
    done: queue.SimpleQueue[Answer | Exception] = queue.SimpleQueue()

    def work() -> None:
        try:
            done.put(call())
        except Exception as error:  # raised where somebody waits for it
            done.put(error)

    threading.Thread(target=work, name="request", daemon=True).start()
    try:
        result = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(result, Exception):
        raise result
    return result


def same_origin(first: str, second: str) -> bool:
    """Whether two URLs lead to the same server, so that one may see the other's token."""
    try:
        left, right = urlsplit(first), urlsplit(second)
        ports = {"http": 80, "https": 443}
        return (left.scheme, left.hostname, left.port or ports.get(left.scheme)) == (
            right.scheme,
            right.hostname,
            right.port or ports.get(right.scheme),
        )
    except ValueError:
        return False


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; the form with a date is rare enough to ignore."""
    if text is None or not text.strip().isdigit():
        return None
    return min(float(text), _MAX_RETRY_AFTER)


def _kind(error: BaseException) -> str:
    return type(error).__name__
