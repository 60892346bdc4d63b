"""Downloads EMNIST letters from NIST: resumable, verified, unpacked atomically.

The archive holds all of EMNIST (Cohen, Afshar, Tapson and van Schaik, 2017); only the four letters files are kept.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

from brojepa.errors import RequestError, RunError
from brojepa.worlds.sources import EMNIST, open_world
from brojepa.worlds.world import World

URL = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
MD5 = "58c8d27c78d21e728a6bc7b3cc06412e"
PIECE = 1 << 20

Progress = Callable[[int, int | None], None]


def fetch_emnist(
    directory: Path, *, url: str = URL, md5: str = MD5, progress: Progress = lambda done, all: None
) -> World:
    """Download EMNIST letters into a directory and open it; continues an earlier download."""
    archive = directory / "emnist.zip.part"
    if not url.startswith(("http://", "https://", "file://")):
        raise RequestError(f"--url {url!r}: expected an address that starts with https://, http:// or file://")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _download(url, archive, progress)
        _verify(archive, url, md5)
        _unpack(archive, directory)
        archive.unlink()
    except urllib.error.URLError as error:
        raise RunError(f"cannot download {url} ({error.reason}): {by_hand(directory)}") from None
    except (ValueError, http.client.InvalidURL) as error:  # urllib reads the address piece by piece
        raise RequestError(f"--url {url!r}: {error}; expected an address like {URL}") from None
    except (OSError, http.client.HTTPException, zipfile.BadZipFile) as error:
        why = f"fetching EMNIST into {directory} failed ({str(error).strip()})"
        raise RunError(f"{why}: repeat the command to resume, or {by_hand(directory)}") from None
    return open_world("emnist", directory)


def by_hand(directory: Path) -> str:
    return f"get {URL} elsewhere, unpack it, and put {', '.join(f + '.gz' for f in EMNIST.files)} in {directory}"


def _download(url: str, archive: Path, progress: Progress) -> None:
    have = archive.stat().st_size if archive.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:  # nothing left to send: the file is whole
            return
        raise
    with response, archive.open("ab" if response.status == 206 else "wb") as file:
        have = file.tell()
        length = response.headers.get("Content-Length")
        total = have + int(length) if re.fullmatch(r"[0-9]{1,18}", length or "") else None
        while piece := response.read(PIECE):
            file.write(piece)
            have += len(piece)
            progress(have, total)
    if total is not None and have < total:
        raise OSError(f"the connection ended after {have} of {total} bytes")


def _verify(archive: Path, url: str, md5: str) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    with archive.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    if digest.hexdigest() != md5:
        archive.unlink()
        raise RunError(f"{url} gave a file with md5 {digest.hexdigest()}, expected {md5}; it was removed, fetch again")


def _unpack(archive: Path, directory: Path) -> None:
    wanted = {f"{name}.gz" for name in EMNIST.files}
    with zipfile.ZipFile(archive) as file:
        members = {Path(name).name: name for name in file.namelist() if Path(name).name in wanted}
        for missing in sorted(wanted - set(members)):
            raise RunError(f"{archive} holds no {missing}: not the EMNIST archive")
        for name, member in members.items():
            partial = directory / f".{name}.partial"
            try:
                with file.open(member) as source, partial.open("wb") as target:
                    shutil.copyfileobj(source, target, PIECE)
                partial.replace(directory / name)
            finally:
                partial.unlink(missing_ok=True)
