"""Emby as a run sees it: where it is, what it calls our files, whether it is well or busy."""

from embyproc import policy
from embyproc.clients.emby import Emby
from embyproc.config import Config
from embyproc.errors import EmbyRefused, ServiceDown
from embyproc.models import Item
from embyproc.presenting import translated
from embyproc.stages.runner import Run

_SERVICE = "emby"


def make_client(config: Config) -> Emby:
    assert config.emby_base_url is not None
    assert config.emby_api_key is not None
    return Emby(config.emby_base_url, config.emby_api_key, config.emby_user_id)


def root_in_emby(config: Config) -> str:
    """DESTINATION_DIR as Emby calls it."""
    return (config.emby_library_path or str(config.destination_dir)).rstrip("/") or "/"


def path_in_emby(config: Config, item: Item) -> str:
    """The item's file as Emby calls it."""
    return translated(item.new_path or "", str(config.destination_dir), root_in_emby(config))


class EmbyServer:
    """The server and what is in the books about its outages."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.client = make_client(run.config)
        self.is_down = False
        # Whether an earlier run has noted an outage.
        self._is_remembered = False

    def is_reachable(self) -> bool:
        """Asked before anything is claimed: an outage burns nobody's retries."""
        services, now = self._run.store.services, self._run.store.clock.now()
        state = services.states().get(_SERVICE)
        self._is_remembered = state is not None
        if state is not None and state.open_until is not None and state.open_until > now:
            self._run.summary.problems.append(policy.left_alone(state))
            return False
        try:
            self.client.connect()
            self.client.user_id()
        except (ServiceDown, EmbyRefused) as error:
            self.went_down(error if isinstance(error, ServiceDown) else ServiceDown(str(error)))
            return False
        return True

    def worked(self) -> None:
        """Said after a batch and not after a greeting: a server that can be read but not written
        to is down, and stays so in the books until somebody is told."""
        if self._is_remembered and not self.is_down:
            self._run.store.services.record_success(_SERVICE)
            self._is_remembered = False

    def went_down(self, error: ServiceDown) -> None:
        if self.is_down:
            return
        self.is_down = True
        services = self._run.store.services
        state = services.states().get(_SERVICE)
        until = policy.outage_until(
            (state.failures if state else 0) + 1,
            self._run.store.clock.now(),
            for_everyone=True,
            retry_after=error.retry_after,
        )
        services.record_failure(_SERVICE, str(error), until)
        self._run.summary.problems.append(f"Emby is unavailable: {error}")

    def is_well_but_for(self, error: ServiceDown) -> bool:
        """Whether Emby stumbled over one request and answers others."""
        if self.is_down or error.retry_after is not None:
            return False
        try:
            self.client.check_key()  # and not `connect`: the workers use what that finds out
        except (ServiceDown, EmbyRefused):
            return False
        return True

    def is_scanning(self) -> bool:
        """Whether our library is being scanned; any of them, where none is known to be ours."""
        folder, root = self._run.config.emby_parent_folder_id, root_in_emby(self._run.config)
        try:
            libraries = self.client.libraries()
        except EmbyRefused as error:
            self._run.narrate(str(error))
            return False
        ours = [one for one in libraries if one.id == folder or one.holds(root)]
        return any(library.is_scanning for library in ours or libraries)

    def may_be_busy(self) -> bool:
        """Whether it scans, or cannot even say so."""
        try:
            return self.is_scanning()
        except ServiceDown:
            return True
