"""What a long step says while it works: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


class Reporter:
    """Tells how far one step is: ``stage`` at each new thing it does, ``note`` for everything else.

    Every line goes to the log with its time. On a terminal a bar shows the share of the expected time that has
    passed; elsewhere each stage is one line on stderr.
    """

    def __init__(self, title: str, expected_s: float, log: Path, stream: TextIO = sys.stderr) -> None:
        self.title = title
        self.expected_s = expected_s
        self.log = log
        self._stream = stream
        self._start = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._log = self.log.open("w", encoding="utf-8")
        if self._stream.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                TextColumn(f"of about {duration(self.expected_s)}"),
                console=Console(file=self._stream),
                transient=True,
            )
            self._task = self._bar.add_task(self.title, total=self.expected_s)
            self._bar.start()
        self._say(f"{self.title}: about {duration(self.expected_s)}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        ending = "done" if kind is None else f"stopped by {kind.__name__}"
        self._say(f"{self.title}: {ending} after {duration(time.monotonic() - self._start)}")
        self._log.close()

    def stage(self, what: str) -> None:
        """Say what begins now."""
        elapsed = time.monotonic() - self._start
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self.title}: {what}", completed=min(elapsed, self.expected_s))
            self.note(what)
        else:
            self._say(f"{self.title}: {what} ({duration(elapsed)} of about {duration(self.expected_s)})")

    def note(self, text: str) -> None:
        """Write ``text`` to the log alone."""
        self._log.write(f"[{time.strftime('%H:%M:%S')}] {text.rstrip()}\n")
        self._log.flush()

    def _say(self, text: str) -> None:
        self.note(text)
        if self._bar is None or not self._bar.live.is_started:
            print(text, file=self._stream, flush=True)


def duration(seconds: float) -> str:
    """Return seconds as a reader says them: 42 s, 3 min, 1 h 5 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
