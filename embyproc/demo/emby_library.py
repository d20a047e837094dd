"""The stand-in Emby's library: items found by walking a real directory, with ids and metadata."""

from __future__ import annotations

import hashlib
import itertools
import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embyproc.demo.emby_routes import Kind

VIDEO_EXTENSIONS = frozenset(
    {".mp4", ".mkv", ".avi", ".wmv", ".mov", ".m4v", ".ts", ".mpg", ".webm", ".flv"}
)
_FIRST_ID = 1000
_PART = re.compile(
    r"(.*?)[ _.-]*(?:cd|dvd|part|pt|dis[ck])[ _.-]*([0-9]+)(\.[^.]+)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class StoredImage:
    body: bytes
    content_type: str
    # Where it lies, if it lies beside the film; as the server sees it.
    path: str | None = None

    @property
    def tag(self) -> str:
        return hashlib.md5(self.body, usedforsecurity=False).hexdigest()


@dataclass(slots=True, kw_only=True)
class MediaItem:
    """A folder or a video; paths are as the server sees them."""

    id: str
    path: str
    parent_id: str
    type: str
    is_folder: bool
    media_paths: list[str]
    size: int
    created: datetime
    saved: datetime
    metadata: dict[str, Any] = field(default_factory=dict)
    images: dict[str, list[StoredImage]] = field(default_factory=dict)
    # The other parts that are played after this one; they are items, but no list shows them.
    parts: list[str] = field(default_factory=list)
    is_behind: bool = False
    late_save_open: bool = False
    late_save_due: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a walk saw: a folder, or the files that make up one video item."""

    path: str
    is_folder: bool
    media_paths: tuple[str, ...] = ()
    size: int = 0
    created: datetime
    parts: tuple[str, ...] = ()
    is_behind: bool = False


class Library:
    """Not locked: the server that owns it serialises access."""

    def __init__(
        self,
        root: Path,
        *,
        server_prefix: str,
        library_id: str,
        kind: Kind,
        merges_versions: bool,
        video_type: str,
        nfd_paths: bool,
    ) -> None:
        self.root = root
        self.server_prefix = server_prefix.rstrip("/")
        self.library_id = library_id
        self.kind = kind
        self.merges_versions = merges_versions
        self.video_type = video_type
        self.nfd_paths = nfd_paths
        self.items: dict[str, MediaItem] = {}
        self._by_path: dict[str, str] = {}
        self._next_id = itertools.count(_FIRST_ID)
        self._name_ids: dict[str, int] = {}
        now = datetime.now(UTC)
        root_folder = Found(path=self.server_prefix, is_folder=True, created=now)
        self.root_id = self.put(root_folder, now)[0].id

    # Paths

    def server_path(self, local: str) -> str:
        relative = os.path.relpath(local, self.root)
        parts = [] if relative == "." else relative.split(os.sep)
        return posixpath.join(self.server_prefix, *parts)

    def local_path(self, server_path: str) -> Path | None:
        """The real path, or None when it lies outside the library."""
        tidy = posixpath.normpath(server_path)
        if tidy != self.server_prefix and not tidy.startswith(self.server_prefix + "/"):
            return None
        local = self.root / tidy[len(self.server_prefix) :].lstrip("/")
        # A client may ask back with the decomposed form that it was shown.
        return local if local.exists() else Path(unicodedata.normalize("NFC", str(local)))

    def shown(self, path: str) -> str:
        """A path as the server reports it: some file systems decompose accents."""
        return unicodedata.normalize("NFD", path) if self.nfd_paths else path

    # Ids

    def new_id(self, path: str) -> str:
        if self.kind == "jellyfin":
            return guid(path)
        fresh = map(str, self._next_id)
        return next(one for one in fresh if one not in self.items and one != self.library_id)

    def name_id(self, name: str) -> int | str:
        """The id of a genre, studio, tag or person."""
        if self.kind == "jellyfin":
            return guid(f"name:{name}")
        return self._name_ids.setdefault(name, 100 + len(self._name_ids))

    # Looking

    def children(self, item_id: str) -> list[MediaItem]:
        parent = self.root_id if item_id == self.library_id else item_id
        return [item for item in self.items.values() if item.parent_id == parent]

    def below(self, item_id: str) -> list[MediaItem]:
        """Everything under a folder at any depth."""
        top = self.root_id if item_id == self.library_id else item_id
        inside = {top}
        # Parents are always created before their children, so one pass in order is enough.
        result = []
        for item in self.items.values():
            if item.parent_id in inside:
                inside.add(item.id)
                result.append(item)
        return result

    # Scanning

    def walk(self, top: str, *, recursive: bool) -> Iterator[Found]:
        """What is on disk under a server path, parents first; hidden names are passed over."""
        local = self.local_path(top)
        if local is None or not local.is_dir():
            return
        for folder, folder_names, file_names in os.walk(local):
            folder_names[:] = sorted(name for name in folder_names if not name.startswith("."))
            here = self.server_path(folder)
            if here == top or recursive:
                yield _found_folder(here, folder)
                yield from self._videos(here, folder, file_names)
            if not recursive:
                for name in folder_names:
                    path = os.path.join(folder, name)
                    yield _found_folder(self.server_path(path), path)
                return

    def _videos(self, here: str, folder: str, file_names: Iterable[str]) -> Iterator[Found]:
        names = sorted(name for name in file_names if _is_video(name))
        start = posixpath.basename(here) + " -"
        groups = [[name] for name in names]
        # The multi-version rule of movie libraries.
        if self.merges_versions and len(names) > 1 and all(n.startswith(start) for n in names):
            groups = [names]
        stacks = _stacks(names) if len(groups) == len(names) else {}
        for group in groups:
            try:
                status = os.stat(os.path.join(folder, group[0]))
            except FileNotFoundError:
                continue
            paths = tuple(posixpath.join(here, name) for name in group)
            stack = stacks.get(group[0], [])
            # The date of the file, not of the scan: an old file that was moved in looks old.
            created = datetime.fromtimestamp(status.st_mtime, UTC)
            yield Found(
                path=paths[0],
                is_folder=False,
                media_paths=paths,
                size=status.st_size,
                created=created,
                parts=tuple(posixpath.join(here, name) for name in stack[1:])
                if stack[:1] == group
                else (),
                is_behind=group[0] in stack[1:],
            )

    def put(self, found: Found, now: datetime) -> tuple[MediaItem, bool]:
        """The item of what was found, and whether it is new. A new path is always a new item."""
        known = [
            self._by_path[path]
            for path in (found.path, *found.media_paths)
            if path in self._by_path
        ]
        if known:
            item = self.items[known[0]]
            for other in {*known} - {item.id}:
                self.remove(other)
            del self._by_path[item.path]
            item.path, item.media_paths = found.path, list(found.media_paths)
        else:
            item = self._new_item(found, now)
            self.items[item.id] = item
        self._by_path[found.path] = item.id
        item.parts, item.is_behind = list(found.parts), found.is_behind
        if not known:
            item.images = self._pictures_beside(item)
        return item, not known

    def _pictures_beside(self, item: MediaItem) -> dict[str, list[StoredImage]]:
        """A server takes the pictures that lie beside a film for the film's."""
        stem, folder = posixpath.splitext(item.path)[0], posixpath.dirname(item.path)
        names = {
            f"{folder}/folder.jpg": "Primary",
            f"{stem}-poster.jpg": "Primary",
            f"{stem}-fanart.jpg": "Backdrop",
        }
        found = {}
        for path, kind in names.items():
            local = None if item.is_folder else self.local_path(path)
            if local is not None and local.is_file():
                found[kind] = [StoredImage(local.read_bytes(), "image/jpeg", path)]
        return found

    def parts_of(self, item: MediaItem) -> list[MediaItem]:
        return [self.items[self._by_path[path]] for path in item.parts if path in self._by_path]

    def _new_item(self, found: Found, now: datetime) -> MediaItem:
        parent = posixpath.dirname(found.path)
        return MediaItem(
            id=self.new_id(found.path),
            path=found.path,
            parent_id=self._by_path.get(parent, self.library_id),
            type="Folder" if found.is_folder else self.video_type,
            is_folder=found.is_folder,
            media_paths=list(found.media_paths),
            size=found.size,
            created=found.created,
            saved=now,
            metadata={"Name": scanned_name(found.path, is_folder=found.is_folder)},
        )

    def forget_missing(
        self, top: MediaItem, known: set[str], seen: set[str], *, recursive: bool
    ) -> None:
        """Drops the `known` ids whose paths a walk of `top` has not seen, with all below them."""
        candidates = self.below(top.id) if recursive else self.children(top.id)
        gone = [item for item in candidates if item.id in known and item.path not in seen]
        for item in gone:
            for inner in [*self.below(item.id), item]:
                self.remove(inner.id)

    def remove(self, item_id: str) -> None:
        item = self.items.pop(item_id, None)
        if item is not None and self._by_path.get(item.path) == item_id:
            del self._by_path[item.path]


def guid(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def scanned_name(path: str, *, is_folder: bool) -> str:
    """The title a scan makes of a file name: brackets are taken for noise and cut out."""
    base = posixpath.basename(path)
    if is_folder:
        return base
    stem = posixpath.splitext(base)[0]
    return " ".join(re.sub(r"\[[^\]]*\]", " ", stem).split()) or stem


def _stacks(names: Iterable[str]) -> dict[str, list[str]]:
    """Each name that is a part -> all parts of its work in order: `X - cd1`, `X - cd2`."""
    works: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for name in names:
        if match := _PART.match(name):
            works.setdefault((match[1], match[3]), []).append((int(match[2]), name))
    several = [[name for _, name in sorted(parts)] for parts in works.values() if len(parts) > 1]
    return {name: parts for parts in several for name in parts}


def _is_video(name: str) -> bool:
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in VIDEO_EXTENSIONS


def _found_folder(path: str, local: str) -> Found:
    try:
        created = datetime.fromtimestamp(os.stat(local).st_mtime, UTC)
    except FileNotFoundError:  # removed since it was listed; the next scan will drop it
        created = datetime.now(UTC)
    return Found(path=path, is_folder=True, created=created)
