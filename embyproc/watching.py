"""Which names in the watch folder are films, and why the others are passed over. Pure."""

import re
from collections.abc import Collection, Iterable

# Folders of the NAS, of macOS and of Windows. Synology's @eaDir holds *directories* named X.mp4.
_SYSTEM_FOLDERS = {
    "@eadir",
    "@tmp",
    "@recycle",
    "@recently-snapshot",
    "@sharebin",
    "#recycle",
    "#snapshot",
    "__macosx",
    "$recycle.bin",
    "system volume information",
    "lost+found",
}

# Endings that programs give to what they have not finished. yt-dlp: part, ytdl, part-FragN;
# browsers: crdownload, part, partial, download, opdownload; torrents: !qB, !ut, !bt, bc!, aria2;
# copies: filepart, tmp, partial; download managers: the rest.
_TEMPORARY_ENDING = re.compile(
    r"\.(?:part|ytdl|part-frag\d+(?:\.part)?|crdownload|partial|download|opdownload|tmp|temp|"
    r"!qb|!ut|!bt|bc!|!sync|aria2|filepart|fdmdownload|fldownload|xltd|td|jd|dtapart|dlm|met|"
    r"unfinished|incomplete)$",
    re.IGNORECASE,
)

# Streams that yt-dlp merges later, and its file in the middle of a rewrite: complete-looking
# videos with a video ending.
_STREAM = re.compile(r"\.(?:f\d{1,5}(?:-\w+)?|temp|tmp)(?=\.[^.]+$)", re.IGNORECASE)

# A browser's folder around one unfinished file; an ordinary folder may well be called "x.temp".
_TEMPORARY_FOLDER = re.compile(r"\.\w{2,4}\.(?:download|part|crdownload|!qb)$", re.IGNORECASE)

_SAMPLE = re.compile(r"^sample(?:[-._ ]|$)|[-._ ]sample$", re.IGNORECASE)

SUBTITLES = frozenset({".srt", ".ass", ".ssa", ".vtt", ".sub", ".idx"})
_PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp"})
SIDECARS = SUBTITLES | _PICTURES | {".nfo"}

UNDECODABLE = "its name is not UTF-8"

# A temporary file nobody has touched for this long is a leftover and holds nothing back.
LEFTOVER_SECONDS = 6 * 3600


def folder_reason(name: str) -> str | None:
    """Why a folder of this name is not entered, or None."""
    if name.lower() in _SYSTEM_FOLDERS:
        return "a folder of the system"
    if name.startswith("."):
        return "hidden"
    if _TEMPORARY_FOLDER.search(name):
        return "unfinished"
    if _is_undecodable(name):
        return UNDECODABLE
    return None


def file_reason(name: str, extensions: Collection[str]) -> str | None:
    """Why a file of this name is not queued, or None for a film.

    Asked for every file of every scan: the plain film is recognised first and without a regex.
    """
    if name.startswith("."):
        return "hidden"
    if not name.isascii() and _is_undecodable(name):
        return UNDECODABLE
    at = name.rfind(".")
    stem, ending = (name[:at], name[at:]) if at > 0 else (name, "")
    if ending not in extensions and ending.lower() not in extensions:
        return "unfinished" if is_temporary(name) else "not a video"
    if ("." in stem or name.startswith("~")) and is_temporary(name):
        return "unfinished"
    if "sample" in stem.lower() and _SAMPLE.search(stem):
        return "a sample"
    return None


def path_reason(path: str, extensions: Collection[str]) -> str | None:
    """The same for a path as a person writes it, its folders included."""
    *folders, name = [part for part in path.split("/") if part not in ("", ".", "..")] or [""]
    for folder in folders:
        if reason := folder_reason(folder):
            return f"in {folder}: {reason}"
    return file_reason(name, extensions)


def split_ending(name: str) -> tuple[str, str]:
    """`X.en.srt` -> (`X.en`, `.srt`); a leading dot is no ending."""
    at = name.rfind(".")
    return (name, "") if at <= 0 else (name[:at], name[at:])


def is_temporary(name: str) -> bool:
    """Whether a program is known to use such a name for what it has not finished."""
    return bool(
        _TEMPORARY_ENDING.search(name)
        or _STREAM.search(name)
        or name.startswith(("~$", "~syncthing~", ".syncthing.", ".~"))
    )


def held_stem(name: str) -> str:
    """The stem of the film that a temporary file belongs to: `X.f137.mp4.part` -> `x`."""
    if name.startswith((".syncthing.", "~syncthing~")):
        name = name[len(".syncthing.") :]
    stripped = _TEMPORARY_ENDING.sub("", name)
    while stripped != name:
        name, stripped = stripped, _TEMPORARY_ENDING.sub("", stripped)
    stem = split_ending(_STREAM.sub("", name))[0]
    # rsync writes .X.mp4.AbC123 beside X.mp4.
    if name.startswith(".") and not name.startswith("._"):
        stem = split_ending(stem)[0].lstrip(".")
    return stem.lower()


def may_hold(name: str) -> bool:
    """Whether this name says that a film beside it is still being made."""
    if name.startswith("."):
        return bool(re.search(r"\.[A-Za-z0-9]{6}$", name)) or is_temporary(name)
    return is_temporary(name)


def match_sidecars(stems: Iterable[str], others: Iterable[str]) -> dict[str, list[str]]:
    """Which of the other files travel with which film: the longest stem that they begin with.

    `X.en.srt`, `X.nfo` and `X.jpg` belong to X, and so does `X-poster.jpg`.
    """
    known = set(stems)
    found: dict[str, list[str]] = {}
    for name in sorted(others):
        stem, ending = split_ending(name)
        if ending.lower() not in SIDECARS:
            continue
        separators = ".-" if ending.lower() in _PICTURES else "."
        while stem and stem not in known:
            at = max(stem.rfind(separator) for separator in separators)
            stem = stem[:at] if at > 0 else ""
        if stem:
            found.setdefault(stem, []).append(name)
    return found


def _is_undecodable(name: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in name)
