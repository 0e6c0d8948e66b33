"""A record says which image it was made in, and a container that was changed does not pass for its image."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpulab.errors import BadImageId
from cpulab.host.image import content, image

DOCKER = "sha256:" + "0f" * 32

pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="the image is a Debian one")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project as the Dockerfile leaves it, its description last."""
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "step.py").write_text("pass")
    (tmp_path / "Snakefile").write_text("rule all:")
    built = {"content": content(tmp_path), "revision": "a" * 40}
    (tmp_path / "image.json").write_text(json.dumps(built))
    return tmp_path


def test_outside_of_an_image_there_is_none(tmp_path: Path) -> None:
    assert image(tmp_path, {"CPULAB_IMAGE_ID": DOCKER}) is None


def test_an_image_is_named_by_what_is_in_it_its_commit_and_dockers_id(project: Path) -> None:
    built = json.loads((project / "image.json").read_text())
    assert image(project, {}) == {**built, "docker": None}
    assert image(project, {"CPULAB_IMAGE_ID": DOCKER}) == {**built, "docker": DOCKER}


@pytest.mark.parametrize("name", ["workflow/step.py", "Snakefile", "config/new.yaml"])
def test_a_file_that_was_changed_or_added_since_is_another_content_of_no_commit(project: Path, name: str) -> None:
    before = content(project)
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("changed")
    found = image(project, {})
    assert found is not None
    assert found["content"] != before
    assert found["revision"] is None


def test_another_package_in_an_environment_is_another_content(project: Path) -> None:
    before = content(project)
    about = project / ".venv-cpu" / "lib" / "python3.11" / "site-packages" / "stray-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stray\nVersion: 1\n")
    assert content(project) != before


@pytest.mark.parametrize(
    "name", ["results/a.json", ".snakemake/log", "workflow/__pycache__/a.pyc", "workflow/x.egg-info/a"]
)
def test_what_a_run_makes_is_not_of_the_image(project: Path, name: str) -> None:
    before = content(project)
    (project / name).parent.mkdir(parents=True)
    (project / name).write_text("made")
    assert content(project) == before


@pytest.mark.parametrize("value", ["cpulab:latest", "sha256:12", DOCKER + "0"])
def test_what_is_no_image_id_is_refused_with_how_to_get_one(project: Path, value: str) -> None:
    with pytest.raises(BadImageId, match=r"CPULAB_IMAGE_ID=.* is not the id .*docker image inspect -f '\{\{\.Id\}\}'"):
        image(project, {"CPULAB_IMAGE_ID": value})


def test_the_description_of_a_build_without_a_commit_has_null(tmp_path: Path) -> None:
    # The module writes beside its own project, so a copy of the package is the project here.
    library = tmp_path / "workflow" / "lib"
    shutil.copytree(Path(__file__).parents[2] / "workflow" / "lib" / "cpulab", library / "cpulab")
    command = [sys.executable, "-m", "cpulab.host.image", ""]
    subprocess.run(command, check=True, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(library)}, cwd=tmp_path)
    built = json.loads((tmp_path / "image.json").read_text())
    assert built == {"content": content(tmp_path), "revision": None}
