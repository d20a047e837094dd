"""The metadata API of the WordPress site: search, token refresh, and what its answers mean."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from embyproc.clients.base import Answer, Http
from embyproc.errors import ServiceDown, TokenRefused
from embyproc.models import Metadata
from embyproc.naming import split_performers, visible

UNIFIED = "unified"

# Answers by which a gateway says that nobody is behind it.
_DOWN = (429, 502, 503, 504)
_TEXT_LIMIT = 20_000
# Nobody's work; a source that is well answers that it does not know it.
_NO_WORK = "ZZZ-000"


@dataclass(slots=True, kw_only=True)
class Lookup:
    """What asking the sources for one work came to."""

    metadata: Metadata | None = None
    # Source -> why it could not be asked.
    unreachable: dict[str, ServiceDown] = field(default_factory=dict)
    # Source -> what it answered to this question, while it answers others.
    stumbled: dict[str, ServiceDown] = field(default_factory=dict)
    # Sources that answered, found or not.
    answered: set[str] = field(default_factory=set)


class _Stumbled(ServiceDown):
    """The source works, but not for this question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    access_token: str
    expires_in: float | None


class WordPress:
    """Stateless but for its connections: the token is handed in with each call."""

    def __init__(self, base_url: str, refresh_url: str | None = None) -> None:
        self._base = base_url.rstrip("/")
        self._refresh_url = refresh_url or _refresh_url(self._base)
        self._http = Http("WordPress")

    def probe(self) -> None:
        """Raise ServiceDown unless somebody is there who answers at all."""
        answer = self._http.request("GET", self._base, headers=_headers(None), read_seconds=10.0)
        if answer.status in _DOWN:
            raise _down(answer, "WordPress")

    def lookup(
        self,
        keys: Sequence[str],
        sources: Sequence[str],
        token: str,
        suspects: Collection[str] = (),
    ) -> Lookup:
        """Ask the sources in order, each for every key; once more if nobody knows it.

        Raises TokenRefused; a source that is down is noted and the next one asked. The `suspects`
        among them are asked even if the work is found before: are they back?
        """
        result = Lookup()
        for fresh in (False, True):
            for source in sources:
                if source in result.unreachable or source in result.stumbled:
                    continue
                if result.metadata and source not in suspects:
                    continue
                try:
                    found = self._ask(source, keys, token, fresh=fresh)
                    result.answered.add(source)
                    result.metadata = result.metadata or found
                except _Stumbled as error:
                    result.stumbled[source] = error
                except ServiceDown as error:
                    result.unreachable[source] = error
            if result.metadata:
                break
        return result

    def _ask(self, source: str, keys: Sequence[str], token: str, *, fresh: bool) -> Metadata | None:
        """Ask for every key. A question that a source stumbles over again and again must not pass
        for an outage, behind which all others wait: where it answers another one and stumbles
        over this one once more, raises _Stumbled."""
        try:
            return self._search_each(source, keys, token, fresh=fresh)
        except (ServiceDown, TokenRefused) as error:
            if isinstance(error, ServiceDown) and error.retry_after is not None:
                raise
            try:
                self.search(source, _NO_WORK, token, (_NO_WORK,))
            except (ServiceDown, TokenRefused):
                raise error from None
        try:
            return self._search_each(source, keys, token, fresh=fresh)
        except (ServiceDown, TokenRefused) as error:
            raise _Stumbled(f"{error} (to this question alone)") from error

    def _search_each(
        self, source: str, keys: Sequence[str], token: str, *, fresh: bool
    ) -> Metadata | None:
        for key in keys:
            if found := self.search(source, key, token, keys, fresh=fresh):
                return found
        return None

    def search(
        self, source: str, key: str, token: str, accepted: Sequence[str], *, fresh: bool = False
    ) -> Metadata | None:
        """One question; None where the source does not know the work.

        An answer about another work than one of `accepted` is no answer.
        """
        path = "search" if source == UNIFIED else f"{source}/search"
        question: dict[str, Any] = {"moviecode": key}
        if fresh:
            question["fresh"] = True
        answer = self._http.request(
            "POST",
            f"{self._base}/{path}",
            headers=_headers(token),
            body=json.dumps(question).encode(),
        )
        return read_metadata(_data(answer, source, token), source, accepted)

    def refresh(self, token: str, refresh_token: str) -> Token:
        """A new access token; raises ServiceDown where none is to be had.

        If an earlier answer was lost, `token` is already replaced, and some sites refuse any
        request that carries a dead one: then the refresh token has to do alone.
        """
        body = json.dumps({"token": refresh_token}).encode()
        for bearer in (token, None):
            answer = self._http.request(
                "POST", self._refresh_url, headers=_headers(bearer), body=body
            )
            if answer.status not in (401, 403):
                break
        found = _object(answer)
        fresh = found.get("access_token") if answer.status == 200 else None
        if (
            not isinstance(fresh, str)
            or not fresh
            or not fresh.isascii()
            or not fresh.isprintable()
        ):
            raise ServiceDown(
                f"WordPress gave no new token (status {answer.status}); check API_TOKEN, "
                "API_REFRESH_TOKEN and API_REFRESH_URL",
                retry_after=answer.retry_after,
            )
        lifetime = found.get("expires_in")
        if not isinstance(lifetime, int | float) or not 0 < lifetime < 1e9:
            lifetime = None
        return Token(access_token=fresh, expires_in=lifetime)


def _headers(token: str | None) -> dict[str, str]:
    # Without Accept, WordPress tells its troubles as HTML pages.
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _refresh_url(base: str) -> str:
    parts = urlsplit(base)
    site = parts.path.partition("/wp-json")[0]
    return f"{parts.scheme}://{parts.netloc}{site}/wp-json/api-bearer-auth/v1/tokens/refresh"


def _data(answer: Answer, source: str, token: str) -> Any:
    """The `data` of a search answer; raises where the answer is none."""
    if answer.status in (401, 403):
        raise TokenRefused(f"WordPress refused the token (status {answer.status})", token=token)
    if answer.status != 200:
        raise _down(answer, source)
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict) or "json" not in answer.content_type:
        raise ServiceDown(
            f"{source} answered something else than JSON; is API_BASE_URL the address of the API?"
        )
    return found.get("data") if found.get("success") else None


def _down(answer: Answer, source: str) -> ServiceDown:
    if answer.status == 404:
        return ServiceDown(f"{source} has no such address (404); check API_BASE_URL")
    if 300 <= answer.status < 400:
        return ServiceDown(f"{source} redirects ({answer.status}); check API_BASE_URL")
    return ServiceDown(
        f"{source} answered {answer.status}",
        retry_after=answer.retry_after,
        for_everyone=answer.status in _DOWN,
    )


def _object(answer: Answer) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_metadata(data: Any, source: str, accepted: Sequence[str]) -> Metadata | None:
    """The `data` of an answer with every field checked; None where it says nothing, or speaks of
    another work."""
    code = _text(data.get("movie_code")) if isinstance(data, dict) else None
    if code and not any(same_code(code, key) for key in accepted):
        return None
    return accepted_metadata(data, source, code or accepted[0])


def accepted_metadata(data: Any, source: str, code: str) -> Metadata | None:
    """The same of an answer that was accepted before, by whichever spelling of its code."""
    if not isinstance(data, dict) or not data:
        return None
    title, performers = _text(data.get("title")), split_performers(data.get("actress"))
    if title is None and not performers:
        return None  # nothing to name a file by
    return Metadata(
        source=source,
        code=code,
        title=title,
        original_title=_text(data.get("original_title")),
        overview=_text(data.get("overview")),
        release_date=_date(_text(data.get("release_date"))),
        performers=performers,
        genres=split_performers(data.get("genre")),
        labels=split_performers(data.get("label")),
        image_url=_text(data.get("image_cropped")) or _text(data.get("raw_image_url")),
        raw=data,
    )


def same_code(first: str, second: str) -> bool:
    """Whether two spellings mean one work: dashes, case and zero padding do not count - except
    in date codes, where `-` and `_` are different studios."""
    return _code_key(first) == _code_key(second)


def _code_key(code: str) -> tuple[str, ...]:
    code = code.strip().upper()
    if code[:6].isdigit() and code[6:7] in ("-", "_"):
        return (code,)
    parts: list[str] = []
    for character in code:
        kind = "9" if character.isdigit() else "A" if character.isalpha() else ""
        if not kind:
            continue
        if parts and parts[-1][0] == kind:
            parts[-1] += character
        else:
            parts.append(kind + character)
    return tuple("9" + part[1:].lstrip("0") if part[0] == "9" else part for part in parts)


def _text(value: object) -> str | None:
    """Text as text; numbers too, because PHP is not strict about them. None for nothing."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return None
    return visible(value[:_TEXT_LIMIT]).strip() or None


def _date(text: str | None) -> str | None:
    """`YYYY-MM-DD` if it is a day that exists."""
    try:
        return datetime.strptime((text or "")[:10], "%Y-%m-%d").date().isoformat()
    except ValueError:
        return None
