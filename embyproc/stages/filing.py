"""Where an item's file belongs, and bringing it there: plan first, then act."""

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from embyproc import naming
from embyproc.config import Config
from embyproc.errors import ConfigError, FileTrouble, SourceMissing
from embyproc.extract import Extraction
from embyproc.files.move import (
    Mover,
    is_one_file,
    remove_if_published,
    rename_without_overwriting,
    same_content,
    trouble,
)
from embyproc.files.place import (
    is_missing,
    make_folder,
    name_limit,
    names_in,
    remove_leftovers,
    remove_reservation,
    temporary_name,
)
from embyproc.files.walk import folder_identity
from embyproc.models import Item, Metadata, Planned
from embyproc.stages.mounts import refuse_one_folder, refuse_unmounted
from embyproc.stages.runner import Run
from embyproc.watching import match_sidecars, split_ending

DUPLICATES = ".embyproc-duplicates"
NO_SUB = "No Sub"
_MOST_COPIES = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class Filing:
    """A plan: where the file goes, or which identical file is there already."""

    item: Item
    planned: Planned
    is_duplicate: bool


def read_aliases(config: Config) -> dict[str, str]:
    """The performers' aliases; raises ConfigError naming what is wrong with the file."""
    if config.aliases_file is None:
        return {}
    try:
        return naming.parse_aliases(config.aliases_file.read_text(encoding="utf-8"))
    except OSError as error:
        problem = f"{str(config.aliases_file)!r} cannot be read: {error.strerror}"
    except ValueError as error:
        problem = f"{str(config.aliases_file)!r}: {error}"
    raise ConfigError([f"ALIASES_FILE: {problem}"])


class Cabinet:
    """The destination as a run sees it; its folders are listed once."""

    def __init__(self, run: Run) -> None:
        config = run.config
        assert config.destination_dir is not None
        self._run = run
        self._root = str(config.destination_dir)
        self._aliases = read_aliases(config)
        refuse_one_folder(config)
        # Filing into the empty folder below an unmounted volume would fill the wrong disk.
        identity = folder_identity(self._root, "DESTINATION_DIR")
        self._folders = set(names_in(self._root))
        refuse_unmounted(run.store, "DESTINATION_DIR", self._root, identity, len(self._folders))
        self._max_bytes = name_limit(self._root)
        # Names planned by this run that may not be on the disk yet.
        self._reserved: dict[str, int] = {}
        self.mover = Mover(should_stop=run.stopping.is_set, progress=run.progress)

    def remember(self) -> None:
        """So that a later run can tell whether the volume is mounted."""
        identity = folder_identity(self._root, "DESTINATION_DIR")
        self._run.store.folders.remember(self._root, identity, len(self._folders))

    # -- planning --------------------------------------------------------------------------

    def plan(
        self, item: Item, extraction: Extraction, metadata: Metadata, known: Iterable[Item]
    ) -> Filing:
        """Choose folder and name. `known` are the items of the same work: once a performer was
        chosen for it, a changed order of names does not split it over two folders."""
        assert extraction.code is not None
        performer = _performer(metadata, known)
        folder = naming.choose_folder(
            performer, self._folders, self._aliases, max_bytes=self._max_bytes
        )
        self._folders.add(folder)
        extension = split_ending(item.file_path)[1].lower()
        room = max(0, self._longest_suffix(item.file_path) - len(extension))
        try:
            name = naming.file_name(
                naming.NameParts(
                    performer=folder if performer else None,
                    subtitle=extraction.subtitle,
                    code=extraction.code,
                    title=metadata.title,
                    part=extraction.part,
                    extension=extension,
                ),
                max_bytes=self._max_bytes - room,
            )
            target, is_duplicate = self._free_name(item, os.path.join(self._root, folder), name)
        except ValueError as error:
            raise FileTrouble(
                f"File error: no name can be made for {item.file_path}: {error}"
            ) from error
        self._reserved[target] = item.id
        planned = Planned(
            id=item.id,
            planned_path=target,
            movie_code=extraction.code,
            actress=folder[:255],
            subtitle=extraction.subtitle or NO_SUB,
            part=extraction.part,
            metadata_json=dict(metadata.raw),
        )
        return Filing(item=item, planned=planned, is_duplicate=is_duplicate)

    def _free_name(self, item: Item, folder: str, name: str) -> tuple[str, bool]:
        """The first of `X`, `X (1)` ... that is free, or that already is this very file."""
        for number in range(_MOST_COPIES):
            candidate = naming.numbered(name, number, max_bytes=self._max_bytes) if number else name
            target = os.path.join(folder, candidate)
            if self._reserved.get(target, item.id) != item.id:
                continue
            if not os.path.lexists(target):
                return target, False
            try:
                if os.path.isfile(target) and same_content(item.file_path, target):
                    return target, True
            except OSError as error:
                raise trouble(error, item.file_path) from error
        raise FileTrouble(f"File error: {name} and {_MOST_COPIES} copies of it exist in {folder}")

    # -- acting ----------------------------------------------------------------------------

    def file(self, filing: Filing) -> str:
        """Carry the recorded plan out; returns a sentence for the timeline.

        Raises FileExistsError if the name was taken meanwhile: plan again.
        """
        item, target = filing.item, filing.planned.planned_path
        if filing.is_duplicate:
            return self._keep(item, target)
        folder = os.path.dirname(target)
        make_folder(folder)
        copied = self.mover.move(
            item.file_path,
            target,
            os.path.join(folder, temporary_name(item.id, self._run.id)),
            lambda: self._may_publish(item),
        )
        self.take_sidecars(item, target)
        return f"copied {copied:,} bytes" if copied else "renamed"

    def _may_publish(self, item: Item) -> bool:
        return self._run.heartbeat.alive and self._run.store.queue.is_still_mine(
            self._run.id, item.id
        )

    def _keep(self, item: Item, target: str) -> str:
        """The file is where it belongs already; a second copy of it is set aside."""
        try:
            if is_one_file(item.file_path, target):
                return "the file itself is there already, by another way"
        except OSError as error:
            raise trouble(error, item.file_path) from error
        beside = os.path.dirname(item.file_path)
        try:
            try:
                self._set_aside(item, str(self._run.config.watch_dir or beside))
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._set_aside(item, beside)  # another volume, mounted below the watch folder
        except OSError as error:
            raise trouble(error, item.file_path) from error
        return "an identical file was there already; this one is in " + DUPLICATES

    def _set_aside(self, item: Item, place: str) -> None:
        """A duplicate is never deleted: it goes to a hidden folder."""
        folder = os.path.join(place, DUPLICATES)
        os.makedirs(folder, exist_ok=True)
        for number in range(_MOST_COPIES):
            name = os.path.basename(item.file_path)
            name = naming.numbered(name, number) if number else name
            with suppress(FileExistsError):
                rename_without_overwriting(item.file_path, os.path.join(folder, name))
                return
        raise FileTrouble(f"File error: too many duplicates of {item.file_path} in {folder}")

    # -- after a crash ---------------------------------------------------------------------

    def already_filed(self, item: Item) -> str | None:
        """Where the item's file is, if an earlier run got that far; finishes what it left.

        The source is removed only where it is byte for byte what is published.
        """
        candidates = [path for path in (item.new_path, item.planned_path) if path]
        if item.planned_path:
            remove_leftovers(os.path.dirname(item.planned_path), item.id)
            remove_reservation(item.planned_path, item.file_path)
        try:
            for path in candidates:
                if not os.path.isfile(path):
                    continue
                if is_missing(item.file_path):
                    if path == item.new_path or item.size in (None, os.path.getsize(path)):
                        self.take_sidecars(item, path)
                        return path
                elif remove_if_published(item.file_path, path):
                    self.take_sidecars(item, path)
                    return path
                elif path == item.new_path:
                    return path  # another film came under the old name: its turn comes after this
        except OSError as error:
            raise trouble(error, item.file_path) from error
        if is_missing(item.file_path):
            raise SourceMissing(
                f"Source file missing: {item.file_path}; it is queued again when it is back"
            )
        return None

    # -- what travels along ----------------------------------------------------------------

    def take_sidecars(self, item: Item, target: str) -> None:
        """Subtitles and the like go along; one that cannot stays where it was."""
        folder, stem = os.path.dirname(item.file_path), _stem(item.file_path)
        place = os.path.dirname(target)
        temporary = os.path.join(place, temporary_name(item.id, self._run.id))
        for name in self._sidecars(item.file_path):
            source = os.path.join(folder, name)
            try:
                new_name = naming.sidecar_name(
                    stem, os.path.basename(target), name, max_bytes=self._max_bytes
                )
                published = os.path.join(place, new_name)
                self.mover.move(source, published, temporary, lambda: self._may_publish(item))
            except FileExistsError:
                # A run that died has published it, or it is another one.
                if not self._is_published(source, published):
                    self._stays(item, name, "the name is taken")
            except (FileTrouble, SourceMissing, ValueError) as error:
                self._stays(item, name, error)

    def _is_published(self, source: str, published: str) -> bool:
        try:
            return os.path.isfile(published) and remove_if_published(source, published)
        except OSError:
            return False

    def _stays(self, item: Item, name: str, reason: object) -> None:
        problem = f"item {item.id}: {name} stays where it was: {reason}"
        self._run.summary.problems.append(problem)

    def _sidecars(self, path: str) -> list[str]:
        """The names that belong to this film, and not to one beside it with a longer name."""
        stem, extensions = _stem(path), self._run.config.video_extensions
        try:
            names = [name for name in names_in(os.path.dirname(path)) if name.startswith(stem)]
        except FileTrouble:
            return []
        endings = [split_ending(name) for name in names]
        films = {start for start, ending in endings if ending.lower() in extensions}
        return match_sidecars(films | {stem}, names).get(stem, [])

    def _longest_suffix(self, path: str) -> int:
        """Room that the film's name must leave, so that its subtitles can have it too."""
        stem = _stem(path)
        suffixes = (
            naming.sidecar_suffix(stem, name, max_bytes=self._max_bytes)
            for name in self._sidecars(path)
        )
        return max((len(os.fsencode(suffix)) for suffix in suffixes), default=0)


def _performer(metadata: Metadata, known: Iterable[Item]) -> str | None:
    if not metadata.performers:
        return None
    for item in known:
        for performer in metadata.performers:
            if item.actress and naming.same_name(item.actress, naming.folder_name(performer)):
                return performer
    return metadata.performers[0]


def _stem(path: str) -> str:
    return split_ending(os.path.basename(path))[0]
