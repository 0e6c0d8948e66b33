"""What of two results differs, each kind under its own name, and what explains it. Runs in the measured process.

A difference of values is explained element by element, by the first of `CAUSES` that fits; what none explains is wrong.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Largest difference that is rounding of the output alone, in units in the last place (machine epsilons) of its dtype,
# relative to the largest magnitude of the tensor: normwise, as backward stable algorithms promise no more (Higham,
# Accuracy and Stability of Numerical Algorithms, 2nd ed., section 1.5).
OUTPUT_ULPS = 8.0

# The same where the function was not observed: its roundings are not known then.
UNOBSERVED_ULPS = 64.0

# Where eager itself is off, compiled may be this many times as far from float64 (torch._dynamo.utils.same's factor).
NO_WORSE = 2.0

# In the order in which they are tried. "rounding": the bound of the dtypes and the terms. "sign_of_zero": the value is
# what eager gives with the sign of a zero changed. "undefined_conversion": it hangs on a float that no integer of the
# wanted type can hold. "ill_conditioned": float64 itself moves as much when an input moves by one unit in the last
# place. "low_precision": the rounding of float16 or bfloat16 intermediates. "nearer": as near to float64 as eager is.
CAUSES = ("rounding", "sign_of_zero", "undefined_conversion", "ill_conditioned", "low_precision", "nearer")

# A difference of these names is wrong unless it is explained; strides and the sign of zero have their names alone.
_WRONG = frozenset({"structure", "shape", "dtype", "values"})

_LOW = frozenset({torch.float16, torch.bfloat16})

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What is known of the right result: each a list with an entry for every leaf of it, None where nothing is known.

    ``reference``: the result in float64. ``allowed``: how far rounding may take an element from it, absolute.
    ``sensitivity``: how far one unit in the last place of an input takes it. ``unstable``: where results that are
    rounded otherwise disagree, on an integer or on what is finite. ``zeros``, ``conversions``: eager's results with the
    sign of zeros changed, and with other integers in place of the undefined ones. ``low_precision``: an intermediate is
    float16 or bfloat16.
    """

    reference: Sequence[Tensor | None] | None = None
    allowed: Sequence[Tensor | None] | None = None
    sensitivity: Sequence[Tensor | None] | None = None
    unstable: Sequence[Tensor | None] | None = None
    zeros: Sequence[Sequence[Any]] = ()
    conversions: Sequence[Sequence[Any]] = ()
    low_precision: bool = False

    def at(self, place: int, like: Tensor) -> _Known:
        """Return what is known of the leaf at ``place``, as far as it has the shape of ``like``."""

        def one(entries: Sequence[Any] | None) -> Tensor | None:
            entry = None if entries is None or place >= len(entries) else entries[place]
            if not isinstance(entry, Tensor):
                return None
            entry = plain(entry)
            return entry if entry.shape == like.shape else None

        return _Known(
            reference=one(self.reference),
            allowed=one(self.allowed),
            sensitivity=one(self.sensitivity),
            unstable=one(self.unstable),
            zeros=[leaf for variant in self.zeros if (leaf := one(variant)) is not None],
            conversions=[leaf for variant in self.conversions if (leaf := one(variant)) is not None],
            low_precision=self.low_precision,
        )


@dataclasses.dataclass(frozen=True)
class _Known:
    """`Evidence` for one leaf."""

    reference: Tensor | None
    allowed: Tensor | None
    sensitivity: Tensor | None
    unstable: Tensor | None
    zeros: list[Tensor]
    conversions: list[Tensor]
    low_precision: bool


class _Causes:
    """Counts the elements that each cause explains; an element goes to the first that fits."""

    def __init__(self, like: Tensor) -> None:
        self.left = torch.ones_like(like, dtype=torch.bool)
        self._found: dict[str, int] = {}

    def explain(self, cause: str, holds: Tensor) -> None:
        """Give what is left and ``holds`` to ``cause``."""
        self._found[cause] = self._found.get(cause, 0) + int((self.left & holds).sum())
        self.left = self.left & ~holds

    def counted(self) -> dict[str, int]:
        """Return cause -> elements, where there are any."""
        return {cause: count for cause, count in {**self._found, "unexplained": int(self.left.sum())}.items() if count}


@dataclasses.dataclass(frozen=True)
class Flat:
    """A result as it was: its `leaves` and its `structure`, shared with nothing."""

    leaves: list[tuple[str, Any]]
    structure: str


def frozen(value: Any) -> Flat:
    """Return ``value`` as it is now: tensors copied with their strides and without history, objects by their type."""
    memo: dict[int, Any] = {}

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf if isinstance(leaf, _PLAIN) else f"<{type(leaf).__qualname__}>"
        leaf = leaf.detach()
        # The whole storage: an expanded tensor stays one.
        return copy.deepcopy(leaf, memo) if leaf.layout == torch.strided else leaf.clone()

    return Flat([(path, one(leaf)) for path, leaf in leaves(value)], structure(value))


def leaves(value: Any) -> list[tuple[str, Any]]:
    """Return what ``value`` holds with the path of each: through tuples, lists, dicts, dataclasses and plain objects.

    A path reads like Python: ``[0]['logits'].mask``; that of a bare tensor is ``result``.
    """
    if isinstance(value, Flat):
        return value.leaves
    found: list[tuple[str, Any]] = []
    _collect(value, "", found, set())
    return [(path or "result", leaf) for path, leaf in found]


def _collect(value: Any, path: str, found: list[tuple[str, Any]], above: set[int]) -> None:
    if id(value) in above:
        return
    inside = above | {id(value)}
    if isinstance(value, torch.Tensor):
        found.append((path, value))
    elif isinstance(value, dict):
        for key in value:
            _collect(value[key], f"{path}[{key!r}]", found, inside)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name in value._fields:
            _collect(getattr(value, name), f"{path}.{name}", found, inside)
    elif isinstance(value, (list, tuple)):
        for place, one in enumerate(value):
            _collect(one, f"{path}[{place}]", found, inside)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            _collect(getattr(value, field.name, None), f"{path}.{field.name}", found, inside)
    elif type(value).__module__ == "numpy" and hasattr(value, "shape"):
        try:
            found.append((path, torch.as_tensor(value)))
        except TypeError:
            found.append((path, value))
    elif _is_plain_object(value):
        for name in sorted(vars(value)):
            _collect(vars(value)[name], f"{path}.{name}", found, inside)
    else:
        found.append((path, value))


def _is_plain_object(value: Any) -> bool:
    return (
        hasattr(value, "__dict__")
        and not callable(value)
        and not isinstance(value, type)
        and type(value).__module__.split(".")[0] not in {"builtins", "types", "torch", "_io"}
    )


def structure(value: Any) -> str:
    """Return the nesting of ``value`` as text: two results of equal structure have equal leaves' paths."""
    if isinstance(value, Flat):
        return value.structure
    kinds = [f"{path}: {'tensor' if isinstance(leaf, torch.Tensor) else _kind(leaf)}" for path, leaf in leaves(value)]
    return "; ".join(kinds) or f"empty {type(value).__name__}"


def _kind(leaf: Any) -> str:
    # A Python number may come back as another kind of number that is equal to it.
    return "number" if isinstance(leaf, (bool, int, float, complex, torch.SymInt, torch.SymFloat)) else _name(leaf)


def _name(leaf: Any) -> str:
    return "none" if leaf is None else type(leaf).__name__


def compare(
    expected: Any,
    actual: Any,
    *,
    reference: Any = None,
    terms: int = 1,
    evidence: Evidence | None = None,
    strides: bool = True,
) -> list[dict[str, Any]]:
    """Return what of ``actual`` (compiled) differs from ``expected`` (eager), one entry an output and name.

    ``reference``: the same result in float64, if there is one; ``terms``: terms of the largest reduction, for the
    bound sqrt(terms) u (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput.
    41, 2019). ``evidence`` takes the place of both where the function was observed (`cpulab.explain.shadow`).

    An entry: {output, name, largest_error, relative_error, elements, of, causes, wrong, eager_error, compiled_error}.
    Names: "structure", "dtype", "shape", "strides", "values", "nan_mask", "sign_of_zero". Errors are largest absolute
    ones, None where they are not finite; ``relative_error`` is by the tensor's largest magnitude; ``elements`` differ
    ``of`` so many; ``causes``: cause -> elements that it explains, "unexplained" among them.
    """
    if evidence is None:
        evidence = Evidence(reference=None if reference is None else [leaf for _, leaf in leaves(reference)])
    ours, theirs = leaves(expected), leaves(actual)
    if structure(expected) != structure(actual):
        return [_whole("result", "structure", f"{structure(expected)} in eager, {structure(actual)} compiled")]
    found: list[dict[str, Any]] = []
    for place, ((path, one), (_, other)) in enumerate(zip(ours, theirs, strict=True)):
        found += _leaf(path, one, other, functools.partial(evidence.at, place), terms)
    return found if strides else [one for one in found if one["name"] != "strides"]


def differs(
    expected: Any,
    actual: Any,
    *,
    reference: Any = None,
    terms: int = 1,
    evidence: Evidence | None = None,
) -> bool:
    """Tell whether ``actual`` is wrong: something differs that rounding and the like do not explain. As `compare`."""
    return any(
        one["wrong"]
        for one in compare(expected, actual, reference=reference, terms=terms, evidence=evidence, strides=False)
    )


def inputs_after_call(
    expected: Any, actual: Any, *, terms: int = 1, evidence: Evidence | None = None
) -> list[dict[str, Any]]:
    """Return what differs between the arguments after an eager and after a compiled call, as `compare` does."""
    found = compare(expected, actual, terms=terms, evidence=evidence, strides=False)
    return [
        {**one, "name": "inputs_after_call", "output": f"inputs{one['output']}", "detail": one["detail"] or one["name"]}
        for one in found
        if one["name"] != "sign_of_zero"
    ]


def _leaf(path: str, one: Any, other: Any, known: Callable[[Tensor], _Known], terms: int) -> list[dict[str, Any]]:
    if not isinstance(one, Tensor):
        return _scalar(path, one, other)
    found = []
    if one.dtype != other.dtype:
        found.append(_whole(path, "dtype", f"{one.dtype} in eager, {other.dtype} compiled"))
    if one.shape != other.shape:
        found.append(_whole(path, "shape", f"{tuple(one.shape)} in eager, {tuple(other.shape)} compiled"))
    if one.layout != other.layout:
        found.append(_whole(path, "structure", f"{one.layout} in eager, {other.layout} compiled"))
    if found:
        return found
    if one.layout == torch.strided and _strides(one) != _strides(other):
        found.append(_whole(path, "strides", f"{one.stride()} in eager, {other.stride()} compiled"))
    return found + _values(path, one, other, known, terms)


def _strides(tensor: Tensor) -> list[int]:
    """Return the strides that say where elements are: those of dimensions of more than one."""
    if not tensor.numel():
        return []
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def _scalar(path: str, one: Any, other: Any) -> list[dict[str, Any]]:
    if not isinstance(one, _PLAIN) or not isinstance(other, _PLAIN):
        # Other objects are new in each call.
        return [] if type(one) is type(other) else [_whole(path, "values", f"{type(one)} and {type(other)}")]
    if one == other or (one != one and other != other):  # noqa: PLR0124 - NaN is not itself
        return []
    if isinstance(one, float) and isinstance(other, float):
        # A float read out of a tensor has been rounded to that tensor's dtype: float32, as far as one can know.
        ours, theirs = (torch.tensor(value, dtype=torch.float32) for value in (one, other))
        return _values(path, ours, theirs, functools.partial(Evidence().at, 0), 1)
    return [_whole(path, "values", f"{one!r} in eager, {other!r} compiled")]


def _whole(path: str, name: str, detail: str | None) -> dict[str, Any]:
    return {
        "output": path, "name": name, "detail": detail, "largest_error": None, "relative_error": None, "elements": None,
        "of": None, "causes": {"unexplained": 1} if name in _WRONG else {}, "wrong": name in _WRONG,
        "eager_error": None, "compiled_error": None,
    }  # fmt: skip


def plain(tensor: Tensor) -> Tensor:
    """Return a tensor that arithmetic takes: dense, without history, of a dtype that CPU kernels know, real."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.float()
    return tensor.resolve_neg()


def _values(
    path: str, one: Tensor, other: Tensor, known_of: Callable[[Tensor], _Known], terms: int
) -> list[dict[str, Any]]:
    dtype = one.dtype
    ours, theirs = plain(one), plain(other)
    if not ours.numel():
        return []
    if not ours.is_floating_point():
        differing = ours != theirs
        return [_integers(path, ours, theirs, differing, known_of(ours))] if bool(differing.any()) else []
    nan, nans = ours.isnan(), theirs.isnan()
    differing = (ours != theirs) & ~(nan & nans)
    found = []
    if bool(differing.any()):
        found.append(_floats(path, ours, theirs, differing, known_of(ours), dtype=dtype, terms=terms))
        if bool((nan != nans).any()):
            # As wrong as the values are.
            detail = f"{int(nan.sum())} NaN in eager, {int(nans.sum())} compiled"
            masks = {"name": "nan_mask", "detail": detail, "elements": int((nan != nans).sum())}
            found.insert(0, {**found[0], **masks})
    signs = int(((ours == 0) & (theirs == 0) & (torch.signbit(ours) != torch.signbit(theirs))).sum())
    if signs:
        found.append(
            {**_whole(path, "sign_of_zero", "-0.0 and 0.0"), "elements": signs, "of": ours.numel(),
             "causes": {"sign_of_zero": signs}, "largest_error": 0.0, "relative_error": 0.0}
        )  # fmt: skip
    return found


def _integers(path: str, ours: Tensor, theirs: Tensor, differing: Tensor, known: _Known) -> dict[str, Any]:
    at = differing
    one, other = ours[at], theirs[at]
    causes = _Causes(one)
    causes.explain("sign_of_zero", _any([zeros[at] == other for zeros in known.zeros], one))
    causes.explain("undefined_conversion", _varies([converted[at] for converted in known.conversions], one))
    if known.unstable is not None:
        causes.explain("low_precision" if known.low_precision else "ill_conditioned", known.unstable[at])
    # Exact in Python: integers that differ may be equal in float64.
    largest = max(abs(int(a) - int(b)) for a, b in zip(one[:100_000].tolist(), other[:100_000].tolist(), strict=True))
    return {
        **_whole(path, "values", None), "largest_error": float(largest), "elements": int(differing.sum()),
        "of": differing.numel(), "causes": causes.counted(), "wrong": bool(causes.left.any()),
    }  # fmt: skip


def _floats(
    path: str, ours: Tensor, theirs: Tensor, differing: Tensor, known: _Known, *, dtype: torch.dtype, terms: int
) -> dict[str, Any]:
    at = differing
    one, other = ours[at].double(), theirs[at].double()
    scale = magnitude(ours)
    epsilon = torch.finfo(dtype).eps
    low = known.low_precision or dtype in _LOW
    difference = (one - other).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    finite = one.isfinite() & other.isfinite()
    exact = None if known.reference is None else known.reference[at].double()
    ours_off = theirs_off = torch.full_like(one, math.inf)
    if exact is not None:
        ours_off, theirs_off = _distance(exact, one), _distance(exact, other)

    causes = _Causes(one)
    small = OUTPUT_ULPS * epsilon * (scale + torch.finfo(dtype).smallest_normal)
    if known.allowed is not None:
        allowed = known.allowed[at].double()
        within = finite & ((theirs_off <= allowed) | (difference <= allowed))
        causes.explain("rounding", within & (difference <= max(small, math.sqrt(terms) * epsilon * scale)))
    else:
        allowed = torch.full_like(one, max(UNOBSERVED_ULPS, 4 * math.sqrt(terms)) * epsilon * scale)
        within = finite & ((theirs_off <= allowed) | (difference <= allowed))
        causes.explain("rounding", within)
    zeros = [variant[at].double() for variant in known.zeros]
    causes.explain(
        "sign_of_zero", _any([_close(zero, other, allowed) & ~_close(zero, one, allowed) for zero in zeros], one)
    )
    causes.explain("undefined_conversion", _varies([variant[at] for variant in known.conversions], one))
    if known.sensitivity is not None:
        # Called so where half of the digits are gone. Rounding must explain it: the inputs are the same for both.
        gone = within & (difference > math.sqrt(epsilon) * one.abs())
        causes.explain("ill_conditioned", gone & (difference <= known.sensitivity[at].double()))
    if known.unstable is not None:
        causes.explain("ill_conditioned", known.unstable[at] & ~finite)
    causes.explain("low_precision" if low else "rounding", within)
    if exact is not None:
        # Where float64 is not finite either, the one that agrees with it is the nearer.
        causes.explain("ill_conditioned", ~exact.isfinite() & (theirs_off == 0))
        # An element of eager may be right by luck: what it is off elsewhere counts, as far as half of the digits.
        relative = torch.where(ours_off.isfinite() & (exact != 0), ours_off / exact.abs(), 0.0)
        typical = relative.max().clamp(max=math.sqrt(epsilon)) if relative.numel() else 0.0
        worse = torch.where(ours_off.isfinite(), NO_WORSE * torch.maximum(ours_off, typical * exact.abs()), allowed)
        causes.explain("low_precision" if low else "nearer", other.isfinite() & (theirs_off <= worse))
    largest = float(difference.max())
    return {
        **_whole(path, "values", None), "largest_error": _finite(largest),
        "relative_error": _finite(largest / scale) if scale else None,
        "elements": int(differing.sum()), "of": differing.numel(), "causes": causes.counted(),
        "wrong": bool(causes.left.any()),
        "eager_error": None if known.reference is None else largest_error(known.reference, ours),
        "compiled_error": None if known.reference is None else largest_error(known.reference, theirs),
    }  # fmt: skip


def largest_error(exact: Tensor, found: Tensor) -> float | None:
    """Return the largest absolute distance from float64; None where a NaN or an infinity stands on one side alone."""
    return _finite(float(_distance(plain(exact).double(), plain(found).double()).max())) if found.numel() else 0.0


def magnitude(tensor: Tensor) -> float:
    """Return the largest finite magnitude in ``tensor``; 0 where there is none."""
    wide = plain(tensor).double().abs()
    return float(torch.where(wide.isfinite(), wide, 0.0).max()) if wide.numel() else 0.0


def _distance(exact: Tensor, found: Tensor) -> Tensor:
    return torch.where(_same(exact, found), 0.0, (exact - found).abs()).nan_to_num(nan=math.inf, posinf=math.inf)


def _close(one: Tensor, other: Tensor, allowed: Tensor) -> Tensor:
    return _distance(one, other) <= torch.where(allowed.isfinite(), allowed, 0.0)


def _any(conditions: Sequence[Tensor], like: Tensor) -> Tensor:
    found = torch.zeros_like(like, dtype=torch.bool)
    for condition in conditions:
        found = found | condition
    return found


def _varies(variants: Sequence[Tensor], like: Tensor) -> Tensor:
    """Tell where variants of one result are not all the same."""
    return _any([~_same(variants[0], one) for one in variants[1:]], like)


def _same(one: Tensor, other: Tensor) -> Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def errors(expected: Any, actual: Any, evidence: Evidence, *, skip: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the errors of eager and of Inductor against float64: of the output where Inductor's is largest for it.

    {output, eager, inductor, eager_relative, inductor_relative}: largest absolute ones, and those by the largest
    magnitude in float64; None where they are not finite. None where no output has a reference.
    """
    worst: dict[str, Any] | None = None
    for place, ((path, one), (_, other)) in enumerate(zip(leaves(expected), leaves(actual), strict=False)):
        if path in skip or not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.shape != other.shape:
            continue
        ours, theirs = plain(one), plain(other)
        exact = evidence.at(place, ours).reference
        if exact is None or not ours.is_floating_point() or not ours.numel():
            continue
        scale = magnitude(exact)
        eager, compiled = largest_error(exact, ours), largest_error(exact, theirs)
        found = {
            "output": path, "eager": eager, "inductor": compiled,
            "eager_relative": eager / scale if eager is not None and scale else eager,
            "inductor_relative": compiled / scale if compiled is not None and scale else compiled,
        }  # fmt: skip
        if worst is None or _rank(found) > _rank(worst):
            worst = found
    return worst


def _rank(found: dict[str, Any]) -> float:
    both = (found["inductor_relative"], found["eager_relative"])
    return math.inf if None in both else float(both[0])
