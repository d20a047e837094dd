-- The timeline: every change of status appends a row here, whoever made it.

CREATE TABLE queue_events (
    id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item    INTEGER NOT NULL,
    at      TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT clock_timestamp(),
    "from"  VARCHAR(20) NOT NULL,
    "to"    VARCHAR(20) NOT NULL,
    run     BIGINT,
    message TEXT
);

CREATE INDEX idx_events_item ON queue_events (item, id);
CREATE INDEX idx_events_at ON queue_events USING brin (at);

-- Once a statement and not once a row: a batch of a hundred moves costs one insert.
CREATE FUNCTION queue_append_events() RETURNS TRIGGER AS $$
BEGIN
    INSERT INTO queue_events (item, "from", "to", run, message)
    SELECT after.id, before.status, after.status,
           COALESCE(after.claimed_by, before.claimed_by),
           CASE
               WHEN after.status = 'error' THEN after.error_message
               WHEN after.note IS DISTINCT FROM before.note THEN after.note
           END
    FROM before JOIN after USING (id)
    WHERE before.status <> after.status
    ORDER BY after.id;
    RETURN NULL;
END;
$$ LANGUAGE plpgsql;

CREATE TRIGGER trg_queue_events
    AFTER UPDATE ON processing_queue
    REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION queue_append_events();
