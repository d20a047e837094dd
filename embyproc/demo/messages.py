"""What travels between a client and a stand-in server: one request, one reply, one log entry."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

JSON_TYPE = "application/json; charset=UTF-8"
HTML_TYPE = "text/html; charset=UTF-8"
TEXT_TYPE = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it arrived; `target` is the undecoded path with its query."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        # Not urlsplit: it would take the first segment of "//Items" for a host name.
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    def header(self, name: str, default: str = "") -> str:
        """The value of a header, whatever the case of its name."""
        return find_header(self.headers, name, default)

    def json(self) -> Any:
        """The decoded body. Raises ValueError when it is not JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One line of the request log; status 0 means the connection was cut without an answer."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    status: int
    target: str

    def header(self, name: str, default: str = "") -> str:
        """The value of a header, whatever the case of its name."""
        return find_header(self.headers, name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer; the server adds length, date and connection headers itself."""

    status: int = 200
    body: bytes = b""
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_json(self) -> bool:
        return self.content_type.startswith("application/json") and bool(self.body)


class Refusal(Exception):
    """Becomes an error answer in plain text, which is what Emby sends; never JSON."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text

    def reply(self) -> Reply:
        return text_reply(self.text, self.status)


def find_header(headers: Mapping[str, str], name: str, default: str) -> str:
    wanted = name.lower()
    return next((value for key, value in headers.items() if key.lower() == wanted), default)


def json_reply(value: Any, status: int = 200, *, escape_slashes: bool = False) -> Reply:
    text = json.dumps(value)
    if escape_slashes:
        text = text.replace("/", "\\/")
    return Reply(status=status, body=text.encode("ascii"), content_type=JSON_TYPE)


def text_reply(text: str, status: int = 200) -> Reply:
    return Reply(status=status, body=text.encode(), content_type=TEXT_TYPE)


def no_content() -> Reply:
    return Reply(status=204)


def html_page(
    request: Request, status: int, *, size: int = 0, headers: Mapping[str, str] | None = None
) -> Reply:
    """An error page that quotes the request, credentials included.

    Real debug pages do that. Here it makes every failure a leak test: a client that copies error
    bodies into its messages copies its own secret.
    """
    quoted = "\n".join(f"{name}: {value}" for name, value in request.headers.items())
    page = (
        f"<!DOCTYPE html><html><head><title>{status}</title></head><body>"
        f"<h1>Something went wrong ({status})</h1>"
        f"<pre>{html.escape(request.method)} {html.escape(request.target)}\n"
        f"{html.escape(quoted)}</pre>"
    )
    page += "<p>filler</p>\n" * max(0, (size - len(page)) // 14 + 1) if size else ""
    page += "</body></html>"
    # The stdlib decodes header bytes as latin-1; giving them back the same way cannot fail.
    body = page.encode("utf-8", errors="replace")
    return Reply(status=status, body=body, content_type=HTML_TYPE, headers=headers or {})
