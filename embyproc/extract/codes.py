"""Clean text -> the code in it, by rules from the most to the least certain; the first one decides.

A wrong code files a work under a wrong name, a missing one only waits for a person: when in doubt,
there is none.
"""

import re
from collections.abc import Callable

from embyproc.extract.labels import Code, code_at, labelled
from embyproc.extract.text import AFTER, BEFORE, GLUED_MARK_OR_END, IGNORE_CASE, words_before

_END = GLUED_MARK_OR_END
_GAP = r"[-_ .\[\]()]{0,4}"


def find_code(text: str) -> Code | None:
    """The code in a clean text (see `text`), or None."""
    for rule in _RULES:
        found = rule(text)
        if found:
            return found
    return None


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(f"{BEFORE}{pattern}", IGNORE_CASE)


_FC2 = _pattern(rf"fc2{_GAP}(?:ppv)?{_GAP}([0-9]{{5,7}}){_END}")
_FC2_SPELLINGS = ("FC2-PPV-", "FC2-", "FC2PPV-", "FC2PPV")


def _fc2(text: str) -> Code | None:
    found = _FC2.search(text)
    if not found:
        return None
    return code_at(found, rule="fc2", keys=tuple(start + found[1] for start in _FC2_SPELLINGS))


_HEYZO = _pattern(rf"heyzo{_GAP}(?:lt[-_ ])?([0-9]{{3,4}}){_END}")


def _heyzo(text: str) -> Code | None:
    found = _HEYZO.search(text)
    if not found:
        return None
    # The studio always writes four digits; three are kept as written and asked for both ways.
    written, official = f"HEYZO-{found[1]}", f"HEYZO-{found[1].zfill(4)}"
    return code_at(found, rule="heyzo", keys=tuple(dict.fromkeys((written, official))))


# (rule, pattern, how to write the code)
_FIXED_FORMS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "heydouga",
        _pattern(rf"heydouga[-_ ]?([0-9]{{4}})[-_ ]([0-9]{{3,5}}){_END}"),
        "heydouga-{}-{}",
    ),
    ("kin8", _pattern(rf"kin8(?:tengoku)?[-_ ]?([0-9]{{4}}){_END}"), "kin8-{}"),
    ("xxx-av", _pattern(rf"xxx-?av[-_ ]([0-9]{{4,6}}){_END}"), "xxx-av-{}"),
    (
        "h4610",
        _pattern(rf"(h4610|h0930|c0930)[-_ \])]{{1,2}}([a-z]{{2,8}}[0-9]{{3,6}}){AFTER}"),
        "{}-{}",
    ),
    ("tokyo", _pattern(rf"th101[-_]([0-9]{{3}})[-_]([0-9]{{6}}){_END}"), "th101-{}-{}"),
    ("s number", _pattern(rf"(mkb?d|[a-z]{{2,4}}bd)[-_](s[0-9]{{2,4}}){_END}"), "{}-{}"),
)


def _fixed_form(text: str) -> Code | None:
    for rule, pattern, form in _FIXED_FORMS:
        found = pattern.search(text)
        if found:
            return code_at(found, rule=rule, keys=(form.format(*found.groups()).upper(),))
    return None


_DATE_STUDIO = _pattern(
    r"(?:carib(?:b?ean)?(?:com)?(?:pr)?|1pon(?:do)?|10mu(?:sume)?|paco(?:pacomama)?|muramura)"
    + AFTER
)
_DATE = _pattern(rf"([0-9]{{6}})([-_])([0-9]{{2,3}}){_END}")


def _date(text: str) -> Code | None:
    """Month, day, year and a number: '-' and '_' tell two studios apart, so either is kept."""
    studio = _DATE_STUDIO.search(text)
    for found in _DATE.finditer(text):
        date, separator, number = found.groups()
        typical = len(number) == 3 or separator == "_"
        if not _is_month_day(date[:4]):
            continue
        if studio or (typical and not words_before(text, found.start())):
            return code_at(found, rule="date", keys=(date + separator + number,))
    return None


_DATE_AND_NAME = re.compile(r"[^A-Za-z0-9]*([0-9]{6})-([A-Z]{4,8})[^A-Za-z0-9]*")


def _date_and_name(text: str) -> Code | None:
    """'100409-LIMU': only as the whole name and in capitals, or any dated home video would do."""
    found = _DATE_AND_NAME.fullmatch(text)
    if not found:
        return None
    date, name = found.groups()
    if not (_is_month_day(date[:4]) or _is_month_day(date[2:])):
        return None
    return code_at(found, rule="date and name", keys=(f"{date}-{name}",))


def _is_month_day(digits: str) -> bool:
    return 1 <= int(digits[:2]) <= 12 and 1 <= int(digits[2:]) <= 31


_TOKYO_STUDIO = _pattern(rf"tokyo[-_ ]?hot{AFTER}")
_TOKYO = _pattern(rf"([nk][0-9]{{4}}){_END}")
_LIKE_A_SIZE_OR_YEAR = re.compile(r"(?:19|20)[0-9]{2}|1080|1440|2160")


def _tokyo(text: str) -> Code | None:
    """One letter and four digits is little: without the studio's name it has to come first."""
    studio = _TOKYO_STUDIO.search(text)
    for found in _TOKYO.finditer(text):
        doubtful = _LIKE_A_SIZE_OR_YEAR.fullmatch(found[1][1:])
        if studio or not (doubtful or words_before(text, found.start())):
            return code_at(found, rule="tokyo", keys=(found[1].upper(),))
    return None


_RULES: tuple[Callable[[str], Code | None], ...] = (
    _fc2,
    _heyzo,
    _fixed_form,
    _date,
    _tokyo,
    labelled,
    _date_and_name,
)
