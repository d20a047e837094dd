-- The queue as the earlier emby-processor made it, so that its database is adopted in place.
-- Every statement is harmless where the object exists already.

CREATE TABLE IF NOT EXISTS processing_queue (
    id            SERIAL PRIMARY KEY,
    file_path     TEXT NOT NULL,
    movie_code    VARCHAR(20),
    actress       VARCHAR(255),
    subtitle      VARCHAR(50),
    status        VARCHAR(20) NOT NULL DEFAULT 'pending',
    error_message TEXT,
    new_path      TEXT,
    emby_item_id  VARCHAR(100),
    metadata_json JSONB,
    retry_count   INTEGER NOT NULL DEFAULT 0,
    next_retry_at TIMESTAMP WITH TIME ZONE,
    created_at    TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    updated_at    TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW()
);

CREATE INDEX IF NOT EXISTS idx_queue_status ON processing_queue (status);

CREATE INDEX IF NOT EXISTS idx_queue_retry ON processing_queue (next_retry_at)
    WHERE status = 'error' AND next_retry_at IS NOT NULL;

CREATE UNIQUE INDEX IF NOT EXISTS idx_queue_file_path ON processing_queue (file_path);

CREATE OR REPLACE FUNCTION update_updated_at_column() RETURNS TRIGGER AS $$
BEGIN
    NEW.updated_at = NOW();
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

-- PostgreSQL 13 has no CREATE OR REPLACE TRIGGER.
DROP TRIGGER IF EXISTS trg_queue_updated_at ON processing_queue;
CREATE TRIGGER trg_queue_updated_at
    BEFORE UPDATE ON processing_queue
    FOR EACH ROW EXECUTE FUNCTION update_updated_at_column();
