"""Metadata to folder and file names: pure text work, safe on every common file system."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from os.path import splitext
from unicodedata import category, normalize

_UNKNOWN = "Unknown"
_JOINER = "\u200d"
_EMOJI = "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_STRAY_JOINER = f"(?<![{_EMOJI}]){_JOINER}|{_JOINER}(?![{_EMOJI}])"
# Letters and symbols that draw nothing: a folder named by them alone could not be seen.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_ROUND_BRACKETS = str.maketrans("[]", "()")
# Windows refuses the first ones, with any extension; a NAS hides or empties the others.
_RESERVED = (
    r"(?i)^(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9\u00b9\u00b2\u00b3]"
    r"|@eaDir|@tmp|#recycle|#snapshot) *(?=\.|$)"
)
# The performer holds no square bracket, so the first one always opens the subtitle mark.
_LAYOUT = r"([^\[\]]+)( - \[[^\]]+\] \S+)(?: (.*?))??((?: - cd\d+)?(?: \(\d{1,3}\))?)"
_ACRONYM = r"AI|CEO|DIY|DJ|FBI|HD|NASA|OL|PC|SOS|TV|UFO|UK|USA|VIP|VR|[IVX]{2,}"
_SHOUTED = rf"\b(?!(?:{_ACRONYM})\b)(?:[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\d+(?:ST|ND|RD|TH))\b"
_FOREIGN_LETTER = r"[^\W\d_a-zA-Z\u00aa-\u024f\u1e00-\u1eff]"
_INTERJECTION = "(?i)brr|grr|hmm|mmm|nth|pfft|psst|shh|tsk|zzz"
_OPEN, _CLOSE, _COMMA = r"(\[\uff08\u3010", r")\]\uff09\u3011", r",\uff0c\u3001"
_BRACKETED = f"[{_OPEN}][^{_OPEN}{_CLOSE}]*[{_CLOSE}]"
_ALIAS_SUFFIX = f"(?<=[^ {_COMMA}]) ?{_BRACKETED} ?(?=$|[{_COMMA}{_CLOSE}])"
_PERFORMER = f"(?:{_BRACKETED}|[^{_COMMA}])+"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameParts:
    """What a file name is made of; the extension with or without its dot."""

    performer: str | None
    subtitle: str | None
    code: str
    title: str | None
    part: int | None
    extension: str


def file_name(parts: NameParts, *, max_bytes: int = 255) -> str:
    """`{Actress} - [{Sub}] {CODE} {Title}.{ext}`; ValueError when all but the title is too long."""
    performer = sanitise(parts.performer or "").translate(_ROUND_BRACKETS) or _UNKNOWN
    subtitle = _clean(parts.subtitle or "").translate(_ROUND_BRACKETS) or "No Sub"
    code = _clean(parts.code).replace(" ", "-")
    title = _without_code(_clean(parts.title or ""), code)
    # What lies beyond cannot fit; dropped early so that a huge title costs nothing.
    title = _clean(_title_case(title[:max_bytes]))
    part = f" - cd{parts.part}" if parts.part is not None else ""
    tail = part + f".{_clean(parts.extension)}".rstrip(".")
    return _assemble(performer, f" - [{subtitle}] {code}".rstrip(), title, tail, max_bytes)


def numbered(name: str, n: int, *, max_bytes: int = 255) -> str:
    """`X (1).mp4` for a taken `X.mp4`; makes room in the title. ValueError when none is left."""
    stem, extension = splitext(name)
    return _with_tail(stem, f" ({n}){extension}", max_bytes)


def sidecar_name(
    video_old_stem: str, video_new_name: str, sidecar_old_name: str, *, max_bytes: int = 255
) -> str:
    """The new name of a sidecar, which keeps its suffix (`.en.srt`); ValueError without room."""
    suffix = sidecar_suffix(video_old_stem, sidecar_old_name, max_bytes=max_bytes)
    return _with_tail(splitext(video_new_name)[0], suffix, max_bytes)


def sidecar_suffix(video_old_stem: str, sidecar_old_name: str, *, max_bytes: int = 255) -> str:
    """What a sidecar's name has after the video's (`.en.srt`), and keeps."""
    old_stem, old_name = normalize("NFC", video_old_stem), normalize("NFC", sidecar_old_name)
    suffix = extension = splitext(old_name)[1]
    if old_name[: len(old_stem)].casefold() == old_stem.casefold():
        suffix = old_name[len(old_stem) :]
    if len(suffix.encode("utf-8", "replace")) > max_bytes // 4:  # no language is that long
        suffix = extension
    # The underscore shields the suffix's leading dot or dash from being trimmed.
    return _clean("_" + suffix)[1:]


def folder_name(performer: str | None, *, max_bytes: int = 255) -> str:
    """One safe path component; `Unknown` when the name holds nothing usable."""
    # Cutting may bare a reserved name ("COM1-----..."), hence the second pass.
    return sanitise(_cut(sanitise(performer or ""), max_bytes)) or _UNKNOWN


def choose_folder(
    performer: str | None,
    existing: Iterable[str],
    aliases: Mapping[str, str],
    *,
    max_bytes: int = 255,
) -> str:
    """The performer's folder as spelt on disk (by name, other spelling, alias), else a new one."""
    canonical = aliases.get(name_key(performer or ""), performer)
    wanted = folder_name(canonical, max_bytes=max_bytes)
    found: list[tuple[int, bool, str]] = []
    for folder in existing:
        key = _folder_key(folder)
        if key and key == _folder_key(wanted):
            found.append((int(normalize("NFC", folder) != wanted), folder != wanted, folder))
        elif key and canonical and aliases.get(name_key(folder)) == canonical:
            found.append((2, True, folder))
    return min(found)[2] if found else wanted


def parse_aliases(text: str) -> dict[str, str]:
    """TOML `"Name" = ["alias", ...]` as name_key -> name, names included; ValueError says where."""
    import tomllib

    text = text.removeprefix("\ufeff")  # Windows editors put it there
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = re.search(r"at line (\d+)", str(error))
        line = text.split("\n")[int(place[1]) - 1] if place else text.rstrip().rpartition("\n")[2]
        raise ValueError(f"No valid TOML near {line.strip()[:60]!r}: {error}.") from error
    owners: dict[str, str] = {}
    for canonical, names in table.items():
        if not isinstance(names, list) or not all(isinstance(alias, str) for alias in names):
            raise ValueError(f"The value of {canonical!r} must be a list of names in quotes.")
        for alias in [canonical, *names]:
            if not sanitise(alias):
                raise ValueError(f"The names of {canonical!r} must not be empty.")
            owner = owners.setdefault(name_key(alias), canonical)
            if owner != canonical:
                raise ValueError(f"The name {alias!r} belongs to both {owner!r} and {canonical!r}.")
    return owners


def split_performers(value: object) -> tuple[str, ...]:
    """Names from a list or a comma-separated string, without aliases in trailing brackets."""
    if isinstance(value, Mapping):  # PHP encodes a list with a gap as an object
        value = list(value.values())
    found: dict[str, str] = {}
    for text in value if isinstance(value, list | tuple) else [value]:
        names = visible(text) if isinstance(text, str) else ""
        for _ in range(3):  # brackets in brackets, innermost first
            names = re.sub(_ALIAS_SUFFIX, "", names)
        for performer in re.findall(_PERFORMER, names):
            if sanitise(performer):
                found.setdefault(name_key(performer), performer.strip())
    return tuple(found.values())


def same_name(a: str, b: str) -> bool:
    """Whether two spellings mean one name."""
    return name_key(a) == name_key(b)


@lru_cache(maxsize=65536)  # a backlog compares each item with the same thousands of folders
def name_key(text: str) -> str:
    """Equal for spellings that differ in case, width, spacing, encoding or invisible characters."""
    return " ".join(normalize("NFKC", normalize("NFKC", visible(text)).casefold()).split())


def sanitise(text: str) -> str:
    """Text for one path component, of any length; empty when nothing usable is left."""
    return re.sub(_RESERVED, r"\1_", _clean(text))


def _clean(text: str) -> str:
    text = re.sub(r"(?<=\d):(?=\d)", "-", visible(text))
    text = re.sub(r" ?:[ :/\\-]*", " - ", text)
    text = re.sub(r'[?*"<>|]', "", re.sub(r"[/\\]+", "-", text))
    # Removing a character may bring a letter and an accent together: compose once more.
    text = normalize("NFC", " ".join(text.split())).rstrip(" .-")
    for start, character in enumerate(text):
        if character not in " .-" and not category(character).startswith("M"):
            return text[start:]
    return ""


def visible(text: str) -> str:
    """NFC with single spaces; control, bidi and zero-width characters and lone surrogates gone."""
    kept = []
    for character in normalize("NFC", text):
        if character.isspace() or character in _BLANKS:
            kept.append(" ")
        elif character == _JOINER or category(character) not in ("Cc", "Cf", "Cs"):
            kept.append(character)
    return normalize("NFC", " ".join(re.sub(_STRAY_JOINER, "", "".join(kept)).split()))


@lru_cache(maxsize=65536)
def _folder_key(folder: str) -> str:
    """The key of a folder on disk; empty for one that must not be used."""
    safe = folder[:1] != "." and not re.search(r"[/\0\ud800-\udfff]", folder)
    return name_key(sanitise(folder)) if safe and not re.match(_RESERVED, folder) else ""


def _without_code(title: str, code: str) -> str:
    runs = re.findall(r"[A-Za-z]+|\d+", code)
    # Sources often leave out a numeric label prefix: 300MIUM-123 is listed as MIUM-123.
    prefix = f"(?:{runs.pop(0)})?" if re.match(r"\d+[A-Za-z]+\W?\d", code) else ""
    spelling = prefix + "[-_ ]*".join(runs)
    pattern = rf"[{_OPEN} ]*{spelling}(?![A-Za-z0-9])[{_CLOSE} ]*[-\u2013\u2014,. ]*"
    return re.sub("^" + pattern, "", title, flags=re.IGNORECASE) if runs else title


def _title_case(text: str) -> str:
    from titlecase import titlecase

    # In other scripts Latin capitals are ordinary typography, and one short word is an acronym.
    ordinary = re.search(_FOREIGN_LETTER, text) or (" " not in text and len(text) <= 5)
    if text.isupper() and not ordinary:
        text = re.sub(_SHOUTED, lambda word: word[0].capitalize(), text)
    return str(titlecase(text, callback=_keep_word))


def _keep_word(word: str, **_: object) -> str | None:
    """The final form of a word that titlecase would get wrong."""
    if re.fullmatch(_INTERJECTION, word):
        return word.capitalize()
    acronym = word == "V" or (len(word) > 1 and word.isupper())
    return word if acronym or re.search(_FOREIGN_LETTER, word) else None


def _with_tail(stem: str, tail: str, max_bytes: int) -> str:
    layout = re.fullmatch(_LAYOUT, stem)
    performer, mark, title, fixed = layout.groups(default="") if layout else (stem, "", "", "")
    return _assemble(performer, mark, title, fixed + tail, max_bytes)


def _assemble(performer: str, mark: str, title: str, tail: str, max_bytes: int) -> str:
    room = max_bytes - len((mark + tail).encode())
    title = _cut(title, room - len(performer.encode()) - 1)
    if title:
        return f"{performer}{mark} {title}{tail}"
    performer = _cut(performer, room) or _cut(_UNKNOWN, room)
    if not performer:
        raise ValueError(f"{max_bytes} bytes are too few for a name with {mark}{tail}.")
    return f"{performer}{mark}{tail}"


def _cut(text: str, limit: int) -> str:
    """At most `limit` bytes: whole characters with their marks, whole words where one ends near."""
    kept = text.encode()[: max(limit, 0)].decode(errors="ignore")
    if kept == text:
        return text
    while kept and (kept[-1] == _JOINER or _extends(text[len(kept)])):
        kept = kept[:-1]
    space = kept.rfind(" ")
    if text[len(kept)] != " " and space >= len(kept) * 2 // 3:
        kept = kept[:space]
    return kept.rstrip(" .,-")


def _extends(after: str) -> bool:
    return after == _JOINER or category(after)[0] == "M" or "\U0001f3fb" <= after <= "\U0001f3ff"
