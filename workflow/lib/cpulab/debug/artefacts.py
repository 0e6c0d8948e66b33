"""What the files that TORCH_COMPILE_DEBUG=1 dumps say: FX nodes, IR nodes, and the kernels of the output code."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

# The five files of the tutorial, by its names.
DUMPED = (
    "fx_graph_runnable.py",
    "fx_graph_transformed.py",
    "ir_pre_fusion.txt",
    "ir_post_fusion.txt",
    "output_code.py",
)
PROVENANCE = "inductor_provenance_tracking_node_mappings.json"

# A record of torch's own logger ("W1129 21:50:55.724000 11885 torch/_inductor/debug.py:545] ..."), whatever its level.
_LOG_RECORD = re.compile(r"^[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ (?:[\w./-]*/)?torch/")
_DEBUG_TRACE = re.compile(r"debug trace: (?P<path>\S.*?)\s*$", re.MULTILINE)


def debug_lines(output: str) -> list[str]:
    """Return the lines of a program's output that are debugging information of PyTorch's compiler.

    These are the records of torch's logger and every mention of a debug trace. What other libraries print, such as the
    settings that KMP_SETTINGS=1 asks of OpenMP, is not among them.
    """
    return [line for line in output.splitlines() if _LOG_RECORD.match(line) or "debug trace" in line]


def trace_paths(output: str) -> list[str]:
    """Return the folders that the program's output names as debug traces, in order."""
    return [found["path"] for found in _DEBUG_TRACE.finditer(output)]


_ACCURACY = re.compile(r"Accuracy failed: (?P<message>.*?tol=(?P<tolerance>[\d.eE+-]*\d).*?)\s*$", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: .*)?$", re.MULTILINE)


def accuracy_message(output: str) -> tuple[str | None, float | None]:
    """Return what PyTorch's comparison says of a wrong result, and its tolerance; (None, None) when it says nothing."""
    found = _ACCURACY.search(output)
    return (f"Accuracy failed: {found['message']}", float(found["tolerance"])) if found is not None else (None, None)


def last_exception(output: str) -> str | None:
    """Return the type of the exception that ended a Python program, from the last traceback in its output."""
    _, _, traceback = output.rpartition("Traceback (most recent call last):")
    found = _EXCEPTION.search(traceback)
    return found["type"] if found is not None and traceback != output else None


# --- FX graph ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FxNode:
    """One call_function node: its name and what it calls (``torch.ops.aten.neg.default``)."""

    name: str
    target: str


def fx_nodes(text: str) -> list[FxNode]:
    """Return the call_function nodes of a dumped FX graph (runnable, readable or transformed), in its order.

    Raises:
        SyntaxError: the text is not a dumped graph.

    """
    # A transformed graph is a class with a lambda's name, which Python cannot parse.
    tree = ast.parse(text.replace("class <lambda>(", "class GraphModule("))
    forward = next(
        (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "forward"), None
    )
    nodes = []
    for statement in forward.body if forward is not None else []:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ):
                pass
            case _:
                continue
        if isinstance(value, ast.Call):
            nodes.append(FxNode(name, ast.unparse(value.func)))
        elif isinstance(value, ast.Subscript):
            nodes.append(FxNode(name, "operator.getitem"))
    return nodes


@dataclass(frozen=True)
class Origin:
    """Where in the user's program FX nodes come from: file, line number, and the line itself."""

    file: str
    line: int
    code: str


_ORIGIN = re.compile(r"^\s*# File: (?P<file>.+?):(?P<line>\d+) in \S+, code: (?P<code>.*)$", re.MULTILINE)


def origins(text: str) -> list[Origin]:
    """Return the lines of the user's program that a readable or transformed FX graph names."""
    return [Origin(one["file"], int(one["line"]), one["code"].strip()) for one in _ORIGIN.finditer(text)]


# --- Inductor's IR -------------------------------------------------------------------------------


@dataclass(frozen=True)
class IrNode:
    """One scheduler node of ir_pre_fusion.txt or ir_post_fusion.txt.

    ``ops``: what it computes, in order, loads, stores and index arithmetic left out; ``group``: its iteration space;
    ``dependencies``: the buffers it reads; ``writes``: those it writes.
    """

    name: str
    ops: list[str]
    group: list[int]
    dependencies: list[str]
    writes: list[str]


_IR_NODE = re.compile(r"^(?P<name>\w+): \w*SchedulerNode\(", re.MULTILINE)
_IR_OP = re.compile(r"\bops\.(?P<op>\w+)\(")
_MEMORY_ACCESS = re.compile(r"(?:MemoryDep|StarDep)\((?:name=)?'(?P<buffer>\w+)'")
_MOVES = frozenset({"load", "store", "store_reduction", "get_index", "index_expr", "constant", "output"})


def ir_nodes(text: str) -> list[IrNode]:
    """Return the scheduler nodes of a dumped IR, in its order."""
    starts = [*_IR_NODE.finditer(text)]
    ends = [start.start() for start in starts[1:]] + [len(text)]
    nodes = []
    for start, end in zip(starts, ends, strict=True):
        name, body = start["name"], text[start.start() : end]
        group = re.search(rf"^{name}\.group\.iteration = (?P<group>.+)$", body, re.MULTILINE)
        # The iteration space of the loops, then that of the reduction: ((8390, 8), ()).
        sizes = re.findall(r"\d+", group["group"]) if group is not None else []
        nodes.append(
            IrNode(
                name,
                [op["op"] for op in _IR_OP.finditer(body) if op["op"] not in _MOVES],
                [int(size) for size in sizes],
                sorted(set(_accesses(body, name, "met_dependencies") + _accesses(body, name, "unmet_dependencies"))),
                _accesses(body, name, "writes"),
            )
        )
    return nodes


def _accesses(body: str, name: str, what: str) -> list[str]:
    # A list is printed on the same line or indented below it, up to the node's next attribute.
    found = re.search(rf"^{name}\.{what} =(?P<list>.*?)(?=^{name}\.|\Z)", body, re.MULTILINE | re.DOTALL)
    return [one["buffer"] for one in _MEMORY_ACCESS.finditer(found["list"])] if found is not None else []


# --- output code ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """One C++ kernel of output_code.py. ``source`` begins with an empty line, as the file that is compiled does."""

    name: str
    source: str

    @property
    def lines(self) -> list[str]:
        """Its lines; number n of a compiler's message is ``lines[n - 1]``."""
        return self.source.split("\n")

    @property
    def is_vectorized(self) -> bool:
        """Whether it works on vectors of elements."""
        return "at::vec::" in self.source

    @property
    def arguments(self) -> list[str]:
        """Names of its pointer arguments."""
        signature = re.search(r"\bkernel\((?P<arguments>[^)]*)\)", self.source)
        return re.findall(r"\*\s*(?:__restrict__\s*)?(\w+)", signature["arguments"]) if signature is not None else []

    @property
    def statements(self) -> list[int]:
        """Numbers (from 1) of the lines that compute or store: they speak of a temporary or of an argument."""
        word = re.compile(rf"\b(?:tmp\w+|{'|'.join([*self.arguments, 'tmp0'])})\b")
        return [
            number for number, line in enumerate(self.lines, 1) if line.rstrip().endswith(";") and word.search(line)
        ]


def kernels(text: str) -> list[Kernel]:
    """Return the C++ kernels of an output_code.py, in its order.

    Raises:
        SyntaxError: the text is not Python.

    """
    found = []
    for statement in ast.parse(text).body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr="cpp_pybinding"), args=[_, ast.Constant(value=str(source)), *_]),
            ):
                found.append(Kernel(name, source))
            case _:
                continue
    return found


_ASSIGNMENT = re.compile(r"^\s*auto (?P<result>tmp\d+) = (?P<value>.+);$")


@dataclass(frozen=True)
class Edit:
    """One statement of a kernel, before and after an edit, and the whole file with it."""

    before: str
    after: str
    text: str


def without_first_operation(text: str) -> Edit | None:
    """Return output_code.py with the first operation of its first kernel undone: its result is its operand.

    None when there is no kernel, or none of its statements computes from a temporary.
    """
    for kernel in kernels(text)[:1]:
        loads = re.compile(rf"\b(?:{'|'.join(kernel.arguments)})\b")
        for line in kernel.lines:
            statement = _ASSIGNMENT.match(line)
            if statement is None or loads.search(statement["value"]):
                continue
            operand = re.search(r"\btmp\d+\b", statement["value"])
            if operand is None:
                continue
            edited = line.replace(f"= {statement['value']};", f"= {operand[0]};")
            return Edit(line.strip(), edited.strip(), text.replace(line, edited, 1))
    return None


def uses(kernel: Kernel, expressions: list[str]) -> list[int]:
    """Return the numbers (from 1) of the kernel's lines that assign one of ``expressions`` and nothing else."""
    return [
        number
        for number, line in enumerate(kernel.lines, 1)
        if (statement := _ASSIGNMENT.match(line)) is not None and statement["value"] in expressions
    ]
