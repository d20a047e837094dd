"""Stand-in for an Emby or Jellyfin server that indexes a real directory.

It keeps items, metadata and pictures, answers as the real servers do, and writes down what no
client should ever send: see `contract_violations`, `forbidden_calls` and `key_in_url`.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import unquote

from embyproc.demo.emby_api import Call, EmbyApi
from embyproc.demo.emby_contract import check_values, violations_of
from embyproc.demo.emby_items import full_item
from embyproc.demo.emby_library import Library, guid
from embyproc.demo.emby_routes import Kind, Route, forbidden_call, match_route, without_prefix
from embyproc.demo.emby_scans import ScanQueue
from embyproc.demo.emby_system import ADMINISTRATOR_ID
from embyproc.demo.messages import Refusal, Reply, Request
from embyproc.demo.server import StandInServer

_TOKEN_HEADER = re.compile(r'(MediaBrowser|Emby)\s.*\bToken="([^"]*)"', re.IGNORECASE)
_STOP_SECONDS = 0.4


class StandInEmby(StandInServer):
    """`server_prefix` is where the server believes `library_root` to be.

    With an `index_delay_seconds` of 0 a refresh is done before it is answered; with
    `item_delay_seconds` new videos appear one by one. `late_save_seconds` lets the scan of a new
    item save once more that long after the first write, over its Name. Jellyfin ids are GUIDs: a
    short `parent_folder_id` becomes one, to be read from the attribute of the same name.
    """

    def __init__(
        self,
        library_root: Path,
        *,
        server_prefix: str = "/mnt/library",
        parent_folder_id: str = "4",
        api_key: str = "stand-in-api-key",
        kind: Kind = "emby",
        library_kind: Literal["homevideos", "movies"] = "homevideos",
        index_delay_seconds: float = 0.0,
        item_delay_seconds: float = 0.0,
        late_save_seconds: float | None = None,
        nfd_paths: bool = False,
        legacy_authorization: bool = False,
        broken_date_filters: bool = False,
        seed: int = 0,
        latency_seconds: float = 0.0,
    ) -> None:
        super().__init__(seed=seed, latency_seconds=latency_seconds)
        self.kind: Kind = kind
        self.api_key = api_key
        self.legacy_authorization = legacy_authorization
        self.user_id = ADMINISTRATOR_ID
        needs_guid = kind == "jellyfin" and len(parent_folder_id) != 32
        self.parent_folder_id = guid(parent_folder_id) if needs_guid else parent_folder_id
        self.key_in_url: list[str] = []
        self.forbidden_calls: list[str] = []
        self.contract_violations: list[str] = []
        self._counts: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._library = Library(
            library_root,
            server_prefix=server_prefix,
            library_id=self.parent_folder_id,
            kind=kind,
            merges_versions=library_kind == "movies",
            video_type="Movie" if library_kind == "movies" else "Video",
            nfd_paths=nfd_paths,
        )
        self._api = EmbyApi(
            self._library,
            collection_type=library_kind,
            late_save_seconds=late_save_seconds,
            broken_date_filters=broken_date_filters,
            clock=self._clock,
            note_violation=lambda message: self.contract_violations.append(message),
        )
        self._scans = ScanQueue(
            self._library,
            self._lock,
            delay_seconds=index_delay_seconds,
            item_delay_seconds=item_delay_seconds,
            now=self._clock,
            on_new_item=self._api.welcome,
            on_error=lambda error: self.errors.append(f"{type(error).__name__}: {error}"),
        )
        self._api.scans = self._scans

    # Life

    def start(self) -> Self:
        self._scans.start()
        return super().start()

    def stop(self) -> None:
        self._scans.stop(_STOP_SECONDS)
        super().stop()

    # For tests

    def counts(self) -> dict[str, int]:
        """Requests per route name of `emby_routes`; 'unknown' for all that has no route."""
        with self._lock:
            return dict(self._counts)

    def forget_requests(self) -> None:
        with self._lock:
            self._counts.clear()
        super().forget_requests()

    def items_by_path(self) -> dict[str, dict[str, Any]]:
        """The full object of each video by its server-side path."""
        with self._lock:
            self._api.save_late()
            videos = [item for item in self._library.items.values() if not item.is_folder]
            return {
                self._library.shown(item.path): full_item(self._library, item) for item in videos
            }

    def images(self, item_id: str) -> dict[str, list[bytes]]:
        """The pictures of an item by type."""
        with self._lock:
            stored = self._library.items[item_id].images
            return {name: [image.body for image in images] for name, images in stored.items()}

    def scan_now(self) -> None:
        """Indexes the whole library at once, without a request and without any delay."""
        self._scans.scan_all()

    def drop_updates(self, times: int) -> None:
        """The next `times` updates are answered with 204 and forgotten."""
        with self._lock:
            self._api.updates_to_drop = times

    def scan_another_library(self) -> None:
        """From now on a library that is not ours is being scanned."""
        with self._lock:
            self._api.other_refresh_status = "Active"

    @property
    def index_delay_seconds(self) -> float:
        """How long after a refresh the files are indexed."""
        return self._scans.delay_seconds

    @index_delay_seconds.setter
    def index_delay_seconds(self, seconds: float) -> None:
        self._scans.delay_seconds = seconds

    @property
    def refreshes_while_pending(self) -> int:
        """Refreshes asked for while an earlier one had not finished."""
        with self._lock:
            return self._api.refreshes_while_pending

    # Gate

    def path_forms(self, path: str) -> tuple[str, ...]:
        return (path, without_prefix(path))

    def observe(self, request: Request) -> None:
        with self._lock:
            if self.api_key in unquote(request.target):
                self.key_in_url.append(request.target)
            if forbidden_call(request.method, request.path):
                self.forbidden_calls.append(f"{request.method} {request.target}")
            found = self._route(request)
            self._counts[found[0].name if found else "unknown"] += 1
            if found is None:
                message = f"{request.method} {request.path}: not in the route table"
                self.contract_violations.append(message)
            else:
                self.contract_violations += violations_of(request, found[0], self.kind)

    def respond(self, request: Request) -> Reply:
        try:
            return self._respond(request)
        except Refusal as refusal:
            return refusal.reply()

    def _respond(self, request: Request) -> Reply:
        if forbidden_call(request.method, request.path):
            raise Refusal(500, "Media is never deleted here.")
        if "//" in request.path or request.path.endswith("/"):
            raise Refusal(400, "The path has an empty segment.")
        found = self._route(request)
        if found is None:
            raise Refusal(404, "Not found.")
        route, ids = found
        if not route.public and not self._is_authorised(request):
            raise Refusal(401, "Access token is invalid or expired.")
        query = {name.lower(): text for name, text in request.query.items()}
        check_values(route, self.kind, query)
        with self._lock:
            self._api.save_late()
            call = Call(request=request, ids=ids, query=query)
            return self._api.handlers[route.name](call)

    def _route(self, request: Request) -> tuple[Route, dict[str, str]] | None:
        if forbidden_call(request.method, request.path):
            return None
        path = without_prefix(request.path) if self.kind == "emby" else request.path
        return match_route(self.kind, request.method, path)

    def _is_authorised(self, request: Request) -> bool:
        legacy = self.kind == "emby" or self.legacy_authorization
        scheme = _TOKEN_HEADER.fullmatch(request.header("Authorization").strip())
        given = []
        if scheme and (legacy or scheme[1].lower() == "mediabrowser"):
            given.append(scheme[2])
        if legacy:
            given += [request.header("X-Emby-Token"), request.query.get("api_key", "")]
        if self.kind == "jellyfin":
            given.append(request.query.get("ApiKey", ""))
        return self.api_key in given

    def _clock(self) -> datetime:
        return datetime.fromtimestamp(self.now(), UTC)
