"""Processes that tests start."""

from __future__ import annotations

import sys

HEAR = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


def hearing_ctrl_c(command: list[str]) -> list[str]:
    """Return the command that runs ``command`` so that it hears SIGINT.

    A test run in the background has it ignored, and its children inherit that.
    """
    return [sys.executable, "-c", HEAR, *command]
