"""Writing an item of the stand-in Emby: strict about types, merciless about what is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from embyproc.demo.emby_items import JsonObject, timestamp
from embyproc.demo.emby_routes import Kind
from embyproc.demo.messages import Refusal

PERSON_TYPES = (
    "Actor",
    "Director",
    "Writer",
    "Producer",
    "GuestStar",
    "Composer",
    "Conductor",
    "Lyricist",
)
_COMMON_LOCKS = (
    "Cast",
    "Genres",
    "ProductionLocations",
    "Studios",
    "Tags",
    "Name",
    "Overview",
    "Runtime",
    "OfficialRating",
)
_EMBY_LOCKS = (
    "Collections",
    "ChannelNumber",
    "SortName",
    "OriginalTitle",
    "SortIndexNumber",
    "SortParentIndexNumber",
    "CommunityRating",
    "CriticRating",
    "Tagline",
)
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?(Z|[+-]\d\d:\d\d)?")
_GUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


def changed_metadata(old: Mapping[str, Any], body: JsonObject, kind: Kind) -> JsonObject:
    """The metadata after a write of `body`. Raises Refusal when a value has a wrong type.

    Plain fields that are missing or null are cleared. Of the lists, Emby clears missing genres and
    tags and keeps the others; Jellyfin keeps all of them.
    """
    new = {name: check(name, body.get(name)) for name, check in _PLAIN_FIELDS.items()}
    new["LockData"] = bool(new["LockData"])
    new["ProviderIds"] = _provider_ids(old, body, kind)
    for name in ("Taglines", "ProductionLocations"):
        new[name] = _kept(name, old, body, _texts)
    new["LockedFields"] = _kept("LockedFields", old, body, lambda n, v: _locks(n, v, kind))
    new["People"] = _kept("People", old, body, _people)
    new["Studios"] = _kept("Studios", old, body, lambda n, v: _pair_names(n, v, kind))
    new["Genres"] = _doubled("Genres", "GenreItems", old, body, kind)
    new["Tags"] = _doubled("Tags", "TagItems", old, body, kind)
    return new


def created_date(body: JsonObject) -> datetime | None:
    """The DateCreated of a write, or None to keep the old one. Raises Refusal."""
    text = _date("DateCreated", body.get("DateCreated"))
    return datetime.fromisoformat(text) if text else None


def _refuse(name: str, wanted: str) -> Refusal:
    return Refusal(400, f"The value of {name} must be {wanted}.")


def _text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _refuse(name, "a text")
    return value


def _integer(name: str, value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _refuse(name, "an integer or null")
    return value


def _number(name: str, value: Any) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise _refuse(name, "a number or null")
    return value


def _boolean(name: str, value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise _refuse(name, "true, false or null")
    return value


def _date(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _DATE_TIME.fullmatch(value):
        raise _refuse(name, "a date-time or null")
    try:
        moment = datetime.fromisoformat(value)
        return timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise _refuse(name, "a date-time that exists") from error


Check = Callable[[str, Any], Any]
_PLAIN_FIELDS: Mapping[str, Check] = {
    "Name": _text,
    "ForcedSortName": _text,
    "OriginalTitle": _text,
    "Overview": _text,
    "OfficialRating": _text,
    "CustomRating": _text,
    "PreferredMetadataLanguage": _text,
    "PreferredMetadataCountryCode": _text,
    "CommunityRating": _number,
    "CriticRating": _number,
    "IndexNumber": _integer,
    "ParentIndexNumber": _integer,
    "ProductionYear": _integer,
    "PremiereDate": _date,
    "EndDate": _date,
    "LockData": _boolean,
}


def _kept(name: str, old: Mapping[str, Any], body: JsonObject, check: Check) -> Any:
    value = body.get(name)
    return old.get(name, []) if value is None else check(name, value)


def _doubled(
    texts: str, pairs: str, old: Mapping[str, Any], body: JsonObject, kind: Kind
) -> list[str]:
    """Genres and tags travel twice: Emby takes the pairs, even stale ones, Jellyfin the texts."""
    by_text = None if body.get(texts) is None else _texts(texts, body[texts])
    by_pair = None if body.get(pairs) is None else _pair_names(pairs, body[pairs], kind)
    if kind == "jellyfin":
        kept: list[str] = old.get(texts, [])
        return kept if by_text is None else by_text
    return by_pair if by_pair is not None else by_text or []


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _refuse(name, "a list")
    return value


def _texts(name: str, value: Any) -> list[str]:
    if not all(isinstance(entry, str) for entry in _list(name, value)):
        raise _refuse(name, "a list of texts")
    return [entry for entry in value if entry.strip()]


def _locks(name: str, value: Any, kind: Kind) -> list[str]:
    known = _COMMON_LOCKS + (_EMBY_LOCKS if kind == "emby" else ())
    if not all(entry in known for entry in _texts(name, value)):
        raise _refuse(name, f"among {', '.join(known)}")
    return list(value)


def _pair_names(name: str, value: Any, kind: Kind) -> list[str]:
    for entry in _list(name, value):
        if not isinstance(entry, dict) or not isinstance(entry.get("Name"), str):
            raise _refuse(name, "a list of objects with a Name")
        if entry.get("Id") is not None and not _is_name_id(entry["Id"], kind):
            raise _refuse(f"{name}.Id", "an integer" if kind == "emby" else "a GUID")
    return [entry["Name"] for entry in value if entry["Name"].strip()]


def _is_name_id(value: Any, kind: Kind) -> bool:
    if kind == "emby":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) and bool(_GUID.fullmatch(value))


def _people(name: str, value: Any) -> list[JsonObject]:
    people = []
    for entry in _list(name, value):
        if not isinstance(entry, dict):
            raise _refuse(name, "a list of objects")
        person = {key: _text(f"{name}.{key}", entry.get(key)) for key in ("Name", "Role", "Type")}
        if not (person["Name"] or "").strip():
            raise _refuse(f"{name}.Name", "given")
        if person["Type"] not in PERSON_TYPES:
            raise _refuse(f"{name}.Type", f"one of {', '.join(PERSON_TYPES)}")
        people.append({key: text for key, text in person.items() if text is not None})
    return people


def _provider_ids(old: Mapping[str, Any], body: JsonObject, kind: Kind) -> dict[str, str]:
    value = body.get("ProviderIds")
    if value is None and kind == "jellyfin":
        kept: dict[str, str] = old.get("ProviderIds", {})
        return kept
    if not isinstance(value, dict):
        # The real server trips over it instead of checking it.
        raise Refusal(500, "Object reference not set to an instance of an object.")
    if not all(isinstance(text, str) or text is None for text in value.values()):
        raise _refuse("ProviderIds", "a map of texts")
    return {name: text for name, text in value.items() if text}
