-- An event also names the run that made it where the row was not claimed: scan and retry say who
-- they are in a setting of their session.
CREATE OR REPLACE FUNCTION queue_append_events() RETURNS TRIGGER AS $$
BEGIN
    INSERT INTO queue_events (item, "from", "to", run, message)
    SELECT after.id, before.status, after.status,
           COALESCE(after.claimed_by, before.claimed_by,
                    NULLIF(current_setting('embyproc.run', true), '')::bigint),
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
