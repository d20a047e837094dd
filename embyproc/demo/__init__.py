"""Stand-in services and sample files for the demo, the tests and the benchmarks."""

from embyproc.demo.emby import StandInEmby
from embyproc.demo.messages import Reply, Request, RequestRecord
from embyproc.demo.samples import tiny_mp4
from embyproc.demo.server import StandInServer
from embyproc.demo.wordpress import Quirks, StandInWordPress

__all__ = [
    "Quirks",
    "Reply",
    "Request",
    "RequestRecord",
    "StandInEmby",
    "StandInServer",
    "StandInWordPress",
    "tiny_mp4",
]
