"""Items of the stand-in Emby as clients see them: the full object, and lists with filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from embyproc.demo.emby_library import Library, MediaItem
from embyproc.demo.messages import Refusal

JsonObject = dict[str, Any]
_RUN_TIME_TICKS = 10_000_000

# Keys of an item that a list shows only when `Fields` asks for them. A few fields bring keys of
# another name, as the real server does.
_KEYS_OF_FIELD: Mapping[str, tuple[str, ...]] = {
    "Path": ("Path",),
    "FileName": ("FileName",),
    "DateCreated": ("DateCreated",),
    "DateModified": ("DateModified",),
    "MediaSources": ("MediaSources",),
    "AlternateMediaSources": (),
    "Genres": ("Genres", "GenreItems"),
    "Tags": ("Tags", "TagItems"),
    "People": ("People",),
    "Studios": ("Studios",),
    "ProviderIds": ("ProviderIds",),
    "Overview": ("Overview",),
    "OriginalTitle": ("OriginalTitle",),
    "Taglines": ("Taglines",),
    "ParentId": ("ParentId",),
    "SortName": ("SortName",),
    "Etag": ("Etag",),
    "Size": ("Size",),
    "PremiereDate": ("PremiereDate",),
    "ProductionYear": ("ProductionYear",),
    "ProductionLocations": ("ProductionLocations",),
    "Settings": (
        "LockData",
        "LockedFields",
        "ForcedSortName",
        "PreferredMetadataLanguage",
        "PreferredMetadataCountryCode",
        "CustomRating",
    ),
}
_ON_REQUEST = frozenset(key for keys in _KEYS_OF_FIELD.values() for key in keys)
_PLAIN_KEYS = (
    "OriginalTitle",
    "Overview",
    "ForcedSortName",
    "PremiereDate",
    "EndDate",
    "ProductionYear",
    "OfficialRating",
    "CustomRating",
    "CommunityRating",
    "CriticRating",
    "IndexNumber",
    "ParentIndexNumber",
    "PreferredMetadataLanguage",
    "PreferredMetadataCountryCode",
)
_SORT_KEYS = (
    "SortName",
    "Name",
    "Path",
    "Filename",
    "DateCreated",
    "DateLastSaved",
    "DateLastContentAdded",
)


def timestamp(moment: datetime) -> str:
    """Seven fraction digits and a Z, as the real server writes."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"


def sort_name(library: Library, item: MediaItem) -> str:
    forced = item.metadata.get("ForcedSortName")
    name = str(forced or item.metadata.get("Name") or "")
    # Jellyfin folds the forced name too, so only ForcedSortName can be compared after a write.
    return name if forced and library.kind == "emby" else name.lower()


def full_item(library: Library, item: MediaItem) -> JsonObject:
    """Everything the server knows about one item."""
    facts = item.metadata
    shown = library.shown(item.path)
    dto: JsonObject = {
        "Name": facts.get("Name"),
        "ServerId": guid_of_server(library),
        "Id": item.id,
        "Type": item.type,
        "IsFolder": item.is_folder,
        "ParentId": item.parent_id,
        "Path": shown,
        "FileName": shown.rpartition("/")[2],
        "SortName": sort_name(library, item),
        "DateCreated": timestamp(item.created),
        "Etag": f"{item.id}-{item.saved.timestamp():.6f}",
        "LockData": facts.get("LockData", False),
        "LockedFields": facts.get("LockedFields", []),
        "ProviderIds": facts.get("ProviderIds", {}),
        "Taglines": facts.get("Taglines", []),
        "ProductionLocations": facts.get("ProductionLocations", []),
        "Genres": facts.get("Genres", []),
        "GenreItems": _pairs(library, facts.get("Genres", [])),
        "Studios": _pairs(library, facts.get("Studios", [])),
        "People": [
            {**person, "Id": str(library.name_id(person["Name"]))}
            for person in facts.get("People", [])
        ],
        "ImageTags": {
            kind: images[0].tag
            for kind, images in item.images.items()
            if kind != "Backdrop" and images
        },
        "BackdropImageTags": [image.tag for image in item.images.get("Backdrop", [])],
        "UserData": {"PlaybackPositionTicks": 0, "PlayCount": 0, "Played": False},
    }
    if library.kind == "emby":
        dto["TagItems"] = _pairs(library, facts.get("Tags", []))
    else:
        dto["Tags"] = facts.get("Tags", [])
    if not item.is_folder:
        dto |= _media_keys(library, item)
    dto |= {key: facts[key] for key in _PLAIN_KEYS if facts.get(key) is not None}
    return {key: value for key, value in dto.items() if value is not None}


def guid_of_server(library: Library) -> str:
    return "5e4e" * 8 if library.kind == "emby" else "7e11" * 8


def _media_keys(library: Library, item: MediaItem) -> JsonObject:
    return {
        **({"PartCount": 1 + len(item.parts)} if item.parts else {}),
        "MediaType": "Video",
        "RunTimeTicks": _RUN_TIME_TICKS,
        "Size": item.size,
        "MediaSources": [
            {
                "Id": f"mediasource_{item.id}_{index}",
                "Path": library.shown(path),
                "Protocol": "File",
            }
            for index, path in enumerate(item.media_paths)
        ],
    }


def _pairs(library: Library, names: Iterable[str]) -> list[JsonObject]:
    return [{"Name": name, "Id": library.name_id(name)} for name in names]


def list_items(
    library: Library,
    candidates: Iterable[MediaItem],
    query: Mapping[str, str],
    *,
    broken_date_filters: bool,
) -> JsonObject:
    """The answer to a list request; `query` has lower-case names and checked values."""
    found = [
        item
        for item in candidates
        if (query.get("ids") or not item.is_behind)
        and _wanted(library, item, query)
        and _saved_since(item, query, broken_date_filters)
    ]
    keys = names_in(query.get("sortby", "SortName"))
    found.sort(key=lambda item: [_sort_value(library, item, name) for name in keys])
    if query.get("sortorder", "").lower().startswith("desc"):
        found.reverse()
    start = int(query.get("startindex") or 0)
    end = start + int(query["limit"]) if query.get("limit") else None
    page = [_listed(library, item, query) for item in found[start:end]]
    return {"Items": page, "TotalRecordCount": len(found)}


def unknown_sort_keys(query: Mapping[str, str]) -> list[str]:
    return [name for name in names_in(query.get("SortBy", "")) if name not in _SORT_KEYS]


def unknown_fields(query: Mapping[str, str]) -> list[str]:
    return [name for name in names_in(query.get("Fields", "")) if name not in _KEYS_OF_FIELD]


def names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _wanted(library: Library, item: MediaItem, query: Mapping[str, str]) -> bool:
    media_type = "" if item.is_folder else "Video"
    name = str(item.metadata.get("Name") or "")
    # Jellyfin drops the Path filter silently, so that everything matches.
    path = query.get("path") if library.kind == "emby" else None
    term = query.get("searchterm", "")
    return all(
        (
            path is None or library.shown(item.path) == path,
            "isfolder" not in query or item.is_folder == is_true(query["isfolder"]),
            not query.get("mediatypes") or media_type in names_in(query["mediatypes"]),
            not query.get("includeitemtypes") or item.type in names_in(query["includeitemtypes"]),
            item.type not in names_in(query.get("excludeitemtypes", "")),
            not term or (len(term) > 1 and term.lower() in name.lower()),
            sort_name(library, item).lower().startswith(query.get("namestartswith", "").lower()),
        )
    )


def _saved_since(item: MediaItem, query: Mapping[str, str], broken: bool) -> bool:
    limits = [query[n] for n in ("mindatelastsaved", "mindatelastsavedforuser") if query.get(n)]
    if limits and broken:
        return False
    return all(item.saved >= parse_date(text) for text in limits)


def _sort_value(library: Library, item: MediaItem, name: str) -> Any:
    match name:
        case "DateCreated":
            return item.created
        case "DateLastSaved" | "DateLastContentAdded":
            return item.saved
        case "Path":
            return item.path
        case "Filename":
            return item.path.rpartition("/")[2]
        case _:
            return sort_name(library, item).lower()


def _listed(library: Library, item: MediaItem, query: Mapping[str, str]) -> JsonObject:
    asked = {
        key for name in names_in(query.get("fields", "")) for key in _KEYS_OF_FIELD.get(name, ())
    }
    hidden = _ON_REQUEST - asked
    if not is_true(query.get("enableimages", "true")):
        hidden |= {"ImageTags", "BackdropImageTags"}
    if not is_true(query.get("enableuserdata", "true")):
        hidden |= {"UserData"}
    return {key: value for key, value in full_item(library, item).items() if key not in hidden}


def is_true(text: str) -> bool:
    return text.lower() == "true"


def parse_date(text: str) -> datetime:
    """A moment with a time zone; UTC when none is written. Raises Refusal."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Refusal(400, "Value is not a date") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
