import pytest

from embyproc.watching import file_reason, folder_reason, held_stem, match_sidecars, path_reason

FILMS = frozenset({".mp4", ".mkv", ".avi", ".wmv"})


@pytest.mark.parametrize(
    "name",
    [
        "ABC-123.mp4",
        "ABC-123.MKV",
        "a [id].mp4",
        "日本語 🎬.mp4",
        "The Sample Case ABC-123.mp4",
        "resampled.mp4",
        "v1.2 final.mp4",
        "f137.mp4",
        "temp.mp4",
        "e\u0301clair.mp4",
        "two\nlines.mp4",
    ],
)
def test_films(name: str) -> None:
    assert file_reason(name, FILMS) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".hidden.mp4", "hidden"),
        ("._ABC-123.mp4", "hidden"),
        (".nfs000123.mp4", "hidden"),
        ("ABC-123.txt", "not a video"),
        ("ABC-123", "not a video"),
        ("ABC-123.ts", "not a video"),
        ("ABC-123.mp4.part", "unfinished"),
        ("ABC-123.mp4.ytdl", "unfinished"),
        ("ABC-123.mp4.part-Frag12", "unfinished"),
        ("ABC-123.mp4.part-Frag12.part", "unfinished"),
        ("ABC-123.f137.mp4", "unfinished"),
        ("ABC-123.f303-drc.mkv", "unfinished"),
        ("ABC-123.temp.mp4", "unfinished"),
        ("ABC-123.mp4.crdownload", "unfinished"),
        ("Unconfirmed 12345.crdownload", "unfinished"),
        ("ABC-123.mp4.!qB", "unfinished"),
        ("ABC-123.mp4.aria2", "unfinished"),
        ("ABC-123.mp4.filepart", "unfinished"),
        ("~syncthing~ABC-123.mp4.tmp", "unfinished"),
        ("~$ABC-123.mp4", "unfinished"),
        ("sample.mp4", "a sample"),
        ("ABC-123-sample.mkv", "a sample"),
        ("Sample ABC-123.mp4", "a sample"),
        ("bad\udcff.mp4", "its name is not UTF-8"),
    ],
)
def test_passed_over(name: str, reason: str) -> None:
    assert file_reason(name, FILMS) == reason


@pytest.mark.parametrize(
    "name",
    [
        "@eaDir",
        "#recycle",
        "@tmp",
        "#snapshot",
        ".Trash-1000",
        "$RECYCLE.BIN",
        "__MACOSX",
        "film.mp4.download",
        "bad\udcff",
    ],
)
def test_folders_not_entered(name: str) -> None:
    assert folder_reason(name) is not None


@pytest.mark.parametrize("name", ["movie.mp4", "ABC-123", "x.temp", "a@b", "#1 hits"])
def test_folders_entered(name: str) -> None:
    assert folder_reason(name) is None


@pytest.mark.parametrize(
    ("temporary", "stem"),
    [
        ("X.mp4.part", "x"),
        ("X.f137.mp4", "x"),
        ("X.f137.mp4.part", "x"),
        ("X.f137.mp4.part-Frag3.part", "x"),
        ("X.temp.mp4", "x"),
        ("X.mp4.aria2", "x"),
        ("My.Film.mp4.ytdl", "my.film"),
        (".X.mp4.AbC123", "x"),
        (".syncthing.X.mp4.tmp", "x"),
        ("~syncthing~X.mp4.tmp", "x"),
    ],
)
def test_which_film_a_temporary_file_holds_back(temporary: str, stem: str) -> None:
    assert held_stem(temporary) == stem


def test_path_reason_looks_at_the_folders_too() -> None:
    assert path_reason("/watch/@eaDir/x.mp4", FILMS) == "in @eaDir: a folder of the system"
    assert path_reason("/watch/a/../b/x.mp4", FILMS) is None
    assert path_reason("", FILMS) == "not a video"


def test_sidecars_belong_to_the_longest_stem() -> None:
    others = ["A.srt", "A.en.srt", "A.B.en.ass", "A-poster.jpg", "A.nfo", "A.txt", "C.srt", ".srt"]
    assert match_sidecars(["A", "A.B"], others) == {
        "A": ["A-poster.jpg", "A.en.srt", "A.nfo", "A.srt"],
        "A.B": ["A.B.en.ass"],
    }
