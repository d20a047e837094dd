-- PostgreSQL itself refuses a status it does not know and a move that makes no sense.
-- embyproc/models.py has the same table of moves; a test compares the two.

-- NOT VALID: rows of an adopted database are taken as they are, new values are checked.
ALTER TABLE processing_queue ADD CONSTRAINT queue_status_known CHECK (
    status IN ('pending', 'processing', 'moved', 'emby_pending', 'completed', 'error')
) NOT VALID;

CREATE FUNCTION queue_check_move() RETURNS TRIGGER AS $$
BEGIN
    IF (OLD.status, NEW.status) IN (
        ('pending', 'processing'),
        ('pending', 'error'),
        ('processing', 'moved'),
        ('processing', 'error'),
        ('processing', 'pending'),
        ('moved', 'emby_pending'),
        ('emby_pending', 'completed'),
        ('emby_pending', 'error'),
        ('emby_pending', 'moved'),
        ('error', 'pending'),
        ('completed', 'pending')
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'item % may not move from % to %', OLD.id, OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'queue_legal_moves';
END;
$$ LANGUAGE plpgsql;

CREATE TRIGGER trg_queue_legal_moves
    BEFORE UPDATE OF status ON processing_queue
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION queue_check_move();
