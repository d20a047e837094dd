"""The file system: the only package that walks, copies, links or unlinks."""
