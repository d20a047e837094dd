import json
from typing import Any

import pytest

from embyproc.cleaning import clean
from embyproc.clients.base import Answer


def decoded(body: bytes) -> Any:
    return Answer(status=200, content_type="", body=body, retry_after=None).json()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (rb'{"a": "x\ud800y"}', {"a": "x?y"}),
        (rb'{"\ud83d": 1}', {"?": 1}),
        (rb'["\ud83d\ude00"]', ["\U0001f600"]),
        (b'"\xed\xa0\x80"', "?"),
        (rb'"a\u0000b"', "ab"),
        (rb'"C:\\u0000"', r"C:\u0000"),
        (b"[NaN, Infinity, -Infinity, 1e400, 1.5]", [None, None, None, None, 1.5]),
        (b'{"a": [true, null, 7]}', {"a": [True, None, 7]}),
    ],
)
def test_what_postgresql_would_refuse_is_taken_out(body: bytes, expected: Any) -> None:
    assert decoded(body) == expected
    assert json.loads(json.dumps(decoded(body), allow_nan=False)) == expected


@pytest.mark.parametrize("depth", [60, 970, 100_000])
def test_what_is_nested_beyond_all_sense_is_no_json(depth: int) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decoded(b"[" * depth + b"]" * depth)


def test_tuples_become_lists_and_everything_else_stays() -> None:
    assert clean(("a", 1, b"x")) == ["a", 1, b"x"]
