"""Clean text -> the marks beside a code: which part it is, and the language of its subtitles."""

import re
from dataclasses import dataclass

from embyproc.extract.text import AFTER, BEFORE, GLUED_MARK, IGNORE_CASE

_ENGLISH, _CHINESE, _KOREAN, _JAPANESE = "English Sub", "Chinese Sub", "Korean Sub", "Japanese Sub"
_SUBTITLED = r"(?:hard|soft)?[-_. ]?sub(?:s|bed|titles?|titled)?"


def _subtitled_in(language: str) -> re.Pattern[str]:
    return re.compile(
        rf"{BEFORE}(?:{language})[-_. ]{{0,3}}{_SUBTITLED}(?![a-z])"
        rf"|{BEFORE}sub(?:s|bed|titles?|titled)[-_. ]in[-_. ](?:{language}){AFTER}",
        IGNORE_CASE,
    )


# In this order: '字幕' alone means Chinese, so the other languages speak first.
_SUBTITLE_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (_ENGLISH, _subtitled_in("english|eng|en")),
    (_CHINESE, _subtitled_in("chinese|mandarin|chi|chn|chs|cht|cn")),
    (_KOREAN, _subtitled_in("korean|kor|kr")),
    (_JAPANESE, _subtitled_in("japanese|jpn|jap|jp")),
    (_ENGLISH, re.compile(r"英[文語语]字幕|영어 ?자막")),
    (_JAPANESE, re.compile(r"日[文語语]字幕|日本[語语]字幕|일본어 ?자막")),
    (_KOREAN, re.compile(r"[韓韩][国國]?[文語语]字幕|(?:한글|한국어) ?자막|한글|자막")),
    (
        _CHINESE,
        re.compile(r"中[文国國][語语]?字幕|[繁简簡][體体]?中[文字]?|中[文英]?字幕|中[字文]|字幕"),
    ),
)
_NEGATION = re.compile(rf"(?:{BEFORE}(?:no|non|without|w/o)|無|无|没有)[-_. ]*$", IGNORE_CASE)
_NEGATED_AFTER = re.compile(r"なし|無し|无|無")

# Whole tokens that count only in the row of marks behind the code.
_SUBTITLE_MARKS = {
    "C": _CHINESE,
    "UC": _CHINESE,
    "CH": _CHINESE,
    "CHS": _CHINESE,
    "CHT": _CHINESE,
    "ENG": _ENGLISH,
    "KOR": _KOREAN,
}
# The language alone: in brackets, or as all that follows the code ('QUIN-101-English').
# Not Japanese, because that is what is spoken.
_LANGUAGE_ALONE = re.compile(
    r"[\[(](?P<bracketed>english|chinese|korean)[\])]"
    r"|^ *[-_.](?P<alone>english|chinese|korean)[^A-Za-z0-9]*$",
    IGNORE_CASE,
)
# Behind a Latin title '-C' and '-CH' could belong to a word ('Vitamin-C'), '-UC' could not.
_MARK_AT_END = re.compile(
    r"[-_](?:(?<=[^\x00-\x7f].)(?P<short>CH?)|(?P<long>UC))[^A-Za-z0-9]*$", IGNORE_CASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtitle:
    """A language, and the text that says so."""

    language: str
    marker: str


def find_subtitle(text: str, tail: str, *, c_is_a_part: bool = False) -> Subtitle | None:
    """The subtitle named anywhere in the text, or marked in its tail (what follows the code)."""
    for language, pattern in _SUBTITLE_WORDS:
        for found in pattern.finditer(text):
            before = text[max(0, found.start() - 10) : found.start()]
            after = text[found.end() : found.end() + 2]
            if not _NEGATION.search(before) and not _NEGATED_AFTER.match(after):
                return Subtitle(language=language, marker=found[0].strip())
    return _marked_subtitle(tail, c_is_a_part=c_is_a_part)


def _marked_subtitle(tail: str, *, c_is_a_part: bool) -> Subtitle | None:
    for mark in _marks(tail):
        token = mark[0].upper()
        if token not in _SUBTITLE_MARKS or (token == "C" and c_is_a_part):
            continue
        # A lone C after a space or in brackets may be anything.
        if token == "C" and mark.start() and tail[mark.start() - 1] not in "-_.":
            continue
        return Subtitle(language=_SUBTITLE_MARKS[token], marker=mark[0])
    alone = _LANGUAGE_ALONE.search(tail)
    if alone:
        word = alone["bracketed"] or alone["alone"]
        return Subtitle(language=f"{word.capitalize()} Sub", marker=word)
    at_end = _MARK_AT_END.search(tail)
    if at_end:
        return Subtitle(language=_CHINESE, marker=at_end["short"] or at_end["long"])
    return None


_TOKEN = re.compile(r"[A-Za-z0-9]+|[^\x00-\x7f]+")
_MARK = re.compile(
    rf"{GLUED_MARK}|[a-z]|kor|subs?|[0-9]{{1,2}}|cd|dvd[1-4]?|disc|disk|part|pt",
    IGNORE_CASE,
)


def _marks(tail: str) -> list[re.Match[str]]:
    """The tokens directly behind the code, up to the first that is a word of the title."""
    marks = []
    for token in _TOKEN.finditer(tail):
        if not _MARK.fullmatch(token[0]):
            break
        marks.append(token)
    return marks


_NUMBER = r"[-_. ]?0?([1-9][0-9]?)"
# (pattern, only behind the code). The first kind that is there decides: 'Part 3 CD1' is disc 1.
_PARTS: tuple[tuple[re.Pattern[str], bool], ...] = (
    (re.compile(rf"{BEFORE}(?:cd|disc|disk){_NUMBER}{AFTER}", IGNORE_CASE), False),
    (re.compile(rf"{BEFORE}dvd[-_. ]?([1-4]){AFTER}", IGNORE_CASE), True),
    (re.compile(rf"{BEFORE}(?:part|pt){_NUMBER}{AFTER}", IGNORE_CASE), False),
    (re.compile(rf"{BEFORE}([1-9])[-_. ]?of[-_. ]?[2-9]{AFTER}", IGNORE_CASE), True),
    (re.compile(rf"{BEFORE}(?:[fu]?hd|[hm]hb)([1-9]|[ab]){AFTER}", IGNORE_CASE), True),
)


def explicit_part(head: str, tail: str) -> int | None:
    """The part that the name states by itself, or None; contradictions state nothing."""
    for pattern, only_tail in _PARTS:
        found = set(pattern.findall(tail))
        if not found and not only_tail:
            found = set(pattern.findall(head))
        if len(found) == 1:
            return _index(found.pop())
        if found:
            return None
    return None


_DIRECT_NUMBER = re.compile(r"[-_]0{0,2}([1-9][0-9]?)(?![0-9A-Za-z])")
_LAST_NUMBER = re.compile(r"(?<![0-9A-Za-z])0{0,2}([1-9][0-9]?)([^0-9A-Za-z]*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class PossiblePart:
    """Something that is a part number only if the neighbours have its like: 'A', '2', '(2)'."""

    kind: str
    index: int


def possible_parts(tail: str) -> tuple[PossiblePart, ...]:
    """What in the tail could be a part, best first. A lone C is last: it mostly says 'Chinese'."""
    found: list[PossiblePart] = []
    letters = [m[0].upper() for m in _marks(tail) if re.fullmatch(r"[a-h]", m[0], IGNORE_CASE)]
    for letter in sorted(letters, key=lambda letter: letter == "C"):
        found.append(PossiblePart(kind="letter", index=_index(letter)))
    last = _LAST_NUMBER.search(tail)
    direct = _DIRECT_NUMBER.match(tail)
    if last:
        kind = "copy" if ")" in last[2] else "number"
        found.append(PossiblePart(kind=kind, index=int(last[1])))
    if direct:
        found.append(PossiblePart(kind="number", index=int(direct[1])))
    return tuple(dict.fromkeys(found))


def direct_number(tail: str) -> int | None:
    """The number right behind a code whose studio has no other use for one: FC2-PPV-1399264-1."""
    found = _DIRECT_NUMBER.match(tail)
    only_marks = len(_marks(tail)) == len(_TOKEN.findall(tail))
    return int(found[1]) if found and only_marks else None


def _index(mark: str) -> int:
    return int(mark) if mark.isdigit() else ord(mark.upper()) - ord("A") + 1
