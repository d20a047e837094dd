"""Stand-in for a WordPress site with the metadata plugin and the bearer-token plugin.

Answers as the real pair does, awkward sides included: 401 before routing, `rest_no_route` for a
wrong method or a double slash, `\\/` and `\\uXXXX` in JSON, and cropped pictures that come as
404 with a valid JPEG.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from embyproc.demo.messages import Reply, Request, html_page, json_reply
from embyproc.demo.pictures import jpeg
from embyproc.demo.server import StandInServer

API_ROOT = "/wp-json/emby/v1"
REFRESH_PATH = "/wp-json/api-bearer-auth/v1/tokens/refresh"
DATA_FIELDS = (
    "movie_code",
    "title",
    "original_title",
    "overview",
    "release_date",
    "actress",
    "genre",
    "label",
    "image_cropped",
    "raw_image_url",
)
_LIST_FIELDS = ("actress", "genre", "label")
_PICTURE_PATH = re.compile(r"/(crop|plain)/([^/]+)")
_THEME_PAGE_BYTES = 40_000

ListForm = Literal["list", "string"]
Catalogue = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """How this site happens to write the same facts."""

    actress: ListForm = "list"
    genre: ListForm = "list"
    label: ListForm = "string"
    # What an unknown field looks like; PHP turns an empty object into a list.
    unknown: Literal["missing", "null", "empty_list", "empty_string"] = "missing"
    not_found: Literal["success_false", "data_null", "data_empty"] = "success_false"
    # Other token plugins answer 403 where this one answers 401.
    refused_status: Literal[401, 403] = 401
    # The plugin looks at the refresh token alone; a gateway before it may refuse a dead Bearer.
    refresh_refuses_dead_token: bool = False


class StandInWordPress(StandInServer):
    """A metadata site that knows a catalogue of code -> data fields.

    `{base}` inside a string of the catalogue becomes the server's own address, so that picture
    URLs can be written before the port is known. A source named in `per_source` has that
    catalogue instead of the common one. The answer's own `movie_code` is the key unless the entry
    says otherwise. Lists of names are written as the quirks say, anything else goes out as it is.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        sources: Iterable[str] = ("missav", "javguru"),
        token: str = "stand-in-access-token",
        refresh_token: str = "stand-in-refresh-token",
        token_lifetime_seconds: float = 86400,
        *,
        per_source: Mapping[str, Catalogue] | None = None,
        quirks: Quirks | None = None,
        seed: int = 0,
        latency_seconds: float = 0.0,
    ) -> None:
        super().__init__(seed=seed, latency_seconds=latency_seconds)
        self.quirks = quirks or Quirks()
        self.refresh_token = refresh_token
        self.token_lifetime_seconds = token_lifetime_seconds
        self.refresh_count = 0
        per_source = per_source or {}
        self._catalogues = {
            source: _by_upper_code(per_source.get(source, catalogue)) for source in sources
        }
        self._pictures: dict[str, tuple[bytes, str]] = {}
        self._known_pictures = {
            name
            for known in self._catalogues.values()
            for entry in known.values()
            for name in _picture_names(entry)
        }
        self._token_lock = threading.Lock()
        self._first_token = token
        self._token = token
        self._expires_at = time.monotonic() + token_lifetime_seconds

    # For tests

    @property
    def api_url(self) -> str:
        """What belongs into API_BASE_URL."""
        return self.base_url + API_ROOT

    @property
    def refresh_url(self) -> str:
        return self.base_url + REFRESH_PATH

    @property
    def token(self) -> str:
        """The access token of the moment, expired or not."""
        with self._token_lock:
            return self._token

    def expire_token(self) -> None:
        """From now on the token is refused, except for getting its successor."""
        with self._token_lock:
            self._expires_at = time.monotonic()

    def put_picture(self, name: str, body: bytes, content_type: str = "image/jpeg") -> None:
        """Serves these bytes under /crop/<name> and /plain/<name>, whatever they are."""
        self._pictures[name] = (body, content_type)

    # Answers

    def respond(self, request: Request) -> Reply:
        picture = _PICTURE_PATH.fullmatch(request.path)
        if picture:
            return self._picture(request, *picture.groups())
        if request.path == REFRESH_PATH and request.method == "POST":
            return self._refresh(request)
        if request.path == "/wp-json" or request.path.startswith("/wp-json/"):
            if not self._is_authorised(request):
                return self._refused()
            return self._rest(request)
        return html_page(request, 404, size=_THEME_PAGE_BYTES)

    def _rest(self, request: Request) -> Reply:
        source = self._source_of(request.path)
        if request.method != "POST" or source is None:
            return _error(404, "rest_no_route", "No route matches the URL and request method.")
        if not request.header("Content-Type").lower().startswith("application/json"):
            # The body is then no parameter source at all, whatever it holds.
            return _missing("moviecode")
        try:
            body = request.json()
        except ValueError:
            return _error(400, "rest_invalid_json", "Invalid JSON body passed.")
        if not isinstance(body, dict) or "moviecode" not in body:
            return _missing("moviecode")
        code, fresh = body["moviecode"], body.get("fresh", False)
        if not isinstance(code, str) or not code.strip() or not isinstance(fresh, bool):
            return _error(400, "rest_invalid_param", "Invalid parameter(s): moviecode")
        return self._search(source, code.strip().upper())

    def _source_of(self, path: str) -> str | None:
        """The source a search path names, '' for the form where the server picks, None else."""
        routes = {f"{API_ROOT}/{source}/search": source for source in self._catalogues}
        return "" if path == f"{API_ROOT}/search" else routes.get(path)

    def _search(self, source: str, code: str) -> Reply:
        candidates = [source] if source else list(self._catalogues)
        for candidate in candidates:
            entry = self._catalogues[candidate].get(code)
            if entry is not None:
                data = self._data(code, entry)
                return _answer({"success": True, "source": candidate, "data": data})
        answer: dict[str, Any] = {"success": True, "source": candidates[-1], "data": None}
        if self.quirks.not_found == "success_false":
            answer |= {"success": False, "message": "No result."}
        elif self.quirks.not_found == "data_empty":
            answer["data"] = []
        return _answer(answer)

    def _data(self, code: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        entry = {"movie_code": code, **entry}
        unknown: dict[str, Any] = {"null": None, "empty_list": [], "empty_string": ""}
        data = {}
        for name in (*DATA_FIELDS, *(key for key in entry if key not in DATA_FIELDS)):
            if name in entry:
                data[name] = self._styled(name, entry[name])
            elif self.quirks.unknown != "missing":
                data[name] = unknown[self.quirks.unknown]
        return data

    def _styled(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            value = value.replace("{base}", self.base_url)
        if name in _LIST_FIELDS and isinstance(value, list):
            as_text = getattr(self.quirks, name) == "string"
            return ", ".join(map(str, value)) if as_text else value
        return value

    # Tokens

    def _bearer(self, request: Request) -> str:
        scheme, _, token = request.header("Authorization").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    def _is_authorised(self, request: Request) -> bool:
        with self._token_lock:
            alive = time.monotonic() < self._expires_at
            return alive and self._bearer(request) == self._token

    def _refresh(self, request: Request) -> Reply:
        try:
            body = request.json()
        except ValueError:
            body = None
        given = body.get("token") if isinstance(body, dict) else None
        with self._token_lock:
            is_dead = self._bearer(request) not in ("", self._token)
            if given != self.refresh_token or (is_dead and self.quirks.refresh_refuses_dead_token):
                return self._refused()
            self.refresh_count += 1
            self._token = f"{self._first_token}-{self.refresh_count + 1}"
            self._expires_at = time.monotonic() + self.token_lifetime_seconds
            answer = {
                "access_token": self._token,
                "expires_in": int(self.token_lifetime_seconds),
            }
        return _answer(answer)

    def _refused(self) -> Reply:
        if self.quirks.refused_status == 403:
            return _error(403, "jwt_auth_invalid_token", "The token is not valid.")
        return _error(401, "rest_not_logged_in", "You are not logged in.")

    # Pictures

    def _picture(self, request: Request, route: str, name: str) -> Reply:
        if route == "crop" and not self._is_authorised(request):
            return self._refused()
        if name in self._pictures:
            body, content_type = self._pictures[name]
        elif name in self._known_pictures:
            # The label tells the size variants apart, which all look alike otherwise.
            variant = "&".join(f"{key}={value}" for key, value in sorted(request.query.items()))
            body, content_type = jpeg(f"{route} {name} {variant}".strip()), "image/jpeg"
        else:
            return html_page(request, 404)
        # The crop endpoint really answers 404 with the picture in it.
        status = 404 if route == "crop" else 200
        return Reply(status=status, body=body, content_type=content_type)


def _by_upper_code(catalogue: Catalogue) -> dict[str, Mapping[str, Any]]:
    return {code.upper(): entry for code, entry in catalogue.items()}


def _picture_names(entry: Mapping[str, Any]) -> Iterable[str]:
    for field in ("image_cropped", "raw_image_url"):
        url = entry.get(field)
        if isinstance(url, str):
            found = _PICTURE_PATH.search(urlsplit(url.replace("{base}", "")).path)
            if found:
                yield found[2]


def _answer(value: Any, status: int = 200) -> Reply:
    return json_reply(value, status, escape_slashes=True)


def _error(status: int, code: str, message: str) -> Reply:
    return _answer({"code": code, "message": message, "data": {"status": status}}, status)


def _missing(parameter: str) -> Reply:
    return _error(400, "rest_missing_callback_param", f"Missing parameter(s): {parameter}")
