"""The requests the stand-in Emby answers, with the query parameters each may carry.

This table is the contract: what is not in it is recorded as a violation, and a test compares it
with the official operation list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

Kind = Literal["emby", "jellyfin"]
PREFIX = "emby"


class Value(Enum):
    """What a query parameter's text must look like."""

    TEXT = "text"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DATE = "date"
    REFRESH_MODE = "refresh mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`unofficial` routes are answered as real servers do, but recorded as a violation."""

    name: str
    method: str
    template: str
    query: Mapping[str, Value] = field(default_factory=dict)
    jellyfin_query: Mapping[str, Value] = field(default_factory=dict)
    servers: Sequence[Kind] = ("emby", "jellyfin")
    unofficial_on: Sequence[Kind] = ()
    public: bool = False
    beyond_contract: bool = False

    def parameters(self, kind: Kind) -> dict[str, Value]:
        return {**self.query, **(self.jellyfin_query if kind == "jellyfin" else {})}


_LIST_QUERY = {
    "ParentId": Value.TEXT,
    "Recursive": Value.BOOLEAN,
    "Path": Value.TEXT,
    "Ids": Value.TEXT,
    "MediaTypes": Value.TEXT,
    "IsFolder": Value.BOOLEAN,
    "IncludeItemTypes": Value.TEXT,
    "ExcludeItemTypes": Value.TEXT,
    "SearchTerm": Value.TEXT,
    "NameStartsWith": Value.TEXT,
    "MinDateLastSaved": Value.DATE,
    "MinDateLastSavedForUser": Value.DATE,
    "Fields": Value.TEXT,
    "SortBy": Value.TEXT,
    "SortOrder": Value.TEXT,
    "StartIndex": Value.INTEGER,
    "Limit": Value.INTEGER,
    "EnableImages": Value.BOOLEAN,
    "EnableUserData": Value.BOOLEAN,
    "EnableImageTypes": Value.TEXT,
    "ImageTypeLimit": Value.INTEGER,
}
_LIST_JELLYFIN_QUERY = {"EnableTotalRecordCount": Value.BOOLEAN}
_REFRESH_QUERY = {
    "Recursive": Value.BOOLEAN,
    "MetadataRefreshMode": Value.REFRESH_MODE,
    "ImageRefreshMode": Value.REFRESH_MODE,
    "ReplaceAllMetadata": Value.BOOLEAN,
    "ReplaceAllImages": Value.BOOLEAN,
}
_PAGE_QUERY = {"StartIndex": Value.INTEGER, "Limit": Value.INTEGER}
_INDEX_QUERY = {"Index": Value.INTEGER}
_INDEX_JELLYFIN_QUERY = {"ImageIndex": Value.INTEGER}

ROUTES = (
    Route(name="public_info", method="GET", template="/System/Info/Public", public=True),
    Route(name="info", method="GET", template="/System/Info"),
    Route(name="ping", method="GET", template="/System/Ping", public=True),
    Route(name="ping", method="HEAD", template="/System/Ping", servers=("emby",), public=True),
    Route(name="ping", method="POST", template="/System/Ping", public=True),
    Route(
        name="users",
        method="GET",
        template="/Users/Query",
        query={"IsHidden": Value.BOOLEAN, "IsDisabled": Value.BOOLEAN, **_PAGE_QUERY},
        servers=("emby",),
    ),
    Route(
        name="users_bare",
        method="GET",
        template="/Users",
        jellyfin_query={"IsHidden": Value.BOOLEAN, "IsDisabled": Value.BOOLEAN},
        unofficial_on=("emby",),
    ),
    Route(
        name="virtual_folders",
        method="GET",
        template="/Library/VirtualFolders/Query",
        query=_PAGE_QUERY,
        servers=("emby",),
    ),
    Route(name="virtual_folders_bare", method="GET", template="/Library/VirtualFolders"),
    Route(
        name="selectable_folders",
        method="GET",
        template="/Library/SelectableMediaFolders",
        servers=("emby",),
    ),
    Route(name="refresh_library", method="POST", template="/Library/Refresh"),
    Route(
        name="tasks",
        method="GET",
        template="/ScheduledTasks",
        query={"IsHidden": Value.BOOLEAN, "IsEnabled": Value.BOOLEAN},
    ),
    Route(
        name="directory_contents",
        method="GET",
        template="/Environment/DirectoryContents",
        query={
            "Path": Value.TEXT,
            "IncludeFiles": Value.BOOLEAN,
            "IncludeDirectories": Value.BOOLEAN,
        },
    ),
    Route(
        name="list_items",
        method="GET",
        template="/Items",
        query={**_LIST_QUERY, "UserId": Value.TEXT},
        jellyfin_query=_LIST_JELLYFIN_QUERY,
    ),
    Route(
        name="list_items",
        method="GET",
        template="/Users/{UserId}/Items",
        query=_LIST_QUERY,
        jellyfin_query=_LIST_JELLYFIN_QUERY,
    ),
    Route(name="read_item", method="GET", template="/Users/{UserId}/Items/{Id}"),
    Route(
        name="read_item",
        method="GET",
        template="/Items/{Id}",
        query={"UserId": Value.TEXT},
        servers=("jellyfin",),
    ),
    Route(
        name="additional_parts",
        method="GET",
        template="/Videos/{Id}/AdditionalParts",
        query={"UserId": Value.TEXT},
        # An official operation, but not among those whose parameters are at hand to compare with.
        beyond_contract=True,
    ),
    Route(name="update_item", method="POST", template="/Items/{Id}"),
    Route(name="refresh_item", method="POST", template="/Items/{Id}/Refresh", query=_REFRESH_QUERY),
    Route(name="list_images", method="GET", template="/Items/{Id}/Images"),
    Route(
        name="read_image",
        method="GET",
        template="/Items/{Id}/Images/{Type}",
        query=_INDEX_QUERY,
        jellyfin_query=_INDEX_JELLYFIN_QUERY,
    ),
    Route(name="read_image", method="GET", template="/Items/{Id}/Images/{Type}/{Index}"),
    Route(
        name="upload_image",
        method="POST",
        template="/Items/{Id}/Images/{Type}",
        query=_INDEX_QUERY,
    ),
    Route(name="upload_image", method="POST", template="/Items/{Id}/Images/{Type}/{Index}"),
    Route(
        name="delete_image",
        method="DELETE",
        template="/Items/{Id}/Images/{Type}",
        query=_INDEX_QUERY,
        jellyfin_query=_INDEX_JELLYFIN_QUERY,
    ),
    Route(name="delete_image", method="DELETE", template="/Items/{Id}/Images/{Type}/{Index}"),
    Route(
        name="delete_image",
        method="POST",
        template="/Items/{Id}/Images/{Type}/Delete",
        query=_INDEX_QUERY,
        servers=("emby",),
    ),
    Route(
        name="delete_image",
        method="POST",
        template="/Items/{Id}/Images/{Type}/{Index}/Delete",
        servers=("emby",),
    ),
)

# These remove media files, or wipe what was written: no program of ours may ever send them.
FORBIDDEN = (
    ("DELETE", "/Items"),
    ("DELETE", "/Items/{Id}"),
    ("POST", "/Items/Delete"),
    ("POST", "/Items/{Id}/Delete"),
    ("POST", "/Items/Metadata/Reset"),
)


def match_route(kind: Kind, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """The route of a path without prefix and its placeholders; spelling counts, '' never fits."""
    found = [
        (route, values)
        for route in ROUTES
        if route.method == method
        and kind in route.servers
        and (values := _fit(route.template, path.split("/"))) is not None
    ]
    # A literal segment beats a placeholder: /Images/Primary/Delete is not index "Delete".
    return min(found, key=lambda hit: len(hit[1])) if found else None


def forbidden_call(method: str, path: str) -> bool:
    """Whether a sloppy server could read the call as one that deletes media.

    Empty segments, letter case and the prefix are ignored here: a missing image type leaves
    `/Items/5/`, and servers that tidy such a path delete the film.
    """
    segments = [part.lower() for part in path.split("/") if part]
    if segments[:1] == [PREFIX]:
        del segments[0]
    return any(
        method == bad_method and _fit(template.lower(), ["", *segments]) is not None
        for bad_method, template in FORBIDDEN
    )


def without_prefix(path: str) -> str:
    """The path without one leading /emby."""
    shorter = path.removeprefix(f"/{PREFIX}")
    return shorter if shorter != path and shorter.startswith("/") else path


def _fit(template: str, segments: list[str]) -> dict[str, str] | None:
    parts = template.split("/")
    if len(parts) != len(segments):
        return None
    values = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            values[part[1:-1]] = segment
        elif part != segment:
            return None
    return values
