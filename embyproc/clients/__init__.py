"""The outside world over HTTP: the only package that knows requests and tenacity."""
