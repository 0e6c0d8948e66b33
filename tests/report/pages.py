"""Results to render, to be changed by a test, and a page as a reader's program sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.report.render import render

if TYPE_CHECKING:
    from cpulab.records import Record

FIXTURE = Path(__file__).parents[1] / "data" / "report" / "results"
STEPS = ("debug", "minify", "benchmark", "profile", "roofline")

# Elements that have no end tag.
VOID = frozenset({"meta", "link", "br", "hr", "img", "input", "source", "wbr", "col"})
# SVG elements that these figures close in the start tag.
CLOSED = frozenset({"line", "rect", "circle", "path"})


@dataclass
class Results:
    """The fixture, loaded, to be changed by a test before it is rendered."""

    verdicts: dict[str, Any]
    environment: dict[str, Any]
    records: dict[str, Record]
    folder: Path

    def page(self) -> str:
        """Render the page."""
        return render(self.verdicts, self.environment, self.records, self.folder)

    def claim(self, identity: str) -> dict[str, Any]:
        """Return one claim."""
        return next(claim for claim in self.verdicts["claims"] if claim["id"] == identity)


def record_paths(folder: Path) -> list[Path]:
    """Return the records of a results folder."""
    return sorted(path for step in STEPS for path in (folder / step).glob("*.json"))


@dataclass
class Page(HTMLParser):
    """A parsed page: its elements, its text, and whether every element is closed where it should be."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID | CLOSED:
            self.faults.append(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "script"}:
            self.words.append(data)

    @property
    def text(self) -> str:
        """Everything a reader reads, with single spaces."""
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element of this kind."""
        return [attributes for name, attributes in self.elements if name == tag]


def parsed(html: str) -> Page:
    """Parse a page."""
    page = Page()
    page.feed(html)
    page.close()
    return page
