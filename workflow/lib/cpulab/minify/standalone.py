"""A reduced graph as one Python file that imports torch only and compares compiled with eager. Runs where torch is."""

from __future__ import annotations

import base64
import textwrap
import zlib
from typing import TYPE_CHECKING

import torch

from cpulab.minify.capture import number, rendered, storage_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpulab.minify.capture import Line

FUNCTION = "minimal"
# More elements than this are not written one by one.
LITERAL_ELEMENTS = 256
# Of text, compressed. A file with more would be no use to a reader.
LARGEST_TEXT = 200_000
_WIDTH = 88

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_HEAD = '''\
"""{title}

Run it: it exits with 1 and says what differs where the fault is, with 0 where eager
and compiled agree.
"""

{imports}

# A changed code generator is not in the keys of these caches.
config.fx_graph_cache = False
functorch_config.enable_autograd_cache = False
'''

_MAIN = '''\
def real(tensor):
    """Give floats as float64, complex numbers as pairs of them, all else as it is."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.double() if tensor.is_floating_point() else tensor


def differences(expected, actual, what):
    """Give what differs: integers and bools exactly, floats by more than rounding."""
    for place, (one, other) in enumerate(zip(expected, actual, strict=True)):
        kinds = [f"{{each.dtype}} {{tuple(each.shape)}}" for each in (one, other)]
        if kinds[0] != kinds[1]:
            yield f"{{what}} {{place}}: {{kinds[0]}} in eager, {{kinds[1]}} compiled"
            continue
        left, right = real(one), real(other)
        wrong = (left != right) & ~(left.isnan() & right.isnan())
        if wrong.any() and left.is_floating_point():
            largest = torch.where(left.isfinite(), left.abs(), 0.0).max()
            rounding = {ulps} * torch.finfo(one.dtype).eps * largest
            wrong &= ~((left - right).abs() <= rounding)
        if wrong.any():
            first = tuple(wrong.nonzero()[0].tolist())
            values = f"{{left[first].item()}} in eager, {{right[first].item()}} compiled"
            count = f"{{int(wrong.sum())}} of {{wrong.numel()}} elements differ"
            yield f"{{what}} {{place}}: {{count}}, first at {{first}}: {{values}}"


def main():
    """Compare eager with compiled, and return the exit status."""
    given, compiled_given = inputs(), inputs()
    with torch.no_grad():
        torch.manual_seed({seed})
        expected = {function}(*given)
        torch.manual_seed({seed})
        compiled = torch.compile({function}, fullgraph=True, dynamic=False)
        try:
            actual = compiled(*compiled_given)
        except Exception as error:  # noqa: BLE001
            print(f"compiled raises {{type(error).__name__}}: {{error}}")
            return 1
    found = [
        *differences(expected, actual, "output"),
        *differences(given, compiled_given, "input after the call"),
    ]
    print("\\n".join(found) or "eager and compiled agree")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
'''


class TooLarge(Exception):
    """A tensor that would not fit into the text of a program; the message gives its size."""


def function_source(
    lines: Sequence[Line], parameters: Sequence[str], outputs: Sequence[str], constants: Sequence[str] = ()
) -> str:
    """Return the source of the function ``minimal``; ``constants`` are assignments that come first."""
    body = [*constants]
    for line in lines:
        for definition in line.definitions:
            body += ["", *definition.splitlines(), ""]
        body.append(line.text)
    body.append(f"return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})")
    return "\n".join([f"def {FUNCTION}({', '.join(parameters)}):", *(f"    {line}".rstrip() for line in body)]) + "\n"


def is_written(value: torch.Tensor) -> bool:
    """Tell whether a tensor is small enough, or plain enough, to be written element by element."""
    flat = storage_of(value)
    return flat.numel() <= LITERAL_ELEMENTS or _is_constant(flat)


def generated(value: torch.Tensor) -> str:
    """Return an expression of a tensor like ``value``: its layout, dtype and range, with elements from a seed."""
    flat = storage_of(value)
    generator = "generator=torch.Generator().manual_seed(0)"
    if flat.dtype == torch.bool:
        source = f"torch.randint(2, ({flat.numel()},), {generator}).bool()"
    elif flat.is_complex():
        source = f"torch.randn({flat.numel()}, dtype={flat.dtype}, {generator})"
    elif flat.is_floating_point():
        finite = flat.double()[flat.double().isfinite()]
        low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)
        source = f"torch.rand({flat.numel()}, dtype=torch.float64, {generator})"
        source = f"({source} * {number(high - low)} + {number(low)}).to({flat.dtype})"
    else:
        signed = flat.to(torch.int64)
        low, end = int(signed.min()), min(int(signed.max()) + 1, 2**63 - 1)
        source = f"torch.randint({low}, {end}, ({flat.numel()},), {generator}).to({flat.dtype})"
    return source + _layout(value)


def written(value: torch.Tensor) -> str:
    """Return an expression that gives ``value`` bit for bit, with its strides.

    Raises:
        TooLarge: not even compressed would it be of use in a text.

    """
    flat = storage_of(value)
    if _is_constant(flat):
        source = f"{_elements(flat[:1])}.repeat({flat.numel()})"
    elif flat.numel() <= LITERAL_ELEMENTS:
        source = _elements(flat)
    else:
        source = _compressed(flat)
    return source + _layout(value)


def program(
    *, title: str, source: str, inputs: Sequence[tuple[str, str]], settings: Sequence[str], seed: int, ulps: float
) -> str:
    """Return the whole file.

    ``inputs``: name and expression of each; ``settings``: assignments to Inductor's ``config``; ``ulps``: what is
    rounding, in units in the last place of the largest element.
    """
    given = [line for name, expression in inputs for line in _assignment(name, expression)]
    imports = [
        "import torch",
        "from torch._functorch import config as functorch_config",
        "from torch._inductor import config",
    ]
    if any("base64" in line for line in given):
        imports = ["import base64", "import zlib", "", *imports]
    head = _HEAD.format(title=title, imports="\n".join(imports))
    makers = ["def inputs():", '    """Give the inputs, new ones each time."""', *given]
    makers.append(f"    return [{', '.join(name for name, _ in inputs)}]")
    documented = source.replace(":\n", f':\n    """{title}"""\n', 1)
    parts = [head + "".join(f"{line}\n" for line in settings), documented, "\n".join(makers) + "\n"]
    parts.append(_MAIN.format(function=FUNCTION, seed=seed, ulps=number(ulps)))
    return "\n\n".join(parts)


def _assignment(name: str, expression: str) -> list[str]:
    line = f"    {name} = {expression}"
    if len(line) <= _WIDTH:
        return [line]
    # Only the list of elements, or the text, is long; both may be broken at any comma or place.
    opening, closing = expression.find("["), expression.rfind("]")
    if expression.startswith("torch.frombuffer"):
        start, end = expression.index('"') + 1, expression.index('"', expression.index('"') + 1)
        pieces = textwrap.wrap(expression[start:end], _WIDTH - 12)
        middle = [f'        "{piece}"' for piece in pieces]
        return [f"    {name} = {expression[: start - 1]}", *middle, f"    {expression[end + 1 :]}  # fmt: skip"]
    if opening < 0:
        return [f"{line}  # fmt: skip"]
    elements = textwrap.wrap(expression[opening + 1 : closing], _WIDTH - 8, break_long_words=False)
    return [
        f"    {name} = {expression[: opening + 1]}",
        *(f"        {piece}" for piece in elements),
        f"    {expression[closing:]}  # fmt: skip",
    ]


def _is_constant(flat: torch.Tensor) -> bool:
    if flat.numel() < 2:
        return False
    bits = _bits(flat)
    return bool((bits == bits[0]).all())


def _bits(flat: torch.Tensor) -> torch.Tensor:
    if flat.is_complex():
        return torch.view_as_real(flat).contiguous().view(-1).view(torch.uint8).view(flat.numel(), -1)
    return flat.contiguous().view(_INTEGERS[flat.element_size()])


def _elements(flat: torch.Tensor) -> str:
    """Write elements as numbers; as their bits where numbers would not give the same bits, as for some NaN."""
    try:
        source = f"torch.tensor({rendered(flat.tolist())}, dtype={flat.dtype})"
        again = eval(source)  # noqa: S307 - our own rendering of numbers
        if torch.equal(_bits(again), _bits(flat)):
            return source
    except (RuntimeError, TypeError, ValueError, OverflowError):
        pass  # a dtype that torch.tensor does not make of numbers
    if flat.is_complex():
        parts = torch.view_as_real(flat).contiguous().view(-1)
        return f"torch.view_as_complex({_elements(parts)}.reshape(-1, 2))"
    bits = _bits(flat)
    return f"torch.tensor({bits.tolist()}, dtype={bits.dtype}).view({flat.dtype})"


def _compressed(flat: torch.Tensor) -> str:
    raw = flat.contiguous().view(torch.uint8) if not flat.is_complex() else torch.view_as_real(flat).view(torch.uint8)
    text = base64.b64encode(zlib.compress(bytes(raw.reshape(-1).tolist()), 9)).decode()
    if len(text) > LARGEST_TEXT:
        raise TooLarge(f"{flat.numel()} elements of {flat.dtype}")
    return f'torch.frombuffer(bytearray(zlib.decompress(base64.b64decode("{text}"))), dtype={flat.dtype})'


def _layout(value: torch.Tensor) -> str:
    if value.dim() == 1 and value.is_contiguous() and value.storage_offset() == 0:
        return ""
    if value.is_contiguous() and value.storage_offset() == 0:
        return f".reshape({rendered(tuple(value.shape))})"
    offset = f", {value.storage_offset()}" if value.storage_offset() else ""
    return f".as_strided({rendered(tuple(value.shape))}, {rendered(tuple(value.stride()))}{offset})"
