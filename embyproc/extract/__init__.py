"""File name -> movie code, part and subtitle, and the rule that decided. Pure.

The name decides first. Its folder is asked only when the name has no code, and the files beside it
only when something in the name could be a part: 'ABC-123-A' is part 1 if there is an 'ABC-123-B'.

`text` blanks the noise, `codes` and `labels` find the code, `marks` reads what stands around it;
this module weighs name, folder and neighbours.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from embyproc.extract.codes import find_code
from embyproc.extract.labels import Code
from embyproc.extract.marks import (
    PossiblePart,
    Subtitle,
    direct_number,
    explicit_part,
    find_subtitle,
    possible_parts,
)
from embyproc.extract.text import (
    AFTER,
    BEFORE,
    IGNORE_CASE,
    blank_noise,
    extension,
    normalise,
    without_extension,
)

# Files that lie beside a video and carry its name; they never prove a second part.
_SIDECARS = (
    "srt ass ssa sub idx vtt smi sup lrc nfo xml json txt md jpg jpeg png gif webp bmp url html htm"
    " mht torrent zip rar par2 sfv md5 part aria2 crdownload tmp log pdf"
)
_SIDECAR_EXTENSIONS = frozenset(_SIDECARS.split())
# In the folder of a work, yet not the work.
_EXTRAS = re.compile(
    rf"{BEFORE}(?:samples?|trailers?|previews?|teasers?|extras?|bonus|making|advert|promo|ads?){AFTER}"
    r"|予告|預告|预告|特典|広告|廣告|广告",
    IGNORE_CASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What a file name says about the work in the file."""

    code: str | None
    """Upper case, at most 20 characters; None if there is none."""
    lookup_keys: tuple[str, ...]
    """What to ask metadata sources for, best first; empty without a code."""
    part: int | None
    subtitle: str | None
    """'English Sub', 'Chinese Sub', 'Korean Sub', 'Japanese Sub' or None."""
    marker: str | None
    """The text that decided the subtitle."""
    rule: str
    """The rule that found the code, or 'none'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A name with its noise blanked, cut at its code. Without a code all of it is tail."""

    code: Code | None
    head: str
    tail: str

    @classmethod
    def of(cls, text: str) -> "_Reading":
        clean = blank_noise(text)
        code = find_code(clean)
        if code is None:
            return cls(code=None, head="", tail=clean)
        return cls(code=code, head=clean[: code.start], tail=clean[code.end :])

    @property
    def words(self) -> str:
        return f"{self.head} {self.tail}"


def extract(name: str, *, parent: str = "", siblings: Iterable[str] = ()) -> Extraction:
    """Read a file name; the names of its folder and of the other files in it are witnesses."""
    reading = _Reading.of(without_extension(normalise(name)))
    others = tuple(other for other in siblings if other != name)
    if reading.code:
        return _from_name(reading, reading.code, others)
    return _from_folder(reading, _Reading.of(normalise(parent)), others)


def _from_name(reading: _Reading, code: Code, others: tuple[str, ...]) -> Extraction:
    part = explicit_part(reading.head, reading.tail)
    if part is None and code.rule == "fc2":
        part = direct_number(reading.tail)
    confirmed = None
    if part is None:
        code, confirmed = _part_among(reading, code, others)
    c_is_a_part = confirmed == PossiblePart(kind="letter", index=3)
    subtitle = find_subtitle(reading.words, reading.tail, c_is_a_part=c_is_a_part)
    return _extraction(code, confirmed.index if confirmed else part, subtitle, rule=code.rule)


def _part_among(
    reading: _Reading, code: Code, others: tuple[str, ...]
) -> tuple[Code, PossiblePart | None]:
    """The part that the neighbours confirm, with the code that then remains."""
    mine = possible_parts(reading.tail)
    if mine:
        theirs = [possible_parts(other.tail) for other in _same_code(code.code, others)]
        confirmed = _confirmed(mine, theirs)
        if confirmed:
            return code, confirmed
    # 'ABC-123e' is an edition of its own, unless it is in a row with 'ABC-123a' and 'ABC-123b'.
    if code.edition == "E":
        bare = tuple(key.removesuffix("E") for key in code.lookup_keys)
        theirs = [possible_parts(other.tail) for other in _same_code(bare[0], others)]
        fifth = _confirmed((PossiblePart(kind="letter", index=5),), theirs)
        if fifth:
            return replace(code, code=bare[0], lookup_keys=bare), fifth
    return code, None


def _from_folder(reading: _Reading, folder: _Reading, others: tuple[str, ...]) -> Extraction:
    """The folder's code, if this file can be what the folder is named after."""
    code = folder.code
    part = explicit_part("", reading.tail)
    subtitle = find_subtitle(reading.tail, "")
    if code is None or _EXTRAS.search(reading.tail):
        return _extraction(None, None, subtitle, rule="none")
    if part is None:
        # A neighbour that carries the code is the work, and this file a stranger in its folder.
        if next(_same_code(code.code, others), None):
            return _extraction(None, None, subtitle, rule="none")
        mine = possible_parts(reading.tail)
        confirmed = _confirmed(mine, list(_parts_without_code(others))) if mine else None
        part = confirmed.index if confirmed else None
    subtitle = subtitle or find_subtitle(folder.words, folder.tail)
    return _extraction(code, part, subtitle, rule="parent folder")


def _extraction(
    code: Code | None, part: int | None, subtitle: Subtitle | None, *, rule: str
) -> Extraction:
    return Extraction(
        code=code.code if code else None,
        lookup_keys=code.lookup_keys if code else (),
        part=part,
        subtitle=subtitle.language if subtitle else None,
        marker=subtitle.marker if subtitle else None,
        rule=rule,
    )


def _same_code(code: str, others: Iterable[str]) -> Iterator[_Reading]:
    # A folder may hold thousands of names: look for the digits before reading a name in full.
    digits = max(re.findall(r"[0-9]+", code), key=len).lstrip("0")
    for other in others:
        name = normalise(other)
        if digits in name and _is_media(name):
            reading = _Reading.of(without_extension(name))
            if reading.code and reading.code.code == code:
                yield reading


def _parts_without_code(others: Iterable[str]) -> Iterator[tuple[PossiblePart, ...]]:
    for other in others:
        name = normalise(other)
        if _is_media(name):
            reading = _Reading.of(without_extension(name))
            if reading.code is None:
                yield possible_parts(reading.tail)


def _is_media(name: str) -> bool:
    return extension(name) not in _SIDECAR_EXTENSIONS


def _confirmed(
    mine: Iterable[PossiblePart], theirs: list[tuple[PossiblePart, ...]]
) -> PossiblePart | None:
    """The first of my possible parts that the neighbours' ones put into a row."""
    row = {(part.kind, part.index) for parts in theirs for part in parts}
    whole_beside = any(not parts for parts in theirs)
    for part in mine:
        if part.kind == "letter":
            # C needs both A and B, because alone it says 'Chinese'.
            in_row = all(("letter", index) in row for index in {1, 2} - {part.index})
        else:
            in_row = (part.kind, part.index - 1) in row or (part.kind, part.index + 1) in row
        # 'ABC-123 (1)' beside 'ABC-123' is a second copy of it.
        if in_row and not (part.kind == "copy" and whole_beside):
            return part
    return None
