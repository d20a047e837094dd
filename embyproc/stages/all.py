"""run: scan, process, emby and retry in one process - one interpreter start a minute."""

from collections.abc import Callable, Mapping

from embyproc.errors import ConfigError, DatabaseUnusable, EmbyprocError
from embyproc.stages.runner import Run


def run(run: Run, stages: Mapping[str, Callable[[Run], None]]) -> list[EmbyprocError]:
    """Run the stages one after the other; a stage that cannot work does not stop the others.

    Returns what they raised; a database that is gone ends the run at once.
    """
    errors: list[EmbyprocError] = []
    for stage in stages.values():
        if run.stopping.is_set():
            break
        try:
            stage(run)
        except DatabaseUnusable:
            raise
        except ConfigError as error:
            errors.append(error)
    return errors
