"""What is remembered of the services: outages (a circuit breaker each) and the access token."""

from datetime import datetime, timedelta
from typing import NamedTuple

from embyproc.cleaning import clean_text
from embyproc.models import ServiceState
from embyproc.store.database import Database

# How long one run may take to fetch a new token before another tries.
_REFRESH_LEASE = timedelta(seconds=45)


class StoredToken(NamedTuple):
    access_token: str
    expires_at: datetime | None


class Services:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- outages ---------------------------------------------------------------------------

    def states(self) -> dict[str, ServiceState]:
        """Every service of which something bad is remembered."""
        rows = self._database.rows("SELECT * FROM services ORDER BY name")
        return {row["name"]: ServiceState(**row) for row in rows}

    def record_failure(self, name: str, error: str, open_until: datetime | None) -> None:
        """One more failure in a row; with `open_until` the service is down until then."""
        self._database.execute(
            """
            INSERT INTO services (name, failures, open_until, down_since, last_error)
            VALUES (%(name)s, 1, %(until)s, CASE WHEN %(until)s IS NULL THEN NULL ELSE %(now)s END,
                    %(error)s)
            ON CONFLICT (name) DO UPDATE SET failures = services.failures + 1,
                open_until = EXCLUDED.open_until, last_error = EXCLUDED.last_error,
                down_since = COALESCE(services.down_since, EXCLUDED.down_since)
            """,
            {
                "name": name,
                "error": clean_text(error),
                "until": open_until,
                "now": self._database.clock.now(),
            },
        )

    def record_success(self, name: str) -> None:
        """It works: nothing bad needs to be remembered."""
        self._database.execute("DELETE FROM services WHERE name = %(name)s", {"name": name})

    def try_now(self) -> None:
        """Whatever is left alone for a while may be asked by the next run: a person says so."""
        self._database.execute(
            "UPDATE services SET open_until = %(now)s WHERE open_until > %(now)s",
            {"now": self._database.clock.now()},
        )

    def alert(self, after: timedelta) -> list[ServiceState]:
        """Services that are down for longer than `after` and were not announced yet."""
        now = self._database.clock.now()
        rows = self._database.rows(
            """
            UPDATE services SET alerted_at = %(now)s
            WHERE alerted_at IS NULL AND down_since <= %(since)s AND open_until > %(now)s
            RETURNING *
            """,
            {"now": now, "since": now - after},
        )
        return [ServiceState(**row) for row in rows]

    # -- the access token ------------------------------------------------------------------

    def token(self, name: str, configured: str) -> StoredToken:
        """The newest token that descends from the configured one."""
        rows = self._database.rows(
            """
            SELECT access_token, expires_at FROM api_tokens
            WHERE name = %(name)s AND seed = %(seed)s
            """,
            {"name": name, "seed": _digest(configured)},
        )
        return (
            StoredToken(**rows[0])
            if rows
            else StoredToken(access_token=configured, expires_at=None)
        )

    def begin_refresh(self, name: str, configured: str, stale: str) -> bool:
        """Whether it is ours to fetch the successor of `stale`: nobody else is about it."""
        now = self._database.clock.now()
        touched = self._database.execute(
            """
            INSERT INTO api_tokens (name, seed, access_token, refreshing_until)
            VALUES (%(name)s, %(seed)s, %(stale)s, %(until)s)
            ON CONFLICT (name) DO UPDATE SET refreshing_until = EXCLUDED.refreshing_until,
                seed = EXCLUDED.seed, access_token = EXCLUDED.access_token, expires_at = NULL
            WHERE api_tokens.seed <> EXCLUDED.seed
               OR (api_tokens.access_token = EXCLUDED.access_token
                   AND COALESCE(api_tokens.refreshing_until < %(now)s, true))
            """,
            {
                "name": name,
                "seed": _digest(configured),
                "stale": stale,
                "now": now,
                "until": now + _REFRESH_LEASE,
            },
        )
        return touched == 1

    def end_refresh(
        self, name: str, stale: str, fresh: str | None, expires_at: datetime | None
    ) -> None:
        """Store the new token for every run and host; None gives the attempt up."""
        self._database.execute(
            """
            UPDATE api_tokens SET refreshing_until = NULL,
                access_token = COALESCE(%(fresh)s, access_token),
                expires_at = CASE WHEN %(fresh)s IS NULL THEN expires_at
                                  ELSE %(expires_at)s::timestamptz END
            WHERE name = %(name)s AND access_token = %(stale)s
            """,
            {"name": name, "stale": stale, "fresh": fresh, "expires_at": expires_at},
        )


def _digest(secret: str) -> str:
    import hashlib  # only where a token is asked for: start-up counts

    return hashlib.sha256(secret.encode()).hexdigest()
