"""What each route of the stand-in Emby does with its library."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from embyproc.demo import emby_images as pictures
from embyproc.demo import emby_system as system
from embyproc.demo.emby_items import full_item, is_true, list_items, names_in
from embyproc.demo.emby_library import Library, MediaItem, guid, scanned_name
from embyproc.demo.emby_scans import ScanQueue
from embyproc.demo.emby_updates import changed_metadata, created_date
from embyproc.demo.messages import Refusal, Reply, Request, json_reply, no_content, text_reply

# Appended by the late save, so that no test mistakes it for a name of its own.
LATE_NAME_ENDING = " (as scanned)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that found its route; query names are in lower case."""

    request: Request
    ids: Mapping[str, str]
    query: Mapping[str, str]


class EmbyApi:
    """One method per route; the server calls them under its lock."""

    def __init__(
        self,
        library: Library,
        *,
        collection_type: str,
        late_save_seconds: float | None,
        broken_date_filters: bool,
        clock: Callable[[], datetime],
        note_violation: Callable[[str], None],
    ) -> None:
        self.library = library
        self.late_save_seconds = late_save_seconds
        self.broken_date_filters = broken_date_filters
        self.updates_to_drop = 0
        self.refreshes_while_pending = 0
        self.scans: ScanQueue | None = None
        self.other_refresh_status = "Idle"
        self._collection_type = collection_type
        self._clock = clock
        self._note_violation = note_violation
        self._late_saves: list[MediaItem] = []
        other_id = "3" if library.library_id != "3" else "2"
        self._other_id = guid(other_id) if library.kind == "jellyfin" else other_id
        self._views = {
            self._other_id: self._view(self._other_id, system.OTHER_LIBRARY_NAME),
            library.library_id: self._view(library.library_id, system.LIBRARY_NAME),
        }
        self.handlers = self._handlers()

    def _handlers(self) -> dict[str, Callable[[Call], Reply]]:
        library = self.library
        return {
            "public_info": lambda call: json_reply(system.public_info(library)),
            "info": lambda call: json_reply(system.full_info(library)),
            "ping": lambda call: text_reply(system.SERVER_NAME),
            "users": lambda call: _page(system.users(library), call),
            "users_bare": lambda call: json_reply(system.users(library)),
            "virtual_folders": lambda call: _page(self._virtual_folders(), call),
            "virtual_folders_bare": lambda call: json_reply(self._virtual_folders()),
            "selectable_folders": lambda call: json_reply(
                system.selectable_folders(library, other_id=self._other_id)
            ),
            "tasks": lambda call: json_reply(
                system.scheduled_tasks(scanning=self._queue.task_is_running())
            ),
            "directory_contents": self._directory_contents,
            "refresh_library": self._refresh_library,
            "refresh_item": self._refresh_item,
            "list_items": self._list_items,
            "read_item": self._read_item,
            "additional_parts": self._additional_parts,
            "update_item": self._update_item,
            "list_images": lambda call: json_reply(pictures.listing(self._item(call))),
            "read_image": self._read_image,
            "upload_image": self._upload_image,
            "delete_image": self._delete_image,
        }

    @property
    def _queue(self) -> ScanQueue:
        if self.scans is None:
            raise RuntimeError("the scan queue was never connected")
        return self.scans

    # The race of the first refresh

    def welcome(self, item: MediaItem) -> None:
        """Called for each item that a scan has added."""
        item.late_save_open = self.late_save_seconds is not None and not item.is_folder

    def save_late(self) -> None:
        """Lets the scans that are due overwrite the name that a client has written."""
        due = [item for item in self._late_saves if (item.late_save_due or 0) <= time.monotonic()]
        for item in due:
            self._late_saves.remove(item)
            item.metadata["Name"] = scanned_name(item.path, is_folder=False) + LATE_NAME_ENDING
            item.saved = self._clock()

    # Server

    def _view(self, item_id: str, name: str) -> MediaItem:
        now = self._clock()
        return MediaItem(
            id=item_id,
            path=f"/config/root/default/{name}",
            parent_id="1",
            type="CollectionFolder",
            is_folder=True,
            media_paths=[],
            size=0,
            created=now,
            saved=now,
            metadata={"Name": name},
        )

    def _virtual_folders(self) -> list[dict[str, Any]]:
        return system.virtual_folders(
            self.library,
            other_id=self._other_id,
            collection_type=self._collection_type,
            refresh_status=self._queue.status(),
            other_refresh_status=self.other_refresh_status,
        )

    def _directory_contents(self, call: Call) -> Reply:
        path = call.query.get("path", "")
        if not path:
            raise Refusal(400, "Path is missing.")
        files = is_true(call.query.get("includefiles", ""))
        directories = is_true(call.query.get("includedirectories", ""))
        return json_reply(
            system.directory_contents(self.library, path, files=files, directories=directories)
        )

    # Scans

    def _refresh_library(self, call: Call) -> Reply:
        self._ask(self.library.library_id, recursive=True, is_task=True)
        return no_content()

    def _refresh_item(self, call: Call) -> Reply:
        item = self._item(call)
        if item.is_folder:
            # Jellyfin has no such parameter and always descends.
            recursive = self.library.kind == "jellyfin" or is_true(call.query.get("recursive", ""))
            self._ask(item.id, recursive=recursive)
        return no_content()

    def _ask(self, item_id: str, *, recursive: bool, is_task: bool = False) -> None:
        if self._queue.status() != "Idle":
            self.refreshes_while_pending += 1
        self._queue.ask(item_id, recursive=recursive, is_task=is_task)

    # Items

    def _item(self, call: Call) -> MediaItem:
        item_id = self._plain(call.ids["Id"])
        item = self._views.get(item_id) or self.library.items.get(item_id)
        if item is None:
            raise Refusal(404, "Item not found.")
        return item

    def _plain(self, item_id: str) -> str:
        # GUIDs may be written with dashes and in capitals; decimal ids have one form.
        return item_id.replace("-", "").lower() if self.library.kind == "jellyfin" else item_id

    def _sees_libraries(self, user_id: str) -> bool:
        for user in system.users(self.library):
            if user["Id"] == user_id.replace("-", "").lower():
                return bool(user["Policy"]["IsAdministrator"])
        raise Refusal(404, "User not found.")

    def _list_items(self, call: Call) -> Reply:
        user_id = call.ids.get("UserId") or call.query.get("userid")
        candidates = self._candidates(call.query)
        if user_id and not self._sees_libraries(user_id):
            candidates = []
        answer = list_items(
            self.library, candidates, call.query, broken_date_filters=self.broken_date_filters
        )
        return json_reply(answer)

    def _candidates(self, query: Mapping[str, str]) -> list[MediaItem]:
        known = {**self.library.items, **self._views}
        parent_id = self._plain(query.get("parentid", ""))
        recursive = is_true(query.get("recursive", ""))
        if query.get("ids"):
            wanted = map(self._plain, names_in(query["ids"]))
            return [known[item_id] for item_id in wanted if item_id in known]
        if parent_id:
            if parent_id not in known:
                raise Refusal(404, "Item not found.")
            library = self.library
            return library.below(parent_id) if recursive else library.children(parent_id)
        return list(self.library.items.values()) if recursive else list(self._views.values())

    def _read_item(self, call: Call) -> Reply:
        # With a bare API key Jellyfin has no user of its own to look through.
        user_id = call.ids.get("UserId") or call.query.get("userid", "")
        if not self._sees_libraries(user_id):
            raise Refusal(404, "Item not found.")
        return json_reply(full_item(self.library, self._item(call)))

    def _additional_parts(self, call: Call) -> Reply:
        parts = self.library.parts_of(self._item(call))
        return _page([full_item(self.library, part) for part in parts], call)

    def _update_item(self, call: Call) -> Reply:
        item = self._item(call)
        where = f"POST {call.request.path}"
        if not call.request.header("Content-Type").lower().startswith("application/json"):
            raise Refusal(400, "The body must be JSON.")
        try:
            body = call.request.json()
        except ValueError as error:
            raise Refusal(400, "The body is not JSON.") from error
        if not isinstance(body, dict):
            raise Refusal(400, "The body is not an item.")
        if item.is_folder:
            self._note_violation(f"{where}: writes to a folder, which reaches all its children")
        if body.get("Id") not in (None, item.id):
            self._note_violation(f"{where}: carries the object of item {body['Id']}")
            raise Refusal(400, "The body is another item.")
        metadata = changed_metadata(item.metadata, body, self.library.kind)
        created = created_date(body)
        if self.updates_to_drop > 0:
            self.updates_to_drop -= 1
            return no_content()
        item.metadata = metadata
        item.created = created or item.created
        item.saved = self._clock()
        if item.late_save_open and self.late_save_seconds is not None:
            item.late_save_open = False
            item.late_save_due = time.monotonic() + self.late_save_seconds
            self._late_saves.append(item)
        return no_content()

    # Pictures

    def _image_index(self, call: Call) -> int:
        text = (
            call.ids.get("Index") or call.query.get("index") or call.query.get("imageindex") or "0"
        )
        if not text.isdecimal():
            raise Refusal(400, "The image index is not a number.")
        return int(text)

    def _read_image(self, call: Call) -> Reply:
        image_type = pictures.check_type(call.ids["Type"])
        image = pictures.find(self._item(call), image_type, self._image_index(call))
        return Reply(body=image.body, content_type=image.content_type)

    def _upload_image(self, call: Call) -> Reply:
        item, image_type = self._item(call), pictures.check_type(call.ids["Type"])
        self._image_index(call)
        upload = pictures.decode_upload(call.request.body, call.request.header("Content-Type"))
        if upload.mislabelled:
            self._note_violation(f"POST {call.request.path}: the Content-Type is not the picture's")
        pictures.store(item, image_type, upload.image, self.library)
        item.saved = self._clock()
        return no_content()

    def _delete_image(self, call: Call) -> Reply:
        item, image_type = self._item(call), pictures.check_type(call.ids["Type"])
        pictures.delete(item, image_type, self._image_index(call), self.library)
        item.saved = self._clock()
        return no_content()


def _page(rows: list[dict[str, Any]], call: Call) -> Reply:
    start = int(call.query.get("startindex") or 0)
    end = start + int(call.query["limit"]) if call.query.get("limit") else None
    return json_reply({"Items": rows[start:end], "TotalRecordCount": len(rows)})
