-- When a scan last met the film: what the newest scan did not renew is forgotten without a join.
ALTER TABLE sightings ADD COLUMN seen_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now();
