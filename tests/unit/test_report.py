import io
from datetime import UTC, datetime, timedelta

import pytest

from embyproc.report import Report, age, printable

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = "a[/b] [red]x\n\x1b[31m\u202egp4.\udcff.mp4"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (12, "12"),
        ("plain [id] 日本語", "plain [id] 日本語"),
        ("two\nlines\ttab", "two\\nlines\\ttab"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202egp4.exe", "\\u202egp4.exe"),
        ("bad\udcff", "bad\\xff"),
    ],
)
def test_printable(value: object, shown: str) -> None:
    assert printable(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172800, "2 d")],
)
def test_age(seconds: int, shown: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == shown


def test_age_of_what_never_was_and_of_a_clock_that_went_back() -> None:
    assert age(None, NOW) == "never"
    assert age(NOW + timedelta(hours=1), NOW) == "0 s"


def test_plain_table_is_untruncated_and_safe() -> None:
    out = io.StringIO()
    long_name = "n" * 500
    Report(out).table(("id", "file"), [(1, long_name), (20, HOSTILE)], right=("id",))
    lines = out.getvalue().splitlines()
    assert lines[0] == "id  file"
    assert lines[1] == f" 1  {long_name}"
    assert lines[2] == f"20  {printable(HOSTILE)}"
    out.getvalue().encode("utf-8")


def test_rich_table_keeps_brackets_and_survives_broken_markup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out = io.StringIO()
    Report(out, terminal=True).table(("file",), [(HOSTILE,), ("x [abc123].mp4",)])
    assert "a[/b] [red]x" in out.getvalue()
    assert "x [abc123].mp4" in out.getvalue()


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    Report(out, terminal=True).table(("file",), [("x",)])
    assert "\x1b[3" not in out.getvalue()
