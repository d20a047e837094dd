-- What scan remembers: the identity of a queued file, what it saw of unfinished ones, and the
-- watched folder itself, so that an unmounted volume is not taken for an empty one.

ALTER TABLE processing_queue
    ADD COLUMN device   BIGINT,
    ADD COLUMN inode    BIGINT,
    ADD COLUMN size     BIGINT,
    ADD COLUMN mtime_ns BIGINT,
    ADD COLUMN ctime_ns BIGINT,
    -- Names of subtitles, pictures and .nfo files beside the video, for process to take along.
    ADD COLUMN sidecars JSONB;

-- A renamed file, or a second hard link, is found by its inode.
CREATE INDEX idx_queue_inode ON processing_queue (inode) WHERE inode IS NOT NULL;

CREATE TABLE sightings (
    path     TEXT PRIMARY KEY,
    device   BIGINT NOT NULL,
    inode    BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    mtime_ns BIGINT NOT NULL,
    ctime_ns BIGINT NOT NULL,
    checks   INTEGER NOT NULL,
    -- Since when it looks like this, by the database's clock.
    since    TIMESTAMP WITH TIME ZONE NOT NULL
);

CREATE TABLE watched_folders (
    path    TEXT PRIMARY KEY,
    device  BIGINT NOT NULL,
    inode   BIGINT NOT NULL,
    files   BIGINT NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL
);
