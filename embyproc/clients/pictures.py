"""Fetching a picture and judging it by its content: status and labels are not to be trusted."""

import io
import warnings
from dataclasses import dataclass

from embyproc.clients.base import Http, same_origin
from embyproc.errors import EmbyprocError, ServiceDown

_MAX_BYTES = 20 * 1024 * 1024
_MAX_PIXELS = 50_000_000
_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}


class NoPicture(EmbyprocError):
    """What came back is no picture that can be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    body: bytes
    content_type: str


class Pictures:
    """Fetches pictures; the token goes to the API's own server and to nobody else."""

    def __init__(self, api_url: str | None, token: str | None) -> None:
        self._api_url = api_url
        self._token = token
        self._http = Http("The picture")

    def fetch(self, url: str) -> Picture:
        """Raises NoPicture with the reason."""
        headers = {"Accept": "image/*"}
        if self._token and self._api_url and same_origin(url, self._api_url):
            headers["Authorization"] = f"Bearer {self._token}"
        if not url.startswith(("http://", "https://")):
            raise NoPicture("its address is no URL")
        try:
            answer = self._http.request("GET", url, headers=headers, max_bytes=_MAX_BYTES)
        except ServiceDown as error:
            raise NoPicture(str(error)) from error
        # The crop service answers 404 with a perfect picture, so only the content counts.
        return judged(answer.body, answer.status)


def judged(body: bytes, status: int) -> Picture:
    """The bytes as a Picture, decoded to the end; raises NoPicture."""
    from PIL import Image, UnidentifiedImageError

    if not body:
        raise NoPicture(f"the answer was empty (status {status})")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(body)) as image:
                kind = _TYPES.get(image.format or "")
                if image.width * image.height > _MAX_PIXELS:
                    raise NoPicture(f"it is too large ({image.width} x {image.height})")
                image.load()
    except UnidentifiedImageError:
        raise NoPicture(f"the answer is no picture (status {status})") from None
    except NoPicture:
        raise
    except Exception as error:
        # Decoders meet broken data in many ways; all of them mean the same to us.
        raise NoPicture(f"the picture is broken ({type(error).__name__})") from None
    if kind is None:
        raise NoPicture("it is of a kind that Emby does not take")
    return Picture(body=body, content_type=kind)
