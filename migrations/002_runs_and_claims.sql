-- Who works on what: a row a run, and on each queue row the run that has claimed it.

CREATE TABLE runs (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    command      TEXT NOT NULL,
    host         TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    started_at   TIMESTAMP WITH TIME ZONE NOT NULL,
    heartbeat_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at  TIMESTAMP WITH TIME ZONE,
    exit_code    INTEGER,
    counts       JSONB NOT NULL DEFAULT '{}'
);

-- "The last run of this command" without reading a year of them.
CREATE INDEX idx_runs_command ON runs (command, id);

ALTER TABLE processing_queue
    ADD COLUMN claimed_by BIGINT,
    ADD COLUMN claimed_at TIMESTAMP WITH TIME ZONE,
    -- How many runs died while they had this row; three set it aside.
    ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0,
    -- Why the last change of status happened; the journal copies it.
    ADD COLUMN note TEXT;

-- Only rows that wait or are worked on are in these, so a million completed rows cost nothing.
CREATE INDEX idx_queue_pending ON processing_queue (created_at, id) WHERE status = 'pending';
CREATE INDEX idx_queue_moved ON processing_queue (created_at, id) WHERE status = 'moved';
CREATE INDEX idx_queue_claimed ON processing_queue (claimed_by)
    WHERE status IN ('processing', 'emby_pending');
CREATE INDEX idx_queue_error ON processing_queue (id) WHERE status = 'error';
-- For cleanup; rows complete roughly in the order in which they are stored.
CREATE INDEX idx_queue_completed ON processing_queue USING brin (updated_at)
    WHERE status = 'completed';
