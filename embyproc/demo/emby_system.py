"""What the stand-in Emby tells about itself: versions, users, libraries, tasks, directories."""

from __future__ import annotations

import os
import posixpath
from typing import Any

from embyproc.demo.emby_items import guid_of_server
from embyproc.demo.emby_library import Library
from embyproc.demo.messages import Refusal

SERVER_NAME = "stand-in"
LIBRARY_NAME = "Films"
# A second, empty library: a client that takes the first of the list instead of looking for its
# own is found out.
OTHER_LIBRARY_NAME = "Concerts"
OTHER_LIBRARY_PATH = "/mnt/concerts"
# Not an administrator and first in the list, for the same reason.
VIEWER_ID = "0a" * 16
ADMINISTRATOR_ID = "0b" * 16

JsonObject = dict[str, Any]


def public_info(library: Library) -> JsonObject:
    info = {
        "ServerName": SERVER_NAME,
        "Version": "4.8.11.0" if library.kind == "emby" else "12.0.0",
        "Id": guid_of_server(library),
    }
    # The only sure sign by which the two can be told apart.
    return info if library.kind == "emby" else {**info, "ProductName": "Jellyfin Server"}


def full_info(library: Library) -> JsonObject:
    return {
        **public_info(library),
        "HasPendingRestart": False,
        "IsShuttingDown": False,
        "OperatingSystem": "Linux",
    }


def users(library: Library) -> list[JsonObject]:
    return [
        {
            "Name": name,
            "Id": user_id,
            "ServerId": guid_of_server(library),
            "HasPassword": True,
            "Policy": {"IsAdministrator": administrator, "IsDisabled": False},
        }
        for name, user_id, administrator in (
            ("guest", VIEWER_ID, False),
            ("owner", ADMINISTRATOR_ID, True),
        )
    ]


def virtual_folders(
    library: Library,
    *,
    other_id: str,
    collection_type: str,
    refresh_status: str,
    other_refresh_status: str,
) -> list[JsonObject]:
    other = _virtual_folder(OTHER_LIBRARY_NAME, other_id, OTHER_LIBRARY_PATH, "musicvideos")
    other["RefreshStatus"] = other_refresh_status
    main = _virtual_folder(LIBRARY_NAME, library.library_id, library.server_prefix, collection_type)
    main["RefreshStatus"] = refresh_status
    if refresh_status == "Active":
        main["RefreshProgress"] = 50.0
    return [other, main]


def _virtual_folder(name: str, item_id: str, path: str, collection_type: str) -> JsonObject:
    return {
        "Name": name,
        "Locations": [path],
        "CollectionType": collection_type,
        "LibraryOptions": {
            "EnableRealtimeMonitor": False,
            "SaveLocalMetadata": False,
            "PathInfos": [{"Path": path}],
        },
        "ItemId": item_id,
        "Id": item_id,
        "RefreshStatus": "Idle",
    }


def selectable_folders(library: Library, *, other_id: str) -> list[JsonObject]:
    root = {"Name": LIBRARY_NAME, "Id": library.root_id, "Path": library.server_prefix}
    return [
        {"Name": OTHER_LIBRARY_NAME, "Id": other_id, "SubFolders": []},
        {"Name": LIBRARY_NAME, "Id": library.library_id, "SubFolders": [root]},
    ]


def scheduled_tasks(*, scanning: bool) -> list[JsonObject]:
    scan: JsonObject = {
        # Names are translated on real servers; only the key can be relied on.
        "Name": "Mediathek scannen",
        "Key": "RefreshLibrary",
        "Id": "6330ee8f" * 4,
        "State": "Running" if scanning else "Idle",
        "Category": "Library",
        "IsHidden": False,
    }
    if scanning:
        scan["CurrentProgressPercentage"] = 50.0
    backup = {"Name": "Backup", "Key": "Backup", "Id": "11aa22bb" * 4, "State": "Idle"}
    return [backup, scan]


def directory_contents(
    library: Library, path: str, *, files: bool, directories: bool
) -> list[JsonObject]:
    """The entries of a server-side directory. Raises Refusal when the server cannot see it."""
    local = library.local_path(path)
    if local is None or not local.is_dir():
        raise Refusal(404, "Path not found.")
    shown_folder = library.shown(path.rstrip("/"))
    entries = []
    with os.scandir(local) as found:
        for entry in sorted(found, key=lambda entry: entry.name):
            if directories if entry.is_dir() else files:
                name = library.shown(entry.name)
                kind = "Directory" if entry.is_dir() else "File"
                full = posixpath.join(shown_folder, name)
                entries.append({"Name": name, "Path": full, "Type": kind})
    return entries
