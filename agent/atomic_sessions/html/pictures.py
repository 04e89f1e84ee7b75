"""Pictures inside a page: raster images as `data:`, and only when their bytes are what they say.

SVG (a document with scripts) and addresses of any kind never become an image.
"""

import binascii

from atomic_sessions.entry import Image
from atomic_sessions.html.escaping import escape, line

_SIGNATURES: dict[str, tuple[bytes, ...]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


def picture(image: Image) -> str:
    """An `img` element, or one line that names what is not shown."""
    mime = image.mime.strip().lower()
    data = "".join(image.data.split())
    if not _is_raster(mime, data):
        return f"<p class=no>Image not shown: {escape(line(image.mime, 60)) or 'unknown type'}.</p>"
    return f'<img src="data:{mime};base64,{data}" alt="Image" loading=lazy>'


def _is_raster(mime: str, data: str) -> bool:
    try:
        raw = binascii.a2b_base64(data.encode("ascii"), strict_mode=True)
    except (ValueError, UnicodeEncodeError):
        return False
    return raw.startswith(_SIGNATURES.get(mime, ())) and (mime != "image/webp" or raw[8:12] == b"WEBP")
