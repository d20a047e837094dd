"""extract: the table of names, the keys to look up, and what holds for any text at all."""

import re

import pytest
from extract_cases import CASES, FACTS, Case
from hypothesis import given, settings
from hypothesis import strategies as st

from embyproc.extract import Extraction, extract

CODE = re.compile(r"[A-Z0-9]+(?:[-_][A-Z0-9]+)*")
SUBTITLES = {None, "English Sub", "Chinese Sub", "Korean Sub", "Japanese Sub"}


def case_id(case: Case) -> str:
    name, parent, siblings, *_ = case
    return "/".join(filter(None, (parent, name))) + (f" beside {len(siblings)}" if siblings else "")


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_table(case: Case) -> None:
    name, parent, siblings, code, part, subtitle = case
    found = extract(name, parent=parent, siblings=siblings)
    assert (found.code, found.part, found.subtitle) == (code, part, subtitle)


def test_the_table_is_large_enough() -> None:
    assert len(FACTS) == 41
    assert len(set(CASES) - set(FACTS)) >= 170
    assert len(set(CASES)) == len(CASES)


@pytest.mark.parametrize(
    ("name", "marker"),
    [
        ("SONE-760 English subbed The same commute.mp4", "English subbed"),
        ("@蜂鳥@FENGNIAO131.VIP-STARS-308_2K-C.mp4", "C"),
        ("rctd-460ch.mp4", "ch"),
        ("FNS-222-UC.mp4", "UC"),
        ("FSDSS-070-C-流出.mp4", "C"),
        ("MIDV-123-UC-CD1-4K.mp4", "UC"),
        ("QUIN-101_CH.mp4", "CH"),
        ("[中文字幕]QUIN-101.mp4", "中文字幕"),
        ("QUIN-101 kor sub.mp4", "kor sub"),
        ("QUIN-101.mp4", None),
    ],
)
def test_marker_is_the_text_that_decided(name: str, marker: str | None) -> None:
    assert extract(name).marker == marker


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("QUIN-101.mp4", ("QUIN-101",)),
        ("300MIUM-123.mp4", ("300MIUM-123", "MIUM-123")),
        ("348ntr_001.mp4", ("348NTR-001", "NTR-001")),
        ("145DVS000024.mp4", ("DVS-024",)),
        ("h_1472smkcx003.mp4", ("SMKCX-003",)),
        ("QUIN-00101.mp4", ("QUIN-101", "QUIN-00101")),
        ("IBW-398z.avi", ("IBW-398Z",)),
        (
            "fc2ppv1234567.mp4",
            ("FC2-PPV-1234567", "FC2-1234567", "FC2PPV-1234567", "FC2PPV1234567"),
        ),
        ("heyzo-123.mp4", ("HEYZO-123", "HEYZO-0123")),
        ("HEYZO-1380.mp4", ("HEYZO-1380",)),
        ("062620-001.mp4", ("062620-001",)),
        ("062620_001.mp4", ("062620_001",)),
        ("video1080.mp4", ()),
    ],
)
def test_lookup_keys(name: str, keys: tuple[str, ...]) -> None:
    assert extract(name).lookup_keys == keys


def test_lookup_keys_of_a_fifth_part_lose_the_letter() -> None:
    found = extract("300mium-123e.avi", siblings=["300mium-123a.avi", "300mium-123b.avi"])
    assert found.lookup_keys == ("300MIUM-123", "MIUM-123")
    assert found.part == 5


@pytest.mark.parametrize(
    ("name", "parent", "rule"),
    [
        ("QUIN-101.mp4", "", "standard"),
        ("300MIUM-123.mp4", "", "numeric label"),
        ("118quin00101.mp4", "", "content id"),
        ("FC2-PPV-1234567.mp4", "", "fc2"),
        ("heyzo_hd_1380_full.mp4", "", "heyzo"),
        ("heydouga-4030-962.mp4", "", "heydouga"),
        ("H0930_ori1561.mp4", "", "h4610"),
        ("kin8-1234.mp4", "", "kin8"),
        ("MKBD-S120.mp4", "", "s number"),
        ("062620-001.mp4", "", "date"),
        ("100409-LIMU.mp4", "", "date and name"),
        ("n1234.mp4", "", "tokyo"),
        ("Unknown.mp4", "QUIN-101", "parent folder"),
        ("Unknown.mp4", "", "none"),
    ],
)
def test_rule(name: str, parent: str, rule: str) -> None:
    assert extract(name, parent=parent).rule == rule


def test_siblings_may_be_any_iterable_and_include_the_name() -> None:
    names = ["QUIN-101-1.mp4", "QUIN-101-2.mp4"]
    assert extract("QUIN-101-1.mp4", siblings=iter(names)).part == 1


def assert_sane(found: Extraction) -> None:
    if found.code is None:
        assert (found.lookup_keys, found.part, found.rule) == ((), None, "none")
    else:
        assert 1 <= len(found.code) <= 20
        assert found.lookup_keys[0] == found.code
        assert len(set(found.lookup_keys)) == len(found.lookup_keys)
        assert all(CODE.fullmatch(key) for key in found.lookup_keys)
        assert found.rule != "none"
    assert found.part is None or 1 <= found.part <= 99
    assert found.subtitle in SUBTITLES
    assert (found.marker is None) == (found.subtitle is None)


# Random text seldom holds a code: most names are made of the pieces that the rules look for.
PIECES = """
    A B C D E Z c e n k z 0 1 2 3 4 5 6 7 8 9 - _ . @ [ ] ( ) ~ & + QUIN quin SONE-760 300MIUM
    h_1472 fc2 ppv heyzo carib tokyo-hot 062620 001 00123 000024 1234567 2024 1080p x264
    abc888.com FHD cd1 part -A -B -C UC ch sub english 字幕 無 ① ß \u017f \u212a \u0130 \u0131
    \uff11\uff12\uff13 heydouga h4610 kin8 th101 mkbd-s xxx-av .mp4
"""
NAMES = st.one_of(
    st.text(st.characters(), max_size=80),
    st.lists(st.sampled_from([" ", *PIECES.split()]), max_size=12).map("".join),
)


@settings(derandomize=True, deadline=None, max_examples=1500)
@given(name=NAMES, parent=NAMES, siblings=st.lists(NAMES, max_size=4))
def test_any_text_gives_a_sane_answer(name: str, parent: str, siblings: list[str]) -> None:
    found = extract(name, parent=parent, siblings=siblings)
    assert_sane(found)
    assert extract(name, parent=parent, siblings=siblings) == found


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    label=st.sampled_from(["QUIN", "ZEDA", "KLMNO", "QN"]),
    number=st.integers(min_value=100, max_value=1899).filter(lambda n: n not in (1080, 1440)),
    before=st.sampled_from(["", "[1080p] ", "abc888.com@", "静かな朝 ", "(2024-05-01)"]),
    after=st.sampled_from(
        ["", "-C", " Quiet Morning", "_1080p_x265", ".cd1", "静かな朝", "-UC-4K"]
    ),
)
def test_a_dashed_code_survives_its_surroundings(
    label: str, number: int, before: str, after: str
) -> None:
    assert extract(f"{before}{label}-{number}{after}.mp4").code == f"{label}-{number}"


HOSTILE = (
    *("a-1", "@", "[", "(", "]", "-", "_", ".", " ", "1", "0", "a", "a.", "1 ", "A1-", "[a.", "a@"),
    *("QUIN-101 ", "QUIN-101@", "quin101", "fc2-", "heyzo_", "062620-", "part 1 ", "sub ", "-C"),
    *("english ", "字幕", "無字幕", "①", "ﷺ", "\u0301", "\u200b", "\ud800", "\x00", "【", "2024-"),
)


@pytest.mark.parametrize("piece", HOSTILE, ids=ascii)
def test_long_hostile_names_are_answered(piece: str) -> None:
    name = (piece * 5000)[:5000]
    assert_sane(extract(name + ".mp4", parent=name, siblings=[name, name + "1.mp4"]))
    assert_sane(extract(f"{name}QUIN-101{name}.mp4"))
