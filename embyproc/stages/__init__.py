"""The stages: scan, process, emby, retry. Each has a `run` that returns a RunSummary."""
