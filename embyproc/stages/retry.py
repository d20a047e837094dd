"""retry: errors whose time has come are queued again; queue and disk are made to agree."""

from embyproc.config import Config
from embyproc.models import RunSummary
from embyproc.stages.runner import Options, Run
from embyproc.store import Store


def run(run: Run) -> None:
    ids = run.store.upkeep.retry_due(run.config.max_retries, run.options.item_limit)
    _tell(run.summary, ids)
    if ids:
        run.store.upkeep.trim_timelines(ids)
    if run.store.looks.needs_reconciling():
        from embyproc.stages.reconcile import reconcile  # most runs have nothing to put right

        reconcile(run)
    run.store.runs.prune()


def plan(store: Store, config: Config, options: Options) -> RunSummary:
    """What `run` would do now; changes nothing."""
    summary = RunSummary(command="retry")
    _tell(summary, store.looks.due(config.max_retries, options.item_limit))
    return summary


def _tell(summary: RunSummary, ids: list[int]) -> None:
    # Added to what the stages before it have counted: `run` has one summary for all.
    summary.claimed += len(ids)
    summary.succeeded += len(ids)
    summary.items += [{"id": item_id, "status": "pending"} for item_id in ids]
