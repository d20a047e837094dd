-- What emby could not do for an item without failing it: pictures, a merged version.
ALTER TABLE processing_queue ADD COLUMN warnings TEXT[];
