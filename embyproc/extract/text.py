"""File name -> clean text: one alphabet, one kind of dash, noise blanked out in place.

Noise is overwritten with spaces of the same length, never cut out: positions keep their meaning,
and no two fragments that were apart can meet and form a code that nobody wrote.
"""

import re
import unicodedata

# ASCII, because otherwise [a-z] in any case would also match the Turkish dotless i.
IGNORE_CASE = re.IGNORECASE | re.ASCII

# What counts as "inside a word": ASCII and the other alphabets with case. CJK text is written
# without spaces, so a code that touches it still stands alone.
WORD = r"A-Za-z0-9\u00c0-\u024f\u0370-\u052f"
BEFORE = rf"(?<![{WORD}])"
AFTER = rf"(?![{WORD}])"

# What may be glued to the digits of a code: subtitle marks, part marks, quality.
GLUED_MARK = (
    r"(?:[a-d]|u|uc|ch[st]?|eng|(?:cd|pt|part|disc|disk)[0-9]{1,2}|f?hd[ab1-9]?|[hm]hb[1-9]?|dmb)"
)
GLUED_MARK_OR_END = rf"(?={GLUED_MARK}?{AFTER})"

# Site names hide in front of codes: 'abc888.com-SONE-760'.
_DOMAINS = "com|net|org|info|club|vip|xyz|biz|cc|la"
# Also words, so they only count inside brackets, after 'www.' or right before an '@'.
_WORDY_DOMAINS = (
    rf"{_DOMAINS}|top|tv|me|to|co|pw|io|in|us|jp|cn|tw|hk|de|app|fun|win|one|pro|live|site|wiki"
)

# The name of a site needs a letter: 'SONE-760.com' must not lose its number.
_SITE = r"(?=[0-9]*[a-z])[a-z0-9]+\."
_BRACKETED_SITE = rf"[\[(【](?:[a-z]+-)*(?:{_SITE})+(?:{_WORDY_DOMAINS})[\])】]"

_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63"), "-")
_EXTENSION = re.compile(r"\.(?:[A-Za-z][A-Za-z0-9]{1,4}|3gp|3g2)$")


def _noise(pattern: str) -> re.Pattern[str]:
    return re.compile(f"{BEFORE}(?:{pattern}){AFTER}", IGNORE_CASE)


# In this order; each is tried on what the ones before have left.
NOISE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("site in brackets", re.compile(_BRACKETED_SITE, IGNORE_CASE)),
    ("site before @", re.compile(rf"{BEFORE}[a-z0-9]+\.(?:{_WORDY_DOMAINS})(?=@)", IGNORE_CASE)),
    ("site with www", _noise(rf"www\.[a-z0-9]+(?:-[a-z0-9]+)?\.(?:{_WORDY_DOMAINS})")),
    ("site", _noise(rf"{_SITE}(?:{_DOMAINS})")),
    ("forum", _noise(r"sis001")),
    ("uuid", _noise(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")),
    ("checksum", re.compile(r"[\[(][0-9a-f]{8}[\])]", IGNORE_CASE)),
    ("hash", _noise(r"[0-9a-f]{16,}")),
    ("date", _noise(r"(?:19|20)[0-9]{2}[-._ ][0-9]{1,2}[-._ ][0-9]{1,2}")),
    ("date, day first", _noise(r"[0-9]{1,2}[-._][0-9]{1,2}[-._](?:19|20)[0-9]{2}")),
    ("date and time", _noise(r"(?:19|20)[0-9]{6}(?:[-_ ]?[0-9]{6})?")),
    ("year", re.compile(r"[\[(](?:19|20)[0-9]{2}[\])]")),
    ("episode", _noise(r"s[0-9]{1,2}[ ._-]?e[0-9]{1,4}")),
    ("camera", _noise(r"(?:img|dsc[fn]?|mvi|pict|dji|cimg|gopr|mah|wa|pxl|hpim)[-_]?[0-9]{3,}")),
    ("camera file", _noise(r"sam_[0-9]{4}|g[hx][0-9]{6}|(?:vid|wp|win|rec|mov|scr)_[0-9]{4,}")),
    ("resolution", _noise(r"[0-9]{3,4}[pi](?:[0-9]{2,3})?|[0-9]{3,4}x[0-9]{3,4}|x1080x|[24568]k")),
    ("quality", _noise(r"full[-_ .]?hd|[fuq]?hd(?:480|720|1080|2160)?|(?:720|1080)f?hd")),
    ("video codec", _noise(r"[xh][-_ .]?26[456]|hevc|avc|av1|xvid|divx|vp9|mpeg-?[24]|mp[34]|mkv")),
    ("colour", _noise(r"(?:8|10|12)-?bits?|hdr(?:10)?|(?:bt|rec)[-_ .]?(?:601|709|2020)|sdr")),
    ("audio", _noise(r"(?:aac|e?ac-?3|dts|flac)(?:[-_ ]?[0-9]\.[0-9])?")),
    ("surround", _noise(r"ddp?[-_ ]?[0-9]\.[0-9]")),
    # Not "123.60fps" and "123.5gb": behind a label the digits before the dot are its number.
    ("frames", _noise(r"(?:23\.9[78][0-9]?|29\.97[0-9]?|59\.94[0-9]?|[0-9]{2,3})fps")),
    ("rate", _noise(r"(?:[0-9]{1,6}|(?<![a-z][-_ ])[0-9]{1,6}\.[0-9]{1,3})(?:[kmg]bps|[kmg]i?b)")),
    ("source", _noise(r"web-?dl|web-?rip|blu-?ray|b[dr]-?rip|dvd-?rip|hdtv|remux|dvd[59]")),
)

# Plain words that say nothing about the work; with a number right behind one may be a label.
_NOISE_WORDS = re.compile(
    rf"{BEFORE}(?:uncensored|decensored|uncen|leaked|leak|uncut|un|ai|full|raw|repack|proper|hack"
    rf"|nowm|3xplanet|javgg|web|sd){AFTER}(?![-_ ]?[0-9]{{2}})",
    IGNORE_CASE,
)


def normalise(text: str) -> str:
    """The text in one alphabet: full-width turns ASCII, every dash '-'; invisible characters go."""
    if text.isascii() and text.isprintable():
        return text
    if not text.isascii():
        # Circled digits, superscripts, Roman numerals and signs become plain letters and digits;
        # spaces keep them from growing onto a code.
        spaced = (f" {c} " if unicodedata.category(c) in ("No", "Nl", "So") else c for c in text)
        text = unicodedata.normalize("NFKC", "".join(spaced)).translate(_DASHES)
    visible = (c for c in text if unicodedata.category(c) != "Cf")
    return "".join(" " if unicodedata.category(c) in ("Cc", "Zs") else c for c in visible)


def without_extension(name: str) -> str:
    return _EXTENSION.sub("", name)


def extension(name: str) -> str:
    """The extension in lower case without its dot, or an empty string."""
    found = _EXTENSION.search(name)
    return found[0][1:].lower() if found else ""


def blank_noise(text: str) -> str:
    """The text with whatever could be mistaken for a code, but is none, turned into spaces."""
    for _, pattern in NOISE:
        text = pattern.sub(_blank, text)
    return _NOISE_WORDS.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


_LATIN_WORD = re.compile(rf"[{WORD}]+")
_DIGIT = re.compile(r"[0-9]")
_BRACKETS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|【[^【】]*】")


def words_before(text: str, position: int) -> bool:
    """Whether a title has begun before the position.

    What is in brackets, in CJK or has digits in it ('01', 'abc888') does not begin one.
    """
    words = _LATIN_WORD.findall(_BRACKETS.sub("", text[:position]))
    return any(not _DIGIT.search(word) for word in words)
