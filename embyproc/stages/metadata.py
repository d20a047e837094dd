"""The metadata sources as a run sees them: which may be asked, with which token."""

import time
from datetime import timedelta

from embyproc import policy
from embyproc.clients.wordpress import Lookup, WordPress
from embyproc.errors import ServiceDown
from embyproc.stages.runner import Run
from embyproc.store.services import StoredToken

# The site behind the sources: its name among the services, and that of its token.
_SITE = "wordpress"
# A token about to expire is renewed before it is refused.
_AHEAD = timedelta(minutes=5)
# How long to wait for another run that is fetching a new token.
_PATIENCE_SECONDS = 30.0


class Sources:
    """Main thread only: the workers get a list of sources and a token with each question."""

    def __init__(self, run: Run, client: WordPress) -> None:
        self._run = run
        self._client = client
        self._states = run.store.services.states()
        now = run.store.clock.now()
        self._open = {
            name for name, state in self._states.items() if (state.open_until or now) > now
        }
        # Were down, and their pause is over: one question finds out.
        self._suspects = {name for name in self._states if name not in self._open}
        self._token = self._stored_token()

    @property
    def usable(self) -> list[str]:
        """The sources to ask, in order; empty while all of them are down."""
        if _SITE in self._open:
            return []
        return [name for name in self._run.config.api_search_order if name not in self._open]

    @property
    def on_trial(self) -> bool:
        """Whether no source is known to be well: one item first, then the others."""
        return _SITE in self._states or all(name in self._states for name in self.usable)

    def take_suspects(self) -> frozenset[str]:
        """The suspects, for one question to carry along."""
        suspects, self._suspects = frozenset(self._suspects), set()
        return suspects

    @property
    def token(self) -> str:
        return self._token.access_token

    def prepare(self) -> None:
        """Before anything is claimed: is somebody there, and does the token last?"""
        if not self.usable:
            paused = [self._states[name] for name in sorted(self._open & self._states.keys())]
            ours = {_SITE, *self._run.config.api_search_order}
            told = [policy.left_alone(state) for state in paused if state.name in ours]
            self._run.summary.problems += told
            return
        try:
            self._client.probe()
            expires = self._token.expires_at
            if expires is not None and expires < self._run.store.clock.now() + _AHEAD:
                self.renew(self.token)
        except ServiceDown as error:
            self.all_down(error)

    def note(self, lookup: Lookup) -> None:
        """Remember what asking told about the sources themselves."""
        well = lookup.answered | lookup.stumbled.keys()
        for name in (*well, *([_SITE] if well else [])):
            if self._states.pop(name, None) is not None:
                self._run.store.services.record_success(name)
        for name, error in lookup.unreachable.items():
            self._failed(name, error)

    def all_down(self, error: ServiceDown) -> None:
        """The site itself is the trouble, or its token: no source can be asked."""
        self._failed(_SITE, error)

    def _failed(self, name: str, error: ServiceDown) -> None:
        if name in self._open:
            return  # questions that were under way when it went down are no further proof
        services, now = self._run.store.services, self._run.store.clock.now()
        before = self._states.get(name)
        until = policy.outage_until(
            (before.failures if before else 0) + 1,
            now,
            for_everyone=error.for_everyone,
            retry_after=error.retry_after,
        )
        services.record_failure(name, str(error), until)
        self._states = services.states()
        if until is not None:
            self._open.add(name)
            self._run.summary.problems.append(f"Metadata service unavailable: {error}")

    def renew(self, stale: str) -> None:
        """Have a newer token than `stale`: another run's, or one we fetch; ServiceDown if none."""
        services, config = self._run.store.services, self._run.config
        configured, refresh_token = config.api_token or "", config.api_refresh_token
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            self._token = self._stored_token()
            if self.token != stale:
                return
            if refresh_token is None:
                raise ServiceDown("WordPress refused API_TOKEN, and API_REFRESH_TOKEN is not set")
            if services.begin_refresh(_SITE, configured, stale):
                break
            if time.monotonic() > deadline or self._run.stopping.wait(0.2):
                raise ServiceDown("another run is fetching a new WordPress token and is not done")
        try:
            fresh = self._client.refresh(stale, refresh_token)
        except ServiceDown:
            services.end_refresh(_SITE, stale, None, None)
            raise
        expires_at = None
        if fresh.expires_in is not None:
            expires_at = self._run.store.clock.now() + timedelta(seconds=fresh.expires_in)
        services.end_refresh(_SITE, stale, fresh.access_token, expires_at)
        self._token = self._stored_token()

    def _stored_token(self) -> StoredToken:
        return self._run.store.services.token(_SITE, self._run.config.api_token or "")
