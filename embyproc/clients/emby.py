"""Emby's REST API, and Jellyfin's where it differs. Ids are opaque text; the key is in no URL."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from embyproc.clients.base import Answer, Http
from embyproc.errors import EmbyRefused, ServiceDown

_LIST_BYTES = 256 * 1024 * 1024
_LIST_SECONDS = 300.0
# As many as the queue keeps; those of Emby have a few digits, those of Jellyfin 32.
_LONGEST_ID = 100
_DOWN = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Who answers: `kind` is `emby` or `jellyfin`."""

    kind: str
    version: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedItem:
    """An item as the list shows it; `paths` has all its versions, the main one first."""

    id: str
    paths: tuple[str, ...]
    # More than one where other files are played behind it: cd1, cd2.
    part_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPicture:
    """A picture that an item has; `path` is its file as the server sees it."""

    kind: str
    index: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    id: str
    name: str
    kind: str
    locations: tuple[str, ...]
    is_scanning: bool

    def holds(self, root: str) -> bool:
        """Whether it lies at the path itself or above it, by whole components."""
        places = (place.rstrip("/") for place in self.locations)
        return any(root == place or root.startswith(place + "/") for place in places)


class Emby:
    """Stateless but for what it found out about the server; safe for several threads after
    `connect`."""

    def __init__(self, base_url: str, key: str, user_id: str | None = None) -> None:
        root = base_url.rstrip("/")
        self._root = root.removesuffix("/emby")
        # Emby answers with and without the prefix, a proxy before it perhaps not, and Jellyfin
        # without it only: first as configured, then the other way.
        self._prefixes = ("/emby", "") if root.endswith("/emby") else ("", "/emby")
        self._prefix = self._prefixes[0]
        self._key = key
        self._user_id = user_id
        self._http = Http("Emby")
        self.server = Server(kind="emby", version="", name="")

    # -- who is there ----------------------------------------------------------------------

    def connect(self) -> Server:
        """Find out who answers and whether the key is taken; raises ServiceDown."""
        for prefix in self._prefixes:
            self._prefix = prefix
            answer = self._send("GET", ("System", "Info", "Public"))
            if answer.status == 200:
                break
        found = _object(answer) if answer.status == 200 else None
        if found is None:
            raise ServiceDown(
                f"nobody like Emby answers at EMBY_BASE_URL (status {answer.status})",
                retry_after=answer.retry_after,
            )
        product = str(found.get("ProductName") or "")
        self.server = Server(
            kind="jellyfin" if "jellyfin" in product.lower() else "emby",
            version=str(found.get("Version") or "?"),
            name=str(found.get("ServerName") or ""),
        )
        self.check_key()
        return self.server

    def check_key(self) -> None:
        """Raise ServiceDown or EmbyRefused unless the server answers and takes the key."""
        self._ask("GET", ("System", "Info"), what="the key")

    def user_id(self) -> str:
        """The configured user, or an administrator: others may not see every library."""
        if self._user_id is None:
            if self.server.kind == "jellyfin":
                found = _json(self._ask("GET", ("Users",), what="the users"))
            else:
                found = _object(self._ask("GET", ("Users", "Query"), what="the users")) or {}
                found = found.get("Items")
            users = [user for user in _list(found) if isinstance(user, dict) and user.get("Id")]
            admins = [u for u in users if _dict(u.get("Policy")).get("IsAdministrator") is True]
            if not admins:
                raise ServiceDown("Emby shows no administrator; set EMBY_USER_ID")
            self._user_id = str(admins[0]["Id"])
        return self._user_id

    def libraries(self) -> list[Library]:
        if self.server.kind == "jellyfin":
            found = _json(self._ask("GET", ("Library", "VirtualFolders"), what="the libraries"))
        else:
            answer = self._ask("GET", ("Library", "VirtualFolders", "Query"), what="the libraries")
            found = (_object(answer) or {}).get("Items")
        return [
            Library(
                id=str(entry.get("ItemId") or entry.get("Id") or ""),
                name=str(entry.get("Name") or ""),
                kind=str(entry.get("CollectionType") or "mixed"),
                locations=tuple(str(place) for place in _list(entry.get("Locations"))),
                is_scanning=str(entry.get("RefreshStatus") or "Idle") not in ("Idle", "None"),
            )
            for entry in _list(found)
            if isinstance(entry, dict)
        ]

    # -- scanning and finding --------------------------------------------------------------

    def refresh(self, folder_id: str) -> None:
        """Have a folder scanned. The answer only says that the wish was heard."""
        query = {
            "Recursive": "true",
            "MetadataRefreshMode": "Default",
            "ImageRefreshMode": "Default",
            "ReplaceAllMetadata": "false",
            "ReplaceAllImages": "false",
        }
        self._ask("POST", ("Items", folder_id, "Refresh"), query, what="the scan")

    def list_videos(self, folder_id: str) -> list[ListedItem]:
        """Every video below a folder with the paths of all its versions, in one request."""
        answer = self._ask(
            "GET",
            ("Users", self.user_id(), "Items"),
            {
                "ParentId": folder_id,
                "Recursive": "true",
                "IsFolder": "false",
                "MediaTypes": "Video",
                "Fields": "Path,MediaSources",
                "EnableImages": "false",
                "EnableUserData": "false",
            },
            what="the list of items",
            # Emby says nothing until it has the whole list, and for a large one that takes minutes.
            limits={
                "max_bytes": _LIST_BYTES,
                "read_seconds": _LIST_SECONDS,
                "whole_seconds": _LIST_SECONDS,
            },
        )
        return _listed_all(answer)

    def additional_parts(self, item_id: str) -> list[ListedItem]:
        """The files that are played behind this one; no list of a folder shows them."""
        segments = ("Videos", item_id, "AdditionalParts")
        answer = self._ask("GET", segments, {"UserId": self.user_id()}, what="the parts")
        return _listed_all(answer)

    # -- one item --------------------------------------------------------------------------

    def read(self, item_id: str) -> dict[str, Any]:
        answer = self._ask("GET", ("Users", self.user_id(), "Items", item_id), what="the item")
        found = _object(answer)
        if found is None or str(found.get("Id")) != item_id:
            raise EmbyRefused("Emby answered something else than the item that was asked for")
        return found

    def read_many(self, item_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Items with the fields that people see, but not all there are: not fit to be written."""
        query = {
            "Ids": ",".join(item_ids),
            "Fields": "Overview,OriginalTitle,Genres,People,Studios,Settings",
            "EnableImages": "false",
            "EnableUserData": "false",
        }
        answer = self._ask("GET", ("Users", self.user_id(), "Items"), query, what="the items")
        return [_dict(entry) for entry in _list((_object(answer) or {}).get("Items"))]

    def update(self, item: Mapping[str, Any]) -> None:
        body = json.dumps(item).encode()
        segments = ("Items", str(item.get("Id") or ""))
        self._ask("POST", segments, body=body, content_type="application/json", what="the update")

    # -- pictures --------------------------------------------------------------------------

    def images(self, item_id: str) -> list[StoredPicture]:
        """Each picture the item has."""
        answer = self._ask("GET", ("Items", item_id, "Images"), what="the list of pictures")
        found = []
        for entry in map(_dict, _list(_json(answer))):
            kind, index = entry.get("ImageType"), entry.get("ImageIndex") or 0
            if isinstance(kind, str) and kind and isinstance(index, int):
                path = str(entry.get("Path") or "")
                found.append(StoredPicture(kind=kind, index=index, path=path))
        return found

    def delete_image(self, item_id: str, kind: str, index: int) -> None:
        """One that is gone already is fine."""
        answer = self._send("DELETE", ("Items", item_id, "Images", kind, str(index)))
        if answer.status != 404:
            _check(answer, "the removal of a picture")

    def upload_image(self, item_id: str, kind: str, body: bytes, content_type: str) -> None:
        self._ask(
            "POST",
            ("Items", item_id, "Images", kind),
            body=base64.b64encode(body),
            content_type=content_type,
            what="a picture",
        )

    # -- transport -------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        segments: Sequence[str],
        query: Mapping[str, str] | None = None,
        *,
        what: str,
        body: bytes | None = None,
        content_type: str | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Answer:
        answer = self._send(method, segments, query, body, content_type, limits)
        _check(answer, what)
        return answer

    def _send(
        self,
        method: str,
        segments: Sequence[str],
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Answer:
        # One empty segment lies between removing a picture and removing a film.
        if any(segment.strip() in ("", ".", "..") for segment in segments):
            raise EmbyRefused(f"an empty part in the address of {'/'.join(segments)}: not sent")
        path = "/".join(quote(segment, safe="") for segment in segments)
        url = f"{self._root}{self._prefix}/{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {
            "Accept": "application/json",
            "X-Emby-Token": self._key,
            "Authorization": f'MediaBrowser Token="{self._key}"',
        }
        if content_type is not None:
            headers["Content-Type"] = content_type
        return self._http.request(method, url, headers=headers, body=body, **(limits or {}))


def poll(look: Callable[[], bool], delays: Sequence[float], sleep: Callable[[float], None]) -> bool:
    """Look at once and after each delay until `look` says that nothing is awaited any more."""
    from tenacity import RetryError, Retrying, retry_if_result, stop_after_attempt, wait_chain
    from tenacity.wait import wait_fixed

    waits = wait_chain(*(wait_fixed(delay) for delay in delays)) if delays else wait_fixed(0)
    try:
        return Retrying(
            stop=stop_after_attempt(len(delays) + 1),
            wait=waits,
            sleep=sleep,
            retry=retry_if_result(lambda done: not done),
        )(look)
    except RetryError:
        return False


def _check(answer: Answer, what: str) -> None:
    """Any 2xx is fine; bodies of errors are pages for people and are not repeated."""
    if 200 <= answer.status < 300:
        return
    if answer.status in (401, 403):
        raise ServiceDown(f"Emby refused the key ({answer.status}); check EMBY_API_KEY")
    if answer.status in _DOWN:
        raise ServiceDown(f"Emby answered {answer.status}", retry_after=answer.retry_after)
    if 300 <= answer.status < 400:
        raise ServiceDown(f"Emby redirects ({answer.status}); check EMBY_BASE_URL")
    raise EmbyRefused(f"Emby answered {answer.status} to {what}", status=answer.status)


def _listed(entry: Any) -> ListedItem | None:
    if not isinstance(entry, dict) or not 0 < len(str(entry.get("Id") or "")) <= _LONGEST_ID:
        return None
    sources = (_dict(source).get("Path") for source in _list(entry.get("MediaSources")))
    paths = [path for path in (entry.get("Path"), *sources) if isinstance(path, str) and path]
    parts = entry.get("PartCount")
    return ListedItem(
        id=str(entry["Id"]),
        paths=tuple(dict.fromkeys(paths)),
        part_count=parts if isinstance(parts, int) else 1,
    )


def _listed_all(answer: Answer) -> list[ListedItem]:
    found = (_listed(entry) for entry in _list((_object(answer) or {}).get("Items")))
    return [item for item in found if item is not None]


def _json(answer: Answer) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise EmbyRefused("Emby answered something else than JSON") from None


def _object(answer: Answer) -> dict[str, Any] | None:
    try:
        found = answer.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
