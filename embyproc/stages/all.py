"""run: scan, process, emby and retry in one process - one interpreter start a minute."""

import time
from collections.abc import Callable, Mapping

from embyproc.errors import DatabaseUnusable, EmbyprocError
from embyproc.stages.runner import Run


def run(run: Run, stages: Mapping[str, Callable[[Run], None]]) -> list[EmbyprocError]:
    """Run the stages one after the other; a stage that cannot work does not stop the others.

    Each may claim for a part of the time even if those before it have used up all. Returns what
    they raised; a database that is gone ends the run at once, a fault of the program
    is raised at the end.
    """
    errors: list[EmbyprocError] = []
    faults: list[Exception] = []
    for stage in stages.values():
        if run.stopping.is_set():
            break
        # A first import fills hours with copying: what is filed is shown meanwhile all the same.
        share = run.options.max_runtime / len(stages)
        run.deadline = max(run.deadline, time.monotonic() + share)
        try:
            stage(run)
        except DatabaseUnusable:
            raise
        except EmbyprocError as error:
            errors.append(error)
        except Exception as error:
            faults.append(error)
    if faults:
        raise faults[0]
    return errors
