"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cpulab.errors import DiskFull

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Turn the kernel's "no space left" (or "quota exceeded") into `DiskFull`, which names ``path``."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFull(path) from error
        raise


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` by a temporary file and a rename, so that no reader sees half of it.

    Raises:
        DiskFull: no space is left; ``path`` is as it was before.

    """
    temporary: str | None = None
    try:
        with full_disk_named(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        temporary = None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
