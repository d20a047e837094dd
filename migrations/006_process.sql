-- What process needs between two instructions, between two runs and between two hosts.

ALTER TABLE processing_queue
    -- Where the file is about to be published: recorded before anything is moved, so that after a
    -- crash this and the disk together say what is left to do.
    ADD COLUMN planned_path TEXT,
    ADD COLUMN part INTEGER;

-- The folder once chosen for a work, and the other parts of it, are found by its code.
CREATE INDEX idx_queue_code ON processing_queue (movie_code) WHERE movie_code IS NOT NULL;

-- Services that misbehave: one row each while there is something to remember.
CREATE TABLE services (
    name       TEXT PRIMARY KEY,
    failures   INTEGER NOT NULL,
    open_until TIMESTAMP WITH TIME ZONE,
    down_since TIMESTAMP WITH TIME ZONE,
    last_error TEXT NOT NULL,
    alerted_at TIMESTAMP WITH TIME ZONE
);

-- The access token of the moment, shared by all runs and hosts. `seed` is a digest of the
-- configured token it descends from: a new one in the configuration wins.
CREATE TABLE api_tokens (
    name             TEXT PRIMARY KEY,
    seed             TEXT NOT NULL,
    access_token     TEXT NOT NULL,
    expires_at       TIMESTAMP WITH TIME ZONE,
    refreshing_until TIMESTAMP WITH TIME ZONE
);

-- Which process a run is, where only the same machine can tell: one that was killed there is known
-- to be dead at once, and its rows need not wait for its silence.
ALTER TABLE runs ADD COLUMN process TEXT;
