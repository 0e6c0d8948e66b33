"""The walk from a line of the program to its lines of C++, level by level, each link as Inductor itself has it.

Levels: ``source``, ``fx`` (after pattern matching), ``ir_pre`` and ``ir_post`` (before and after fusion), ``cpp``. The
texts are those that TORCH_COMPILE_DEBUG=1 dumps, with the marks of `cpulab.debug.recording`. A link says what it rests
on: the stack trace that an FX node carries, the origins that a node of the IR carries, the identity of an op of a loop
body (which is followed through fusion into code generation), or Inductor's own provenance_tracking_node_mappings.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from cpulab.debug import artefacts, links

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from cpulab.records import Observation

COLUMNS = ("source", "fx", "ir_pre", "ir_post", "cpp")

# Longer columns are cut to what belongs to the kernels shown.
MOST_LINES = 600

_FX_NODE = re.compile(r'^\s+(?P<name>\w+)(?:: "[^"]*")? = ')
_FORWARD = re.compile(r"^\s+def forward\((?P<arguments>.*)\):")
_FILE = re.compile(r"^\s*# File: (?P<file>.+?):(?P<line>\d+) in \S+, code: (?P<code>.*)$")
_NO_FILE = re.compile(r"^\s*# No stacktrace found")
_HANDLE = re.compile(r"^\s*# \[Provenance debug handles\] (?P<handles>.+)$")


def walk(
    graph: Mapping[str, Any],
    sources: Mapping[str, str] | None = None,
    *,
    guilty: Collection[str] = (),
    guilty_fx: str | None = None,
) -> dict[str, Any]:
    """Return the walk through one graph.

    ``graph``: one of `cpulab.debug.recording.traces`; ``sources``: the text of the program's files by their path as the
    FX graph names it; ``guilty``: statements of C++ that are wrong, of the FX node ``guilty_fx`` where one is named.

    The answer: for each level rows ``{id, line, text, part}``; ``links``: ``{from, to, by, guilty}``, from a level to a
    later one; ``guilty``: the ids of the rows that lead to a wrong statement; ``left_out``: rows that are not there
    because the program is long.
    """
    found = _Walk(graph, sources or {})
    found.accuse(set(guilty), guilty_fx)
    found.shorten()
    return found.answer()


def observations(found: Mapping[str, Any]) -> dict[str, Observation]:
    """Return a walk as the observations of a record."""
    return {
        "walk_rows": [{"column": column, **row} for column in COLUMNS for row in found[column]],
        "walk_links": list(found["links"]),
        "walk_guilty": list(found["guilty"]),
        "walk_left_out": found["left_out"],
    }


class _Walk:
    def __init__(self, graph: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self.rows: dict[str, dict[str, dict[str, Any]]] = {column: {} for column in COLUMNS}
        self.links: dict[tuple[str, str], str] = {}
        self.guilty: set[str] = set()
        self.left_out = 0
        self.fx_of: dict[str, str] = {}  # the name of an FX node -> its row
        self.nodes: dict[str, dict[str, links.Mark]] = {"ir_pre": {}, "ir_post": {}}  # rows of nodes of the IR
        self.ops: dict[str, dict[str, list[str]]] = {}  # level -> op of a loop body -> its rows
        self.marks: dict[str, links.Mark] = {}  # of rows of C++

        self._fx(graph["fx"], sources)
        for level in ("ir_pre", "ir_post"):
            self._ir(level, graph[level])
        self._fusion()
        self._cpp(graph["code"], graph.get("mappings") or {})

    def _row(self, column: str, line: int, text: str, part: str = "", *, of: str = "") -> str:
        identity = f"{column}:{of}{':' if of else ''}{line}"
        self.rows[column].setdefault(identity, {"id": identity, "line": line, "text": text, "part": part})
        return identity

    def _link(self, start: str | None, end: str, by: str) -> None:
        if start is not None:
            self.links.setdefault((start, end), by)

    # --- the program and its FX graph

    def _fx(self, text: str, sources: Mapping[str, str]) -> None:
        trees: dict[str, ast.Module | None] = {file: _parsed(source) for file, source in sources.items()}
        origin: str | None = None
        for number, line in enumerate(text.split("\n"), 1):
            if (named := _FILE.match(line)) is not None:
                file, at = named["file"], int(named["line"])
                origin = self._source(file, at, named["code"].strip(), sources.get(file), trees.get(file))
                line = line.replace(file, _short(file))  # noqa: PLW2901 - the folder is the user's
            elif _NO_FILE.match(line):
                origin = None
            if not line.strip():
                continue
            row = self._row("fx", number, line)
            if (head := _FORWARD.match(line)) is not None:
                for name in re.findall(r"(\w+)(?:: \"[^\"]*\")?(?:, |$)", head["arguments"]):
                    self.fx_of[name] = row
            elif (node := _FX_NODE.match(line)) is not None:
                self.fx_of[node["name"]] = row
                self._link(origin, row, "stack trace")

    def _source(self, file: str, line: int, code: str, text: str | None, tree: ast.Module | None) -> str:
        """Add the function that a line of the program stands in, where its text is known, and return the line's row."""
        short = _short(file)
        lines = text.split("\n") if text is not None else []
        around = _function(tree, line) if tree is not None else None
        # What stands there now is the program only if it says what the graph says.
        if around is not None and line <= len(lines) and lines[line - 1].strip() == code:
            for number in range(around[0], around[1] + 1):
                self._row("source", number, lines[number - 1], short, of=short)
        return self._row("source", line, code, short, of=short)

    # --- Inductor's IR

    def _ir(self, level: str, marked: str) -> None:
        marks = links.marks(marked)
        ops: dict[str, list[str]] = defaultdict(list)
        part = ""
        for number, line in enumerate(links.unmarked(marked).split("\n"), 1):
            mark = marks.get(number)
            if not line.strip():
                continue
            is_node = mark is not None and mark.op is None
            if is_node and not line.startswith(" "):
                part = line.partition(":")[0]
            row = self._row(level, number, line, part)
            if mark is None:
                continue
            if is_node:
                self.nodes[level][row] = mark
            elif mark.op is not None:
                ops[mark.op].append(row)
            if level == "ir_pre":
                for name in mark.fx:
                    self._link(self.fx_of.get(name), row, "origins" if is_node else "loop body")
        self.ops[level] = dict(ops)

    def _fusion(self) -> None:
        for op, rows in self.ops["ir_post"].items():
            for before in self.ops["ir_pre"].get(op, []):
                for row in rows:
                    self._link(before, row, "loop body")
        for before, mark in self.nodes["ir_pre"].items():
            for row, after in self.nodes["ir_post"].items():
                if set(mark.ir.split(",")) <= set(after.ir.split(",")):
                    self._link(before, row, "scheduler node")

    # --- C++

    def _cpp(self, marked: str, mappings: Mapping[str, Any]) -> None:
        marks = links.marks(marked)
        lines = links.unmarked(marked).split("\n")
        handles: dict[str, list[str]] = defaultdict(list)  # a kernel as the mappings name it -> its rows
        heads: dict[str, str] = {}
        at = 0
        for kernel in artefacts.kernels("\n".join(lines)):
            at = next(n for n in range(at, len(lines)) if lines[n].startswith(f"{kernel.name} = async_compile"))
            # The source begins on the assignment's own line.
            for offset, line in enumerate(kernel.lines):
                number = at + 1 + offset
                if not line.strip() or not offset:
                    continue
                row = self._row("cpp", number, line, kernel.name)
                if " kernel(" in line:
                    heads[kernel.name] = row
                if number in marks:
                    self._statement(row, marks[number])
        for number, line in enumerate(lines, 1):
            if (named := _HANDLE.match(line)) is None or number >= len(lines):
                continue
            row = self._row("cpp", number + 1, lines[number].strip(), "call")
            for handle in named["handles"].split(", "):
                name = handle.strip().rpartition(":")[0]
                handles[handle.strip()] += [row, *([heads[name]] if name in heads else [])]
        self._mapped(mappings.get("cppCodeToPost") or {}, handles)

    def _statement(self, row: str, mark: links.Mark) -> None:
        self.marks[row] = mark
        before = self.ops["ir_post"].get(mark.op or "", [])
        for one in before:
            self._link(one, row, "loop body")
        if not before:
            for name in mark.fx:
                self._link(self.fx_of.get(name), row, "line mark")

    def _mapped(self, kernels: Mapping[str, list[str]], handles: Mapping[str, list[str]]) -> None:
        for handle, names in kernels.items():
            for row in handles.get(handle, []):
                for name in names:
                    self._link(self.fx_of.get(name), row, "provenance mappings")
                for node, mark in self.nodes["ir_post"].items():
                    if mark.fx and set(mark.fx) <= set(names):
                        self._link(node, row, "provenance mappings")

    # --- who is at fault

    def accuse(self, statements: Collection[str], fx: str | None) -> None:
        """Mark the rows that lead to the wrong statements; where there are none, the FX node and its line."""
        wrong = {
            row
            for row, mark in self.marks.items()
            if self.rows["cpp"][row]["text"].strip() in statements and (fx is None or fx in mark.fx)
        }
        if not wrong and fx in self.fx_of:
            wrong = {self.fx_of[fx]}
        self.guilty = self._before(wrong)

    def _before(self, rows: Iterable[str]) -> set[str]:
        """Return ``rows`` and all that lead to them."""
        leading: dict[str, list[str]] = defaultdict(list)
        for start, end in self.links:
            leading[end].append(start)
        found, left = set(), list(rows)
        while left:
            row = left.pop()
            if row not in found:
                found.add(row)
                left += leading[row]
        return found

    # --- the answer

    def shorten(self) -> None:
        """Leave out what does not belong to the first kernels, or to the guilty one, where the program is long."""
        rows = self.rows["cpp"]
        if len(rows) <= MOST_LINES and all(len(one) <= 2 * MOST_LINES for one in self.rows.values()):
            return
        parts = list(dict.fromkeys(row["part"] for row in rows.values() if row["part"] != "call"))
        accused = {rows[one]["part"] for one in self.guilty if one in rows}
        parts.sort(key=lambda part: part not in accused)
        sizes = {part: sum(row["part"] == part for row in rows.values()) for part in parts}
        kept: set[str] = set()
        size = 0
        for part in parts:
            if not kept or size + sizes[part] <= MOST_LINES:
                kept.add(part)
                size += sizes[part]
        shown = self._before(one for one, row in rows.items() if row["part"] in kept) | self.guilty
        for column, those in self.rows.items():
            used = {row["part"] for one, row in those.items() if one in shown}
            whole = column in {"ir_pre", "ir_post"}
            left = {one: row for one, row in those.items() if one in shown or (whole and row["part"] in used)}
            if len(left) > 2 * MOST_LINES:
                left = {one: row for one, row in left.items() if one in shown}
            self.left_out += len(those) - len(left)
            self.rows[column] = left
        there = {one for those in self.rows.values() for one in those}
        self.links = {pair: by for pair, by in self.links.items() if set(pair) <= there}

    def answer(self) -> dict[str, Any]:
        """Return all that was found."""
        wrong = {one for one in self.guilty if one.startswith("cpp:")}
        files = list(dict.fromkeys(row["part"] for row in self.rows["source"].values()))
        return {
            **{
                column: sorted(
                    rows.values(), key=lambda row: (files.index(row["part"]) if column == "source" else 0, row["line"])
                )
                for column, rows in self.rows.items()
            },
            "links": [
                {"from": start, "to": end, "by": by, "guilty": end in wrong and start in self.guilty}
                for (start, end), by in self.links.items()
            ],
            "guilty": [one for column in COLUMNS for one in self.rows[column] if one in self.guilty],
            "left_out": self.left_out,
        }


def _short(file: str) -> str:
    """Return a path without the folders of one machine: below site-packages, or the name alone."""
    below = file.rpartition("/site-packages/")[2]
    return below if below != file else file.rpartition("/")[2]


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _function(tree: ast.Module, line: int) -> tuple[int, int] | None:
    """Return the first and the last line of the innermost function that ``line`` stands in."""
    around = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return min(around, key=lambda one: one[1] - one[0], default=None)
