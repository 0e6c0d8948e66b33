"""What a message of the C++ compiler says about a call for which there is no function."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

# GCC quotes with U+2018 and U+2019 in a UTF-8 locale and with apostrophes in others.
_QUOTED = r"[\u2018'](?P<{name}>.+?)[\u2019']"


@dataclass(frozen=True)
class NoMatchingFunction:
    """One "no matching function" error and the notes that belong to it.

    ``file`` and ``line``: where the call stands; ``source``: that line as the compiler shows it; ``call``: the call
    with the types of its operands; ``candidate``: the function that was meant; ``template_parameter`` and
    ``conflicting_types``: why it does not fit. What the message does not say is None or empty.
    """

    file: str
    line: int
    source: str | None
    call: str
    function: str
    operand_types: list[str]
    candidate: str | None
    template_parameter: str | None
    conflicting_types: list[str]


_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? error: no matching function for call to "
    + _QUOTED.format(name="call")
    + r"\s*$",
    re.MULTILINE,
)
_NEXT_ERROR = re.compile(r"^[^\n:]+:\d+:(?:\d+:)? error: ", re.MULTILINE)
_CANDIDATE = re.compile(r"note: candidate: " + _QUOTED.format(name="candidate") + r"\s*$", re.MULTILINE)
_CONFLICT = re.compile(
    r"note: +deduced conflicting types for parameter "
    + _QUOTED.format(name="parameter")
    + r" \("
    + _QUOTED.format(name="one")
    + " and "
    + _QUOTED.format(name="other")
    + r"\)"
)


def parse(message: str) -> NoMatchingFunction | None:
    """Return the first "no matching function" error in GCC's ``message``, or None when there is none."""
    error = _ERROR.search(message)
    if error is None:
        return None
    following = _NEXT_ERROR.search(message, error.end())
    block = message[error.end() : following.start() if following is not None else len(message)]
    source = re.search(rf"^\s*{error['line']} \|(?P<source>.*)$", block, re.MULTILINE)
    candidate = _CANDIDATE.search(block)
    conflict = _CONFLICT.search(block)
    function, _, operands = error["call"].partition("(")
    return NoMatchingFunction(
        file=PurePosixPath(error["file"]).name,
        line=int(error["line"]),
        source=source["source"].strip() if source is not None else None,
        call=error["call"],
        function=function,
        operand_types=split_types(operands.removesuffix(")")),
        candidate=candidate["candidate"] if candidate is not None else None,
        template_parameter=conflict["parameter"] if conflict is not None else None,
        conflicting_types=[conflict["one"], conflict["other"]] if conflict is not None else [],
    )


def split_types(types: str) -> list[str]:
    """Split a list of C++ types at its own commas, not at those of template arguments."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(types):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(types[start:place].strip())
            start = place + 1
    last = types[start:].strip()
    return [*parts, last] if last else parts


def changed_type(error: NoMatchingFunction, variable: str) -> tuple[str | None, str | None]:
    """Return (type before, type after) of the operand ``variable`` of the failing call, as the compiler deduced them.

    After: the type of ``variable`` in the call. Before: the type it conflicts with, which the call's other operands
    still have. (None, None) when the message does not tell.
    """
    if error.source is None:
        return None, None
    arguments = re.search(rf"\b{re.escape(error.function)}\((?P<arguments>.*)\)", error.source)
    names = split_types(arguments["arguments"]) if arguments is not None else []
    if variable not in names or len(names) != len(error.operand_types):
        return None, None
    after = error.operand_types[names.index(variable)].removesuffix("&").strip()
    before = next((one for one in error.conflicting_types if one != after), None)
    return before, after
