"""Which container image this runs in: what is in it, the revision it was built from, docker's id.

Run as a program (``python -m cpulab.host.image REVISION``) it writes the image's own description: the Dockerfile does.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from cpulab.errors import BadImageId
from cpulab.files import sha256, write_whole
from cpulab.host.build import installed
from cpulab.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DESCRIPTION = "image.json"
ENVIRONMENTS = (".venv", ".venv-cpu")
# What is made while it runs, and what Python makes of sources.
NOT_OF_THE_PROJECT = (*ENVIRONMENTS, "results", ".snakemake", DESCRIPTION)


def content(project: Path) -> str:
    """Return the sha256 of what is in this image: Debian packages, both environments' distributions, project files."""
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Architecture} ${Version}\n"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    inside = {
        "debian": sorted(listed.stdout.splitlines()),
        "environments": {name: installed(project / name) for name in ENVIRONMENTS},
        "files": {path.relative_to(project).as_posix(): sha256(path) for path in _files(project)},
    }
    return hashlib.sha256(json.dumps(inside, sort_keys=True).encode()).hexdigest()


def _files(project: Path) -> list[Path]:
    own = [path for path in project.iterdir() if path.name not in NOT_OF_THE_PROJECT]
    files = [path for one in own for path in ([one] if one.is_file() else one.rglob("*")) if path.is_file()]
    return [path for path in files if path.suffix != ".pyc" and not path.parent.name.endswith(".egg-info")]


def image(project: Path, variables: Mapping[str, str]) -> dict[str, Any] | None:
    """Return ``{content, revision, docker}`` of the image that ``project`` stands in, or None outside of ours.

    ``content`` is computed from what is there now. Where that is not what was built, for instance because a file was
    mounted over another, ``revision`` is None: the commit does not describe it.

    Raises:
        BadImageId: CPULAB_IMAGE_ID is set and is no image id.

    """
    if not (project / DESCRIPTION).is_file():
        return None
    built = json.loads((project / DESCRIPTION).read_text())
    docker = variables.get("CPULAB_IMAGE_ID") or None
    if docker is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", docker):
        raise BadImageId(docker)
    found = content(project)
    return {"content": found, "revision": built["revision"] if found == built["content"] else None, "docker": docker}


def main() -> None:
    """Write the description of the image that is being built; the first argument is its revision, or empty."""
    built = {"content": content(PROJECT), "revision": sys.argv[1] or None}
    write_whole(PROJECT / DESCRIPTION, json.dumps(built) + "\n")


if __name__ == "__main__":
    main()
