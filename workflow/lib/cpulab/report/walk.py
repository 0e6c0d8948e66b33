"""The walk of a case as its page shows it: five columns of lines, each with its partners in the others."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cpulab.report.views import Shown

# Level -> (its title, its short name, what it is).
COLUMNS = {
    "source": ("Source", "source", "the program"),
    "fx": ("FX graph", "FX", "after pattern matching (fx_graph_transformed.py)"),
    "ir_pre": ("IR before fusion", "IR", "ir_pre_fusion.txt"),
    "ir_post": ("IR after fusion", "fused IR", "ir_post_fusion.txt"),
    "cpp": ("C++", "C++", "the kernels, and who calls them (output_code.py)"),
}

# One step of indentation, in spaces, as all five files have it.
_INDENT = 4


@dataclass(frozen=True)
class Partner:
    """A line that a link leads to: its anchor, what it is called, and what the link rests on."""

    anchor: str
    name: str
    by: str


@dataclass(frozen=True)
class Row:
    """One line: its number in its file, its text without indentation, the steps of that, its partners.

    ``part``: the file, kernel or node of the IR that begins here; ``at_fault``: leads to, or is, a wrong statement.
    """

    anchor: str
    line: int
    text: str
    depth: int
    part: str | None
    partners: Sequence[Partner]
    at_fault: bool


@dataclass(frozen=True)
class Column:
    """One level: its title, what it is, its lines, and those of them that are at fault."""

    key: str
    title: str
    what: str
    rows: Sequence[Row]

    @property
    def at_fault(self) -> list[Row]:
        """The lines that lead to a wrong statement, or are one."""
        return [row for row in self.rows if row.at_fault]


@dataclass(frozen=True)
class Walk:
    """A case's walk: its page, relative to the report, its columns, its links, and how many lines were left out."""

    shown: Shown
    page: str
    columns: Sequence[Column]
    links: int
    left_out: int

    @property
    def at_fault(self) -> bool:
        """Whether a statement is known to be wrong."""
        return any(column.at_fault for column in self.columns)

    @property
    def lines(self) -> int:
        """All lines shown."""
        return sum(len(column.rows) for column in self.columns)


def walk(shown: Shown) -> Walk | None:
    """Return the walk that a case observed, None where it has none."""
    rows: Sequence[Mapping[str, Any]] = shown.seen.get("walk_rows") or []
    if not rows:
        return None
    lines = {row["id"]: row for row in rows}
    links = [link for link in shown.seen.get("walk_links") or [] if link["from"] in lines and link["to"] in lines]
    guilty = set(shown.seen.get("walk_guilty") or [])
    partners: dict[str, dict[str, Partner]] = defaultdict(dict)
    for link in links:
        for one, other in ((link["from"], link["to"]), (link["to"], link["from"])):
            name = f"{COLUMNS[lines[other]['column']][1]} {lines[other]['line']}"
            partners[one].setdefault(other, Partner(_anchor(other), name, link["by"]))
    columns = [
        Column(key, title, what, _rows([row for row in rows if row["column"] == key], partners, guilty))
        for key, (title, _, what) in COLUMNS.items()
    ]
    page = f"walk/{shown.name.replace('/', '_')}.html"
    return Walk(shown, page, columns, len(links), int(shown.seen.get("walk_left_out") or 0))


def walks(shown: Iterable[Shown]) -> list[Walk]:
    """Return the walks of all cases that have one."""
    return [found for one in shown if (found := walk(one)) is not None]


def _rows(
    rows: Sequence[Mapping[str, Any]], partners: Mapping[str, Mapping[str, Partner]], guilty: set[str]
) -> list[Row]:
    found, part = [], ""
    for row in rows:
        text = row["text"].rstrip()
        begins = row["part"] if row["part"] != part else None
        part = row["part"]
        found.append(
            Row(
                anchor=_anchor(row["id"]),
                line=row["line"],
                text=text.lstrip(),
                depth=(len(text) - len(text.lstrip())) // _INDENT,
                part=begins,
                partners=sorted(
                    partners.get(row["id"], {}).values(), key=lambda one: [*COLUMNS].index(one.anchor.split("-")[0])
                ),
                at_fault=row["id"] in guilty,
            )
        )
    return found


def _anchor(identity: str) -> str:
    """Return an id of a row as one of the page."""
    return identity.replace(":", "-")
