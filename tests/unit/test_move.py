"""When one path is another file and when it is the same one; what may be removed."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from embyproc.errors import FileTrouble
from embyproc.files import move
from embyproc.files.move import Mover, is_one_file, remove_if_published, rename_without_overwriting


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "library" / "x.mp4"
    path.parent.mkdir()
    path.write_bytes(b"film")
    return path


def test_one_file_by_a_linked_folder_or_by_a_link(film: Path, tmp_path: Path) -> None:
    (tmp_path / "other way").symlink_to(film.parent)
    (tmp_path / "link.mp4").symlink_to(film)
    for path in (tmp_path / "other way" / "x.mp4", tmp_path / "link.mp4"):
        assert is_one_file(str(film), str(path))
        assert remove_if_published(str(path), str(film))
        assert remove_if_published(str(film), str(path))
        assert film.read_bytes() == b"film"


def test_one_name_of_several_links_by_two_ways(film: Path, tmp_path: Path) -> None:
    os.link(film, tmp_path / "another name.mp4")
    (tmp_path / "other way").symlink_to(film.parent)
    assert is_one_file(str(film), str(tmp_path / "other way" / "x.mp4"))
    assert not is_one_file(str(film), str(tmp_path / "another name.mp4"))


def test_a_hard_link_and_a_copy_are_removed(film: Path, tmp_path: Path) -> None:
    link, copy = tmp_path / "link.mp4", tmp_path / "copy.mp4"
    os.link(film, link)
    shutil.copy2(film, copy)
    for path in (link, copy):
        assert remove_if_published(str(path), str(film))
        assert not path.exists()
    assert film.read_bytes() == b"film"


def test_a_share_that_is_mounted_twice(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second mount shows another device, and the times in steps of 100 ns."""
    (tmp_path / "mount").symlink_to(film.parent)
    second = str(tmp_path / "mount" / "x.mp4")
    real = os.stat

    class Elsewhere:
        def __init__(self, found: os.stat_result) -> None:
            self.st_dev, self.st_ino, self.st_nlink = found.st_dev + 1, 7, 1
            self.st_size = found.st_size
            self.st_mtime_ns = found.st_mtime_ns // 100 * 100
            self.st_ctime_ns = found.st_ctime_ns // 100 * 100

    def stat(path: str, **how: bool) -> object:
        return Elsewhere(real(path)) if path == second else real(path, **how)

    with monkeypatch.context() as mounted:
        mounted.setattr(os, "stat", stat)
        assert remove_if_published(second, str(film))
    assert film.exists()


def test_what_was_replaced_while_it_was_compared_stays(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, newer = tmp_path / "x.mp4", tmp_path / "newer.mp4"
    source.write_bytes(b"film")
    newer.write_bytes(b"another film")
    real = move.same_content

    def compare(first: str, second: str) -> bool:
        result = real(first, second)
        newer.replace(source)  # the downloader brings the next one under the same name
        return result

    monkeypatch.setattr(move, "same_content", compare)
    assert not remove_if_published(str(source), str(film))
    assert source.read_bytes() == b"another film"


def test_what_was_replaced_while_its_copy_was_published_stays(
    film: Path, other_file_system: Path
) -> None:
    newer = film.with_name("newer.mp4")
    newer.write_bytes(b"another film")

    def may_publish() -> bool:
        if os.path.exists(temporary):  # not at the attempt to rename
            newer.replace(film)
        return True

    target, temporary = other_file_system / "x.mp4", str(other_file_system / ".part")
    assert Mover().move(str(film), str(target), temporary, may_publish) == 4
    assert target.read_bytes() == b"film"
    assert film.read_bytes() == b"another film"


def test_a_disk_that_becomes_read_only_is_one_clear_sentence(
    film: Path, other_file_system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There even the removal of a name that does not exist is refused."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    target, temporary = str(other_file_system / "x.mp4"), str(other_file_system / ".part")
    with monkeypatch.context() as read_only:
        read_only.setattr(os, "unlink", refuse)
        with pytest.raises(FileTrouble, match="File error: Read-only file system"):
            Mover().move(str(film), target, temporary, lambda: True)
    assert film.read_bytes() == b"film"


def test_no_empty_file_is_left_where_a_name_must_be_reserved(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(move, "_renameat2", unsupported)
    monkeypatch.setattr(os, "link", unsupported)
    target = tmp_path / "target.mp4"
    with monkeypatch.context() as failing:
        failing.setattr(os, "rename", broken)
        with pytest.raises(OSError, match="Input/output error"):
            rename_without_overwriting(str(film), str(target))
    assert not target.exists()
    rename_without_overwriting(str(film), str(target))
    assert target.read_bytes() == b"film"
    film.write_bytes(b"next")
    with pytest.raises(FileExistsError):
        rename_without_overwriting(str(film), str(target))
    assert target.read_bytes() == b"film"
