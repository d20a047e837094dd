"""How an item should look in Emby, and where Emby sees its file. Pure."""

import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from embyproc.models import Metadata

_WIDE = 800
# How `naming` ends the name of a part.
_PART = re.compile(r" - cd[0-9]+$")

# Computed by the server and ignored on a write: not worth sending back.
_COMPUTED = ("MediaSources", "MediaStreams", "Chapters", "UserData", "ImageTags")


@dataclass(frozen=True, slots=True, kw_only=True)
class Locale:
    """What is written of every item alike."""

    country: str = "Japan"
    language: str = "en"
    country_code: str = "JP"


def wanted_fields(metadata: Metadata | None, stem: str, locale: Locale) -> dict[str, Any]:
    """The fields of Emby's item that are ours to set; what is unknown is left out."""
    fields: dict[str, Any] = {
        "Name": stem,
        "SortName": stem,
        "ForcedSortName": stem,
        "ProductionLocations": [locale.country],
        "PreferredMetadataLanguage": locale.language,
        "PreferredMetadataCountryCode": locale.country_code,
        "ProviderIds": {},
        "LockData": True,
    }
    if metadata is None:
        return fields
    fields |= {
        "OriginalTitle": metadata.original_title or metadata.title,
        "Overview": metadata.overview,
        "People": [{"Name": name, "Type": "Actor"} for name in metadata.performers],
        "Genres": list(metadata.genres),
        "GenreItems": [{"Name": name} for name in metadata.genres],
        "Studios": [{"Name": name} for name in metadata.labels],
    }
    if metadata.release_date is not None:
        # Noon, so that no time zone shows the day before or after.
        fields["PremiereDate"] = f"{metadata.release_date}T12:00:00.0000000Z"
        fields["ProductionYear"] = int(metadata.release_date[:4])
    return {name: value for name, value in fields.items() if value is not None}


def changed_item(item: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The full object to write: what was read, with our fields in it. A field that is missing in
    a write is cleared by the server, so nothing else may be dropped."""
    kept = {name: value for name, value in item.items() if name not in _COMPUTED}
    return {**kept, **wanted}


def differences(item: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Which of our fields the item does not show as wanted."""
    # SortName is derived from ForcedSortName, and GenreItems say the same as Genres.
    names = [name for name in wanted if name not in ("SortName", "GenreItems", "ProviderIds")]
    return [n for n in names if _comparable(n, item.get(n)) != _comparable(n, wanted[n])]


def _comparable(name: str, value: Any) -> Any:
    if name == "PremiereDate":
        return str(value or "")[:10]
    if isinstance(value, list):
        return sorted(normal(str(v.get("Name") if isinstance(v, dict) else v)) for v in value)
    return normal(value) if isinstance(value, str) else value


def normal(text: str) -> str:
    """Servers and file systems disagree about how an accent is encoded."""
    return normalize("NFC", text)


def translated(path: str, source_root: str, target_root: str) -> str:
    """`path` below `source_root` as it is called below `target_root`; whole components only."""
    root = source_root.rstrip("/")
    if path != root and not path.startswith(root + "/"):
        return path
    return posixpath.join(target_root.rstrip("/") or "/", path[len(root) + 1 :])


def tail(path: str) -> tuple[str, str]:
    """Folder and file name: enough to know a file by where the roots differ."""
    folder, name = posixpath.split(path.replace("\\", "/"))
    return normal(posixpath.basename(folder)), normal(name)


def work(path: str) -> tuple[str, str]:
    """Folder and name of a film without its part: the same for cd1 and cd2."""
    folder, name = tail(path)
    return folder, _PART.sub("", posixpath.splitext(name)[0])


def is_part(path: str) -> bool:
    """Whether the name says that it is one of several parts."""
    return _PART.search(posixpath.splitext(path)[0]) is not None


def belongs_to_somebody(picture: str, film: str, sidecars: Collection[str]) -> bool:
    """Whether a picture on the server's disk lies beside the film and was put there by somebody:
    it came along with the film (`sidecars` are such endings: `-poster.jpg`), or its name is not
    one that the server makes from the film's."""
    picture, film = (normal(path.replace("\\", "/")) for path in (picture, film))
    folder, name = posixpath.split(film)
    if not film or not picture.startswith(folder.rstrip("/") + "/"):
        return False
    stem = posixpath.splitext(name)[0]
    found = posixpath.basename(picture)
    return not found.startswith(stem) or found[len(stem) :] in sidecars


def wide_url(url: str) -> str:
    """The same picture, 800 pixels wide."""
    parts = urlsplit(url)
    query = [(k, v) for k, v in parse_qsl(parts.query, keep_blank_values=True)]
    kept = [(k, v) for k, v in query if k not in ("w", "horizontal")]
    return urlunsplit(parts._replace(query=urlencode([*kept, ("w", str(_WIDE))])))


def merged_with(paths: Sequence[str], path: str) -> list[str]:
    """The other files that Emby shows as versions of the same item."""
    return [other for other in paths if tail(other) != tail(path)]
