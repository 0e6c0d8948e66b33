"""Where the project's own files stand."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
LIBRARY = PROJECT / "workflow" / "lib"
SCHEMAS = PROJECT / "workflow" / "schemas"
PRESETS = PROJECT / "config" / "presets"
LOCK = PROJECT / "envs" / "cpu.lock"
MEASURED_ENVIRONMENT = PROJECT / ".venv-cpu"
