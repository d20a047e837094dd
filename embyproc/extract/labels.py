"""Clean text -> a code of label and number: SONE-760, sone760, 300MIUM-123, 118abp00123."""

import re
from dataclasses import dataclass

from embyproc.extract.text import AFTER, BEFORE, GLUED_MARK_OR_END, IGNORE_CASE, words_before


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A code, how to ask for it, and where in the text it stands."""

    code: str
    lookup_keys: tuple[str, ...]
    rule: str
    start: int
    end: int
    edition: str = ""


def code_at(found: re.Match[str], *, rule: str, keys: tuple[str, ...]) -> Code:
    return Code(code=keys[0], lookup_keys=keys, rule=rule, start=found.start(), end=found.end())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    code: Code
    label: str
    segment: int
    leading: bool


# Words in front of a number that never are a label.
_NOT_LABELS = """
    IMG VID DSC DSCF DSCN MVI MOV PICT DJI CIMG GOPR MAH CAM CCTV NVR DVR REC WEBCAM SCREEN VIDEO
    MOVIE CLIP FILM SCENE TRACK SAMPLE TITLE FILE TEMP TEST COPY BACKUP MEDIA PHOTO IMAGE
    CD DVD BD DISC DISK PART PT VOL VOLUME BOX SET PACK BATCH SEASON EP EPS EPI CH CHAP NO NR NUM
    TAKE REEL TAPE SIDE BOOK STEP LEVEL UNIT WEEK DAY DAYS HOUR HOURS MIN MINS SEC YEAR AGE LESSON
    MODULE CLASS COURSE PAGE LIST INDEX ITEM CASE TASK GROUP ROUND GAME MATCH STAGE PHASE SERIES
    MODEL TYPE MARK VER HD FHD UHD QHD SD HDR HEVC AVC AAC AC DTS FLAC FPS KBPS MBPS BIT BITS KB MB
    GB TB HZ KHZ MP MPEG AVI MKV WMV WEB HTTP HTTPS WWW COM NET ORG ISO RFC CVE UTF IP TCP UDP USB
    PCI CPU GPU RTX GTX PC NAS FC PPV HEYZO CARIB PONDO PON MUSUME MU PACO TOKYO HOT JAV AV BBS BT
    THE AND FOR WITH FROM MY OUR NEW OLD BEST TOP ALL ONE TWO HOTEL ROOM HOUSE STREET ROUTE AREA
    ZONE GATE FLOOR BUS TRAIN FLIGHT BOEING AIRBUS APOLLO AGENT STUDIO RADIO TRIP TOUR SHOW LIVE
    EVENT PARTY COVID UFC WWE NBA NFL NHL FIFA UEFA EURO MOTOGP BLINK SUM IPHONE IPAD GALAXY PIXEL
    PYTHON UBUNTU DEBIAN SONG MIX DEMO INTRO OUTRO OP ED NCOP NCED OVA OAD SP PV CM MV AMV AD ADS
    LOGO TV PM AM ST ND RD TH TMDB IMDB TVDB THX MIG OUT OUTPUT INPUT FINAL DRAFT EXPORT RENDER SHOT
    FRAME SEQ DRONE VLOG STREAM LOG MAIN AUDIO MUSIC VOICE SOUND DATA BEACH PARK CITY SCHOOL OFFICE
    FAMILY SUMMER WINTER XMAS
"""
_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP SEPT OCT NOV DEC MARCH APRIL JUNE JULY"
NOT_LABELS = frozenset(_NOT_LABELS.split())
# JUL-123 is a code, JUL-2024 and JUL-04 are dates.
MONTHS = frozenset(_MONTHS.split())
# These have passed 1900, so their numbers may look like a year.
LONG_RUNNING_LABELS = frozenset({"ARA", "GANA", "LUXU", "MIUM", "SIRO"})
# Glued to a lower-case word these are picture heights.
_HEIGHTS = frozenset({"240", "360", "480", "540", "576", "720"})

_LABELLED = re.compile(
    rf"{BEFORE}(?P<prefix>[a-z]_[0-9]{{2,5}}|[0-9]{{1,5}}?)?"
    r"(?P<label>t[23]8|s2m(?:bd|cr)?|mk3d2dbd|mcb3dbd|3dsvr|[a-z]{2,6})"
    r"(?P<separator>[-_ .]?)"
    rf"(?P<number>[0-9]{{2,6}})(?P<edition>[ez])?{GLUED_MARK_OR_END}",
    IGNORE_CASE,
)


def labelled(text: str) -> Code | None:
    """The best label and number in the text, or None: also when two are equally good."""
    firm: list[_Candidate] = []
    loose: list[_Candidate] = []
    offset = 0
    for segment in text.split("@"):
        for found in _LABELLED.finditer(segment):
            leading = not words_before(segment, found.start())
            if _may_be_a_code(found) and _stands_well(found, leading=leading):
                candidate = _Candidate(
                    code=_spell(found, offset),
                    label=found["label"].upper(),
                    segment=offset,
                    leading=leading,
                )
                (firm if found["separator"] in ("-", "_") else loose).append(candidate)
        offset += len(segment) + 1
    # Around '@' one side is the site: a dashed code wins, then the side behind the '@'.
    rivals = firm or loose
    rivals = [one for one in rivals if one.segment == rivals[-1].segment]
    if not rivals:
        return None
    best = min(rivals, key=lambda one: (not one.leading, one.code.start))
    # 'SONE-760 & SONE-761' holds two works, 'abc888 sone760' may be either; but a sentence behind
    # 'SONE-760' may well mention another label's code.
    for other in rivals:
        if other.code.code != best.code.code and (not firm or other.label == best.label):
            return None
    return best.code


def _may_be_a_code(found: re.Match[str]) -> bool:
    """Whether label and number go together at all, wherever they stand."""
    label, number, prefix = found["label"].upper(), found["number"], found["prefix"] or ""
    if label in NOT_LABELS or _is_range(found):
        return False
    # '2nd100', '10am200': two letters behind one or two digits are an ordinal or a time.
    if len(prefix) in (1, 2) and len(label) == 2:
        return False
    # '4KSONE-760': where the picture size ends is anybody's guess.
    if prefix in ("2", "4", "8") and label.startswith("K"):
        return False
    if len(number) == 6 or (len(number) == 5 and number.startswith("0")):
        return _is_padded(number)
    year_or_size = len(number) == 4 and (
        number.startswith(("19", "20")) or number in ("1080", "1440", "2160")
    )
    if label in MONTHS and (year_or_size or len(number) == 2):
        return False
    if year_or_size:
        known = label in LONG_RUNNING_LABELS or len(prefix) == 3
        return known or (found["separator"] == "-" and found["label"].isupper())
    return True


def _stands_well(found: re.Match[str], *, leading: bool) -> bool:
    """Whether it is written and placed like a code: the looser the form, the more is asked."""
    label, number, separator = found["label"], found["number"], found["separator"]
    capitals = label.upper() == label
    if len(number) == 2:
        return separator == "-" and leading and capitals and len(label) > 2 and not _goes_on(found)
    if separator == "-":
        # Inside a title: 'a flight on a Boeing-747' and 'my-trip-123' are none.
        return leading or capitals or (label.islower() and not _is_chained(found))
    if separator == "_" or (not separator and _is_padded(number)):
        return leading or capitals
    if separator:
        short = len(number) <= 4 and 3 <= len(label) <= 5
        return leading and capitals and short and not found["prefix"]
    if len(label) == 2 or len(number) == 5:
        return leading and capitals
    if leading:
        return capitals or (label.islower() and number not in _HEIGHTS)
    # '...x264-GRP123' names the group that made the file.
    return capitals and not _is_chained(found)


def _is_padded(number: str) -> bool:
    """Shops pad the number to five or six digits: 00123, 000024."""
    return len(number) >= 5 and number.startswith("0") and 0 < int(number) <= 9999


def _goes_on(found: re.Match[str]) -> bool:
    behind = found.string[found.end() : found.end() + 2]
    return len(behind) == 2 and behind[0] in "-_." and behind[1].isdigit()


_RANGE_END = re.compile(rf" ?[-~+&] ?([0-9]+){AFTER}")


def _is_range(found: re.Match[str]) -> bool:
    """'SONE-760-761', 'SONE-760+761': more works than one."""
    number = found["number"]
    end = _RANGE_END.match(found.string, found.end())
    if end is None or len(number) < 3:
        return False
    return len(end[1]) == len(number) and end[1] > number


def _is_chained(found: re.Match[str]) -> bool:
    return found.start() > 0 and found.string[found.start() - 1] in "-_."


def _spell(found: re.Match[str], offset: int) -> Code:
    prefix, label, written = (
        (found["prefix"] or "").upper(),
        found["label"].upper(),
        found["number"],
    )
    padded = _is_padded(written)
    number = str(int(written)).zfill(3) if padded else written
    edition = (found["edition"] or "").upper()
    bare = f"{label}-{number}{edition}"
    keys: tuple[str, ...] = (bare,)
    rule = "standard"
    # Before a padded number, or with more than three digits, the prefix is a shop's number for the
    # maker; else it belongs to the label, and sources may know the work with or without it.
    if prefix and not padded and len(prefix) <= 3:
        rule, keys = "numeric label", (prefix + bare, bare)
    elif padded and found["separator"]:
        keys = (bare, f"{label}-{written}{edition}")
    elif padded or prefix:
        rule = "content id"
    return Code(
        code=keys[0],
        lookup_keys=keys,
        rule=rule,
        start=found.start() + offset,
        end=found.end() + offset,
        edition=edition,
    )
