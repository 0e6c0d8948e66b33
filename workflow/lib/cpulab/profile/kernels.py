"""What the C++ kernels of output_code.py do: the ops of each, in order, and how its loops are laid out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFINITION = re.compile(
    r"^(\w+) = async_compile\.cpp\w*\((?:\[[^\]]*\], )?r?'''\n(.*?)'''\)$", re.MULTILINE | re.DOTALL
)
_PROFILED_AS = re.compile(r'\("(graph_\d+_\w+)"')
_SIGNATURE = re.compile(r'extern "C"\s.*?\bkernel\w*\((.*?)\)\s*\{', re.DOTALL)
_LOOP = re.compile(r"for ?\(\w+ (x\d+)=(.+?); \1<(.+?); \1\+=")
_STATEMENT = re.compile(r"(?:auto )?(tmp\w*) = (.+);")
_TEMPORARY = re.compile(r"tmp\w+")

# A cast changes how a value is held, and a constant or a load brings one in: none of them is an op.
_CAST = re.compile(
    r"(?:(?:c10::convert|static_cast|at::vec::(?:convert|Vec\w+))<[^()]+?>|decltype\(tmp\w+\)"
    r"|float|double|bool|u?int\d+_t|at::BFloat16|at::Half)?\((.+)\)"
)
_CAST_METHOD = re.compile(r"\.(?:template )?(?:cast|to)<.+?>\(\)")
_LOAD = re.compile(r"(?:at::vec::Vec\w+<[^()]+>::(?:from\(tmp\w+\)\.template )?loadu\b|(?:in_out|in|out)_ptr\d+\[)")
_BINARY = re.compile(r"-?[\w.]+ (\+|-|\*|/|<|<=|>|>=|==|!=|&|\||\^|&&|\|\|) -?[\w.]+")
_METHOD = re.compile(r"tmp\w+\.(\w+)\(.*\)")
_FUNCTION = re.compile(r"(?:at::vec::|std::)?(\w+)\(.*\)")
_RELU = re.compile(r"(?:at::vec::clamp_min|std::max)\((tmp\w+), decltype\(\1\)\(0\)\)")
_RSQRT = re.compile(r"1 / std::sqrt\(tmp\w+\)")
_SIGMOID = re.compile(
    r"decltype\((tmp\w+)\)\(1\) ?/ ?\(decltype\(\1\)\(1\) \+ (?:\1\.neg\(\)\.exp\(\)|std::exp\(-\1\))\)"
)

_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq",
    "!=": "ne", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor",
    "&&": "logical_and", "||": "logical_or",
}  # fmt: skip
_REDUCTIONS = {"add": "sum", "mul": "prod", "maximum": "max", "minimum": "min"}
_FUNCTIONS = {"max_propagate_nan": "maximum", "min_propagate_nan": "minimum"}
_DTYPES = {
    "float": "float32", "double": "float64", "int64_t": "int64", "int32_t": "int32", "int16_t": "int16",
    "int8_t": "int8", "uint8_t": "uint8", "bool": "bool", "at::BFloat16": "bfloat16", "at::Half": "float16",
}  # fmt: skip


@dataclass
class Nest:
    """One loop nest: the extents of its loops from the outermost in, and its ops in the source's order."""

    parallel: bool
    extents: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    vectorized: bool = False

    @property
    def shape(self) -> str:
        """The extents as a shape: "(16384, 512)"."""
        return f"({', '.join(self.extents)}{',' if len(self.extents) == 1 else ''})"


@dataclass(frozen=True)
class Kernel:
    """One C++ kernel. ``profiled_as`` is the name it gives itself in a profile, None when it does not.

    ``line``: of its definition in the text, from 1.
    """

    name: str
    line: int
    profiled_as: str | None
    in_place: bool
    dtype: str
    nests: list[Nest]

    @property
    def ops(self) -> list[str]:
        """The ops of all its loop nests in the order of the source."""
        return [op for nest in self.nests for op in nest.ops]

    @property
    def vectorized(self) -> bool:
        """Whether every loop nest works on vectors."""
        return bool(self.nests) and all(nest.vectorized for nest in self.nests)

    @property
    def parallel(self) -> bool:
        """Whether the outermost loop of every nest, over rows, is shared among threads."""
        return bool(self.nests) and all(nest.parallel for nest in self.nests)

    @property
    def shape(self) -> str:
        """The shapes of its loop nests."""
        return "; ".join(nest.shape for nest in self.nests)


def parse(source: str) -> list[Kernel]:
    """Return the kernels that the text of an output_code.py defines, in its order."""
    return [
        _kernel(found[1], found[2], source.count("\n", 0, found.start()) + 1) for found in _DEFINITION.finditer(source)
    ]


def _kernel(name: str, source: str, line: int) -> Kernel:
    signature = _SIGNATURE.search(source)
    arguments = [argument.strip() for argument in signature[1].split(",")] if signature else []
    written = [argument for argument in arguments if re.search(r"\*\s*(?:in_)?out_ptr", argument)]
    types = dict.fromkeys(argument.split("*")[0].strip() for argument in written)
    profiled_as = _PROFILED_AS.search(source)
    return Kernel(
        name=name,
        line=line,
        profiled_as=profiled_as[1] if profiled_as else None,
        in_place=any("in_out_ptr" in argument for argument in arguments),
        dtype=", ".join(_DTYPES.get(one, one) for one in types),
        nests=list(_nests(source[signature.end() :] if signature else source)),
    )


def _nests(body: str) -> Iterator[Nest]:
    """Walk the body line by line; the code generator writes one brace, loop or statement a line.

    The code for what is left over after the last whole vector (C10_UNLIKELY) repeats the ops: passed over. What is
    computed outside any loop, on single elements, counts as a nest of shape ().
    """
    nest: Nest | None = None
    single = Nest(parallel=False)
    depth = nest_depth = 0
    left_over_depth: int | None = None
    omp_for = False
    loops: list[int] = []
    for line in map(str.strip, body.splitlines()):
        if line.startswith("if(C10_UNLIKELY") and left_over_depth is None:
            left_over_depth = depth
        elif loop := _LOOP.match(line):
            if nest is None:
                nest, nest_depth, loops = Nest(parallel=omp_for), depth, []
            # Of two loops side by side at one depth the first gives the extent.
            if not any(depth <= known for known in loops):
                loops.append(depth)
                nest.extents.append(_extent(loop[2], loop[3]))
        elif left_over_depth is None:
            (nest or single).ops.extend(_ops(line))
            if nest is not None:
                nest.vectorized |= "at::vec::Vec" in line
        omp_for = line.startswith("#pragma omp for") or (omp_for and line.startswith("#pragma"))
        depth += line.count("{") - line.count("}")
        if line.startswith("}"):
            if left_over_depth == depth:
                left_over_depth = None
            if nest is not None and depth <= nest_depth:
                yield nest
                nest = None
            if single.ops and depth == 0:
                yield single
                single = Nest(parallel=False)


def _extent(start: str, stop: str) -> str:
    first, last = (re.sub(r"(\d)L\b", r"\1", re.sub(r"static_cast<\w+>\((.+)\)", r"\1", end)) for end in (start, stop))
    if first == "0":
        return last
    return str(int(last) - int(first)) if first.isdigit() and last.isdigit() else f"{last} - {first}"


def _ops(line: str) -> list[str]:
    statement = _STATEMENT.fullmatch(line)
    # Putting together the parts of one vector or of all threads belongs to a reduction that is named already.
    if statement is None or "vec_reduce_all" in line or "_arr[" in line:
        return []
    target, expression = statement.groups()
    op = _op(expression)
    if op is None:
        return []
    return [_REDUCTIONS.get(op, op) if target.startswith("tmp_acc") else op]


def _op(expression: str) -> str | None:
    """Name what one C++ expression computes, None if nothing; one that has no name here stands for itself."""
    expression = _CAST_METHOD.sub("", expression)
    while (cast := _CAST.fullmatch(expression)) and _balanced(cast[1]):
        expression = cast[1]
    if _LOAD.match(expression):
        # A load whose place is computed from data: the lookup of an embedding or an index.
        return "indirect_load" if re.search(r"_ptr\d+\b.*\btmp", expression) else None
    if _TEMPORARY.search(expression) is None or _TEMPORARY.fullmatch(expression):
        return None
    if _RELU.fullmatch(expression):
        return "relu"
    if _SIGMOID.fullmatch(expression):
        return "sigmoid"
    if _RSQRT.fullmatch(expression):
        return "rsqrt"
    if binary := _BINARY.fullmatch(expression):
        return _OPERATORS[binary[1]]
    if "::blendv(" in expression:
        return "where"
    if " ? " in expression:
        return "masked" if re.search(r"tmp\w+\(\)", expression) else "where"
    if re.fullmatch(r"-tmp\w+", expression):
        return "neg"
    for form in (_METHOD, _FUNCTION):
        called = form.fullmatch(expression)
        if called and _balanced(expression.split("(", 1)[1][:-1]):
            return _FUNCTIONS.get(called[1], called[1])
    return expression


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0
