"""Names come from text that strangers wrote: tables for what is wanted, properties for safety."""

import itertools
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embyproc.naming import (
    NameParts,
    choose_folder,
    file_name,
    folder_name,
    name_key,
    numbered,
    parse_aliases,
    same_name,
    sanitise,
    sidecar_name,
    split_performers,
)

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
BOWING = "\U0001f647\U0001f3fd\u200d\u2640\ufe0f"
DECOMPOSED_ZOE = "Zoe\u0308 Hill"


def parts(
    *,
    performer: str | None = "Jane Doe",
    subtitle: str | None = None,
    code: str = "ABC-123",
    title: str | None = "The Title",
    part: int | None = None,
    extension: str = "mp4",
) -> NameParts:
    return NameParts(
        performer=performer,
        subtitle=subtitle,
        code=code,
        title=title,
        part=part,
        extension=extension,
    )


def size(text: str) -> int:
    return len(text.encode())


# --- the layout ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_parts", "expected"),
    [
        (parts(), "Jane Doe - [No Sub] ABC-123 The Title.mp4"),
        (parts(subtitle="English"), "Jane Doe - [English] ABC-123 The Title.mp4"),
        (parts(subtitle="  "), "Jane Doe - [No Sub] ABC-123 The Title.mp4"),
        (parts(subtitle="a]b"), "Jane Doe - [a)b] ABC-123 The Title.mp4"),
        (parts(part=1), "Jane Doe - [No Sub] ABC-123 The Title - cd1.mp4"),
        (parts(part=12, title=None), "Jane Doe - [No Sub] ABC-123 - cd12.mp4"),
        (parts(title=None), "Jane Doe - [No Sub] ABC-123.mp4"),
        (parts(title="   "), "Jane Doe - [No Sub] ABC-123.mp4"),
        (parts(title="ABC-123"), "Jane Doe - [No Sub] ABC-123.mp4"),
        (parts(title="???"), "Jane Doe - [No Sub] ABC-123.mp4"),
        (parts(performer=None), "Unknown - [No Sub] ABC-123 The Title.mp4"),
        (parts(performer=""), "Unknown - [No Sub] ABC-123 The Title.mp4"),
        (parts(performer="\x00"), "Unknown - [No Sub] ABC-123 The Title.mp4"),
        (parts(performer="Jane [JD] Doe"), "Jane (JD) Doe - [No Sub] ABC-123 The Title.mp4"),
        (parts(extension=".mkv"), "Jane Doe - [No Sub] ABC-123 The Title.mkv"),
        (parts(extension="MP4"), "Jane Doe - [No Sub] ABC-123 The Title.MP4"),
        (parts(title="The End..."), "Jane Doe - [No Sub] ABC-123 The End.mp4"),
        (parts(title="Con"), "Jane Doe - [No Sub] ABC-123 Con.mp4"),
        (parts(performer="花子", title="花の話"), "花子 - [No Sub] ABC-123 花の話.mp4"),
        (parts(performer=DECOMPOSED_ZOE), "Zo\u00eb Hill - [No Sub] ABC-123 The Title.mp4"),
    ],
)
def test_file_name(given_parts: NameParts, expected: str) -> None:
    assert file_name(given_parts) == expected


@pytest.mark.parametrize(
    ("code", "title", "expected"),
    [
        ("ABC-123", "ABC-123 The Title", "The Title"),
        ("ABC-123", "ABC-123 - The Title", "The Title"),
        ("ABC-123", "ABC-123: The Title", "The Title"),
        ("ABC-123", "ABC-123 \u2013 The Title", "The Title"),
        ("ABC-123", "[ABC-123] The Title", "The Title"),
        ("ABC-123", "\u3010ABC-123\u3011花の話", "花の話"),
        ("ABC-123", "(abc-123) the title", "The Title"),
        ("ABC-123", "abc123 the title", "The Title"),
        ("ABC-123", "abc_123 the title", "The Title"),
        ("ABC-123", "\u200bABC-123 the title", "The Title"),
        ("ABC-123", "ABC-123花の話", "花の話"),
        ("ABC-123", "ABC-123 ABC-123 Blue Sky", "ABC-123 Blue Sky"),
        ("ABC-123", "ABC-1234 Blue Sky", "ABC-1234 Blue Sky"),
        ("ABC-123", "XABC-123 Blue Sky", "XABC-123 Blue Sky"),
        ("ABC-123", "The ABC-123 Title", "The ABC-123 Title"),
        ("300MIUM-123", "MIUM-123 The Title", "The Title"),
        ("300MIUM-123", "300MIUM-123 The Title", "The Title"),
        ("FC2-PPV-1234567", "FC2PPV 1234567 The Title", "The Title"),
        ("062620-001", "062620_001 The Title", "The Title"),
        ("300A", "A Title", "A Title"),
    ],
)
def test_the_code_leaves_the_front_of_the_title_once(code: str, title: str, expected: str) -> None:
    name = file_name(parts(code=code, title=title))
    assert name == f"Jane Doe - [No Sub] {code} {expected}.mp4"


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("don't look back", "Don't Look Back"),
        ("DON'T LOOK BACK", "Don't Look Back"),
        ("don\u2019t look back", "Don\u2019t Look Back"),
        ("the girl in the room", "The Girl in the Room"),
        ("THE GIRL IN THE ROOM", "The Girl in the Room"),
        ("THE GIRL: A STORY", "The Girl - A Story"),
        ("what it is for", "What It Is For"),
        ("NASA goes to the moon", "NASA Goes to the Moon"),
        ("a moon-NASA story", "A Moon-NASA Story"),
        ("my iPhone and I", "My iPhone and I"),
        ("THE 4K TV SHOW", "The 4K TV Show"),
        ("MP3 PLAYER", "MP3 Player"),
        ("THE 2ND TIME", "The 2nd Time"),
        ("PART III", "Part III"),
        ("Henry V Returns", "Henry V Returns"),
        ("MR SMITH AND MRS O'BRIEN", "Mr Smith and Mrs O'Brien"),
        ("THE U.S.A. NOW", "The U.S.A. Now"),
        ("I'M A VIP", "I'm a VIP"),
        ("hmm, shh", "Hmm, Shh"),
        ("my dvd shelf", "My DVD Shelf"),
        ("NASA", "NASA"),
        ("SUNSHINE", "Sunshine"),
        ("self-made gardener", "Self-Made Gardener"),
        ("\u00c9COLE DE DANSE", "\u00c9cole De Danse"),
        ("新人OL ABC の話", "新人OL ABC の話"),
        ("春 SUMMER 秋", "春 SUMMER 秋"),
        ("москва", "москва"),
        ("\u201cthe end\u201d", "\u201cThe End\u201d"),
    ],
)
def test_title_case(title: str, expected: str) -> None:
    assert file_name(parts(title=title)) == f"Jane Doe - [No Sub] ABC-123 {expected}.mp4"


# --- the limit ----------------------------------------------------------------------------------


def test_the_title_is_cut_at_a_near_word_boundary() -> None:
    name = file_name(parts(title="One Two Three Four Five Six Seven", part=2), max_bytes=60)
    assert name == "Jane Doe - [No Sub] ABC-123 One Two Three Four - cd2.mp4"


def test_a_cut_leaves_no_dangling_punctuation() -> None:
    name = file_name(parts(title="Red Green Blue Grey, - Yellow and More"), max_bytes=55)
    assert name == "Jane Doe - [No Sub] ABC-123 Red Green Blue Grey.mp4"


def test_a_title_without_near_boundary_is_cut_at_a_character() -> None:
    name = file_name(parts(title="花" * 100), max_bytes=60)
    assert name == f"Jane Doe - [No Sub] ABC-123 {'花' * 9}.mp4"


def test_then_the_performer_is_cut() -> None:
    name = file_name(parts(performer="J" * 500, subtitle="English", part=3), max_bytes=60)
    assert name == f"{'J' * 30} - [English] ABC-123 - cd3.mp4"
    assert size(name) == 60


@pytest.mark.parametrize("cluster", ["x\u0323\u0307", FAMILY, BOWING, "\u0e01\u0e34\u0e48"])
@pytest.mark.parametrize("max_bytes", range(60, 90))
def test_what_a_reader_sees_as_one_character_is_not_split(cluster: str, max_bytes: int) -> None:
    # The first letter is in front because title case would touch a Latin cluster.
    name = file_name(parts(title="花" + cluster * 50), max_bytes=max_bytes)
    title = name.removeprefix("Jane Doe - [No Sub] ABC-123 花").removesuffix(".mp4")
    whole = unicodedata.normalize("NFC", cluster)
    assert title == whole * (len(title) // len(whole))


def test_no_room_for_the_fixed_parts_is_refused_not_cut() -> None:
    with pytest.raises(ValueError, match="60 bytes are too few"):
        file_name(parts(code="A" * 60), max_bytes=60)


@pytest.mark.parametrize(
    ("name", "n", "max_bytes", "expected"),
    [
        ("X.mp4", 1, 255, "X (1).mp4"),
        ("Jane - [No Sub] ABC-123 T.mp4", 12, 255, "Jane - [No Sub] ABC-123 T (12).mp4"),
        ("Jane - [No Sub] ABC-123.mp4", 1, 30, "Jan - [No Sub] ABC-123 (1).mp4"),
        ("Jane - [No Sub] ABC-123.mp4", 1, 27, None),
        ("Jane - [No Sub] ABC-123 Long Title.mp4", 1, 36, "Jane - [No Sub] ABC-123 Long (1).mp4"),
        (
            "Jane - [English] ABC-123 A Title - cd1.mp4",
            2,
            44,
            "Jane - [English] ABC-123 A Tit - cd1 (2).mp4",
        ),
        ("a" * 80 + ".mkv", 3, 60, "a" * 52 + " (3).mkv"),
    ],
)
def test_numbered(name: str, n: int, max_bytes: int, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="too few"):
            numbered(name, n, max_bytes=max_bytes)
    else:
        assert numbered(name, n, max_bytes=max_bytes) == expected


def test_numbers_stay_distinct_at_the_limit() -> None:
    name = file_name(parts(title="花 " * 200), max_bytes=143)
    names = {numbered(name, n, max_bytes=143) for n in range(1, 30)}
    assert len(names) == 29
    assert max(map(size, names)) <= 143


@pytest.mark.parametrize(
    ("old_stem", "sidecar", "expected"),
    [
        ("abc", "abc.srt", "New.srt"),
        ("abc", "abc.en.srt", "New.en.srt"),
        ("abc", "abc.zh-Hant.forced.ass", "New.zh-Hant.forced.ass"),
        ("abc", "abc-poster.jpg", "New-poster.jpg"),
        ("abc", "ABC.en.srt", "New.en.srt"),
        ("caf\u00e9", "cafe\u0301.en.srt", "New.en.srt"),
        ("abc [id]", "abc [id].info.json", "New.info.json"),
        ("abc", "other.srt", "New.srt"),
        ("abc", "abc.e\u202en.srt", "New.en.srt"),
        ("abc", "abc." + "x" * 200 + ".srt", "New.srt"),
        ("abc", "abc.nfo. ", "New.nfo"),
    ],
)
def test_sidecar_name(old_stem: str, sidecar: str, expected: str) -> None:
    assert sidecar_name(old_stem, "New.mp4", sidecar) == expected


def test_a_sidecar_keeps_part_number_and_language_at_the_limit() -> None:
    video = numbered(file_name(parts(title="Word " * 50, part=2), max_bytes=100), 1, max_bytes=100)
    name = sidecar_name("abc", video, "abc.en.srt", max_bytes=100)
    assert name.endswith(" - cd2 (1).en.srt")
    assert size(name) <= 100


# --- one component ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("   ", ""),
        (".", ""),
        ("..", ""),
        ("/", ""),
        ("\x00", ""),
        ("\u200b\u200e\u2060", ""),
        ("\u3164\u2800", ""),
        ("\u0301\ufe0f", ""),
        ("../../etc", "etc"),
        ("..\\..\\etc", "etc"),
        ("/etc/passwd", "etc-passwd"),
        (".hidden", "hidden"),
        ("a.b.", "a.b"),
        ("a . . ", "a"),
        ("Title: Sub", "Title - Sub"),
        ("Title : Sub", "Title - Sub"),
        ("a:b", "a - b"),
        ("Title:", "Title"),
        ("12:30", "12-30"),
        ("http://x", "http - x"),
        ("AC/DC", "AC-DC"),
        ("a \\ b", "a - b"),
        ('who? "me" <b> *x*', "who me b x"),
        ("a | b", "a b"),
        ("a\t\n b\u3000c\u00a0d", "a b c d"),
        ("a\x07b\x7fc\x85d", "abc d"),
        ("\u202eabc\u202c", "abc"),
        ("a\u2066b\u2069c\ufeff", "abc"),
        ("a\u200bb\u200cc\u200dd", "abcd"),
        ("e\u200b\u0301", "\u00e9"),
        ("e?\u0301", "\u00e9"),
        ("a\ud800b", "ab"),
        ("Cafe\u0301", "Caf\u00e9"),
        (FAMILY, FAMILY),
        (BOWING, BOWING),
        ("x\u200d\U0001f467", "x\U0001f467"),
        ("CON", "CON_"),
        ("con", "con_"),
        ("nul.txt", "nul_.txt"),
        ("NUL.tar.gz", "NUL_.tar.gz"),
        ("COM1", "COM1_"),
        ("LPT\u00b9", "LPT\u00b9_"),
        ("CONIN$", "CONIN$_"),
        ("AUX ", "AUX_"),
        ("CON .txt", "CON_.txt"),
        ("Connie", "Connie"),
        ("COM10", "COM10"),
        ("@eaDir", "@eaDir_"),
        ("#recycle", "#recycle_"),
        ("-rf", "rf"),
        ("日本\uff1a話", "日本\uff1a話"),
    ],
)
def test_sanitise(text: str, expected: str) -> None:
    assert sanitise(text) == expected


@pytest.mark.parametrize(
    ("performer", "expected"),
    [
        ("Jane Doe", "Jane Doe"),
        (None, "Unknown"),
        ("", "Unknown"),
        ("..", "Unknown"),
        ("???", "Unknown"),
        ("../../etc", "etc"),
        ("Aux", "Aux_"),
        ("x" * 5000, "x" * 143),
        ("花" * 5000, "花" * 47),
        ("COM1" + "-" * 300 + "x", "COM1_"),
        ("a" + "\u0301" * 5000, "Unknown"),
        ("x" * 130 + " " + "y" * 50, "x" * 130),
    ],
)
def test_folder_name(performer: str | None, expected: str) -> None:
    assert folder_name(performer, max_bytes=143) == expected


# --- one performer, one folder ------------------------------------------------------------------

ALIASES = {name_key("J. Doe"): "Jane Doe", name_key("花子"): "Hanako Example"}


@pytest.mark.parametrize(
    ("performer", "existing", "expected"),
    [
        ("Jane Doe", [], "Jane Doe"),
        ("Jane Doe", ["Mary Roe"], "Jane Doe"),
        ("Jane Doe", ["Jane Doe"], "Jane Doe"),
        ("jane doe", ["Jane Doe"], "Jane Doe"),
        ("Jane  Doe", ["JANE DOE"], "JANE DOE"),
        ("Jane Doe", ["Jane  Doe "], "Jane  Doe "),
        ("Jane Doe", ["JANE DOE", "Jane Doe", "jane doe"], "Jane Doe"),
        ("jAnE dOe", ["jane doe", "Jane Doe"], "Jane Doe"),
        ("Zo\u00eb Hill", [DECOMPOSED_ZOE], DECOMPOSED_ZOE),
        (DECOMPOSED_ZOE, ["zo\u00eb hill", DECOMPOSED_ZOE], DECOMPOSED_ZOE),
        (DECOMPOSED_ZOE, [DECOMPOSED_ZOE, "Zo\u00eb Hill"], "Zo\u00eb Hill"),
        ("\uff2aane Doe", ["Jane Doe"], "Jane Doe"),
        ("Jane D.", ["Jane D."], "Jane D."),
        ("J. Doe", [], "Jane Doe"),
        ("j.  doe", ["JANE DOE"], "JANE DOE"),
        ("J. Doe", ["J. Doe", "jane doe"], "jane doe"),
        ("J. Doe", ["J. Doe"], "J. Doe"),
        ("花子", ["Hanako Example", "花子"], "Hanako Example"),
        (None, ["unknown"], "unknown"),
        (None, ["-", "..."], "Unknown"),
        (".hidden", [".hidden"], "hidden"),
        ("@eaDir", ["@eaDir"], "@eaDir_"),
        ("Jane", ["Jane\udcff"], "Jane"),
        ("../Jane", ["../Jane", "Jane"], "Jane"),
    ],
)
def test_choose_folder(performer: str | None, existing: list[str], expected: str) -> None:
    for order in itertools.permutations(existing):
        assert choose_folder(performer, order, ALIASES) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Jane Doe", "jane  doe ", True),
        ("Zo\u00eb", "Zoe\u0308", True),
        ("Stra\u00dfe", "STRASSE", True),
        ("\uff2aane", "Jane", True),
        ("Ja\u200bne", "Jane", True),
        ("Jane", "Janet", False),
        ("Zo\u00eb", "Zoe", False),
        ("JaneDoe", "Jane Doe", False),
    ],
)
def test_same_name(one: str, other: str, same: bool) -> None:
    assert same_name(one, other) is same


def test_parse_aliases() -> None:
    text = '\ufeff# people\n"Jane Doe" = ["J. Doe", "JANE  D", "jane doe"]\nMary = []\n'
    assert parse_aliases(text) == {
        "jane doe": "Jane Doe",
        "j. doe": "Jane Doe",
        "jane d": "Jane Doe",
        "mary": "Mary",
    }
    assert parse_aliases("") == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('"Jane Doe" = "J. Doe"', "'Jane Doe'"),
        ('"Jane Doe" = ["J. Doe", 3]', "'Jane Doe'"),
        ('"Jane Doe" = [""]', "'Jane Doe'"),
        ('[people]\n"Jane Doe" = ["J. Doe"]', "'people'"),
        ('Jane.Doe = ["J. Doe"]', "'Jane'"),
        ('"Jane Doe" = ["J. Doe"]\n"Mary" = ["j.  doe"]', "'j.  doe'"),
        ('"Jane Doe" = ["Mary"]\n"Mary" = []', "'Mary'"),
        ('"Jane Doe" = []\n"JANE DOE" = []', "'JANE DOE'"),
        ('"Jane Doe" = [J. Doe]\n', "Jane Doe"),
        ('"Mary" = []\n"Jane Doe" = ["J. Doe"\n', "Jane Doe"),
        ('"Jane Doe" = []\n"Jane Doe" = []\nMary = []\n', "Jane Doe"),
        ("Jane Doe = []", "Jane Doe"),
        ("jane = " + "[" * 5000, "jane"),
    ],
)
def test_bad_aliases_name_the_key_in_one_sentence(text: str, named: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_aliases(text)
    message = str(caught.value)
    assert named in message
    assert "\n" not in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Jane Doe", ("Jane Doe",)),
        ("Jane Doe, Mary Roe", ("Jane Doe", "Mary Roe")),
        ("Jane Doe (Jane D., J. Doe)", ("Jane Doe",)),
        ("Jane Doe (Jane D., J. Doe), Mary Roe", ("Jane Doe", "Mary Roe")),
        (["Jane Doe (Jane D., J. Doe)", "Mary Roe"], ("Jane Doe", "Mary Roe")),
        (["Jane Doe, Mary Roe"], ("Jane Doe", "Mary Roe")),
        (("Jane", "Mary"), ("Jane", "Mary")),
        ({"0": "Jane", "2": "Mary"}, ("Jane", "Mary")),
        ("Jane (a (b, c), d), Mary", ("Jane", "Mary")),
        ("Jane [a, b] (c)", ("Jane",)),
        ("Jane (J, D) Doe", ("Jane (J, D) Doe",)),
        ("Jane (J, Mary", ("Jane (J", "Mary")),
        ("(Jane)", ("(Jane)",)),
        ("花子\uff08はな\u3001子\uff09\u3001太郎", ("花子", "太郎")),
        (["Jane", "JANE ", "Mary", "jane"], ("Jane", "Mary")),
        (["", "  ", None, 3, {"name": "x"}, "-", "Jane"], ("Jane",)),
        (",,Jane,,", ("Jane",)),
        ("Ja\u200bne\x00", ("Jane",)),
        ([], ()),
        ({}, ()),
        ("", ()),
        (None, ()),
        (7, ()),
        (True, ()),
    ],
)
def test_split_performers(value: object, expected: tuple[str, ...]) -> None:
    assert split_performers(value) == expected


# --- whatever is thrown at it -------------------------------------------------------------------

HOSTILE = [
    "../../etc",
    "/",
    "",
    "   ",
    "CON",
    "\x00",
    "x" * 5000,
    "花" * 5000,
    "Mc" * 2500,
    "a" + "\u0301" * 5000,
    "\u202egpj.exe",
    "\ud800\udfff",
    "[" * 300,
    " - [No Sub] X",
    ".",
    "..",
    "...",
    "-",
    "@eaDir",
    ".nfs0001",
    "a\nb",
    FAMILY * 100,
    "(" * 5000 + ")" * 5000,
]
ANY_TEXT = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(), max_size=60),
    # Any character at all, and often the ones that matter.
    st.text(
        st.sampled_from("aZ9 .,-_/\\:?[]()\x00\t\u0301\u200d\u202e\ud800花\U0001f469"), max_size=400
    ),
)
CODES = st.from_regex(r"[A-Z0-9]{2,6}-[0-9]{2,7}", fullmatch=True)
EXTENSIONS = st.sampled_from(["mp4", "mkv", "avi", "MP4", "m2ts", "webm"])
LIMITS = st.integers(60, 255)
exhaustive = settings(derandomize=True, deadline=None, max_examples=400)


def assert_safe(name: str, max_bytes: int) -> None:
    assert name
    assert size(name) <= max_bytes
    assert "/" not in name and "\\" not in name and "\0" not in name
    assert not name.startswith((".", " "))
    assert not name.endswith((".", " "))
    assert not any(unicodedata.category(ch) == "Cc" for ch in name)
    assert unicodedata.normalize("NFC", name) == name


@exhaustive
@given(ANY_TEXT, ANY_TEXT, CODES, EXTENSIONS, LIMITS, st.none() | st.integers(1, 99))
def test_any_text_gives_one_safe_file_name(
    performer: str, title: str, code: str, extension: str, max_bytes: int, part: int | None
) -> None:
    given_parts = parts(performer=performer, title=title, code=code, extension=extension, part=part)
    name = file_name(given_parts, max_bytes=max_bytes)
    tail = (f" - cd{part}" if part else "") + f".{extension}"
    assert_safe(name, max_bytes)
    assert f" - [No Sub] {code}" in name
    assert name.endswith(tail)


@exhaustive
@given(ANY_TEXT, ANY_TEXT, CODES, EXTENSIONS, LIMITS, st.integers(1, 999))
def test_numbers_and_sidecars_of_any_name_are_safe(
    performer: str, title: str, code: str, extension: str, max_bytes: int, n: int
) -> None:
    given_parts = parts(performer=performer, title=title, code=code, extension=extension, part=1)
    name = numbered(file_name(given_parts, max_bytes=max_bytes), n, max_bytes=max_bytes)
    assert_safe(name, max_bytes)
    assert f" - [No Sub] {code}" in name
    assert name.endswith(f" - cd1 ({n}).{extension}")
    sidecar = sidecar_name("old", name, "old.en.srt", max_bytes=max_bytes)
    assert_safe(sidecar, max_bytes)
    assert f" - [No Sub] {code}" in sidecar
    assert sidecar.endswith(f" - cd1 ({n}).en.srt")


@exhaustive
@given(ANY_TEXT, st.lists(ANY_TEXT, max_size=4), LIMITS)
def test_any_text_gives_one_safe_folder(
    performer: str, existing: list[str], max_bytes: int
) -> None:
    assert_safe(folder_name(performer, max_bytes=max_bytes), max_bytes)
    chosen = choose_folder(performer, existing, {}, max_bytes=max_bytes)
    assert "/" not in chosen and "\0" not in chosen and not chosen.startswith(".")
    assert chosen.encode()
    assert chosen in existing or chosen == folder_name(performer, max_bytes=max_bytes)
    assert choose_folder(performer, [chosen], {}, max_bytes=max_bytes) == chosen


@exhaustive
@given(ANY_TEXT)
def test_sanitise_and_key_are_idempotent(text: str) -> None:
    once = sanitise(text)
    assert sanitise(once) == once
    if once:
        assert_safe(once, sys.maxsize)
    assert name_key(name_key(text)) == name_key(text)


@exhaustive
@given(st.recursive(st.none() | st.integers() | ANY_TEXT, st.lists, max_leaves=5))
def test_any_value_gives_distinct_usable_performers(value: object) -> None:
    performers = split_performers(value)
    assert len({name_key(performer) for performer in performers}) == len(performers)
    assert all(sanitise(performer) for performer in performers)


@exhaustive
@given(ANY_TEXT)
def test_any_alias_text_is_parsed_or_refused(text: str) -> None:
    for source in (text, f'"{text}" = ["{text}"]'):
        try:
            aliases = parse_aliases(source)
        except ValueError as error:
            assert "\n" not in str(error)
        else:
            assert all(key == name_key(key) for key in aliases)


def test_importing_costs_no_third_party_package() -> None:
    script = (
        "import sys, embyproc.naming;"
        "print({'titlecase', 'tomllib', 'pathvalidate', 'requests'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
