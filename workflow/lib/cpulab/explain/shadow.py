"""What eager computes, op by op, beside float64: a reference, the bound of its rounding, and what is undefined in it.

The program runs as it is; beside each storage stand copies in float64 ("worlds") on which the same ops run. Control
flow, dtypes and random numbers are the program's own, so that a cast to a narrower type rounds in the program and not
in the reference. Some worlds are perturbed at random, as Monte Carlo arithmetic does (Parker, Monte Carlo Arithmetic,
UCLA CSD-970002, 1997): each inexact result by its dtype's unit roundoff, a sum of n terms by sqrt(n) of them times the
sum of magnitudes (Higham and Mary, SIAM J. Sci. Comput. 41, 2019), or the inputs by one unit in the last place. How far
that moves the outputs bounds what rounding can explain. Runs in the measured process.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cpulab.explain.comparison import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROUNDING_WORLDS = 4
SENSITIVITY_WORLDS = 3

# A few draws stand for all: what they reach, times this, is allowed.
SAFETY = 4.0

# Units in the last place that a library function other than + - * / may be off (Intel's and SLEEF's vector functions
# promise 1 to 4).
FUNCTION_ULPS = 2.0

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.float64: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}

_LOW = frozenset({torch.float16, torch.bfloat16})

_IEEE = frozenset({"add", "sub", "rsub", "mul", "div", "sqrt", "reciprocal", "neg", "abs", "copy", "_to_copy", "clone"})

# Linear in each argument: their terms' magnitudes are their own result on magnitudes.
_LINEAR = frozenset({
    "sum", "mean", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "convolution", "cumsum",
    "convolution_backward", "index_add", "scatter_add", "index_put", "_index_put_impl", "_unsafe_index_put",
    "embedding_dense_backward", "_embedding_bag", "avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d", "linear", "nansum", "scatter_reduce",
})  # fmt: skip

# One result of theirs may be off by a share of the largest: many steps, each on results of others.
_NORMWISE = ("linalg_", "_linalg", "_fft", "cholesky", "triangular", "lu_", "geqrf", "ormqr", "_scaled_dot_product",
             "grid_sampler", "upsample", "_cdist", "_pdist", "lstm", "gru", "rnn", "_ctc", "linalg")  # fmt: skip

# They cancel inside, near their zeros: one result may be off by a share of the largest.
_CANCELLING = ("special_", "lgamma", "digamma", "polygamma", "igamma", "mvlgamma", "remainder", "fmod")

# Many steps on the same inputs: they are off by what a perturbation of those would give.
_BACKWARD_STABLE = frozenset({
    "var", "var_mean", "std", "std_mean", "prod", "cumprod", "logcumsumexp", "logsumexp", "native_layer_norm",
    "native_group_norm", "native_batch_norm", "renorm", "norm", "dist",
})  # fmt: skip

# They accumulate in the dtype of their result, float16 and bfloat16 too; the other sums in float32 at least.
_NARROW_SUMS = frozenset({"cumsum", "index_add", "scatter_add", "index_put", "_index_put_impl", "_unsafe_index_put",
                          "scatter_reduce", "embedding_dense_backward"})  # fmt: skip

_EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})


@dataclass
class Facts:
    """What ran: the ops, the terms of the largest sum, the float dtypes, and what was undefined or left out.

    ``anchored``: ops with no float64 result, for which the program's own stands in the reference. ``overflowed``: ops
    that gave an infinity or a NaN in float16 or bfloat16 where float64 has a number.
    """

    ops: dict[str, int] = field(default_factory=dict)
    terms: int = 1
    dtypes: set[str] = field(default_factory=set)
    low_precision: bool = False
    undefined_conversions: int = 0
    random: bool = False
    uninitialized: bool = False
    anchored: set[str] = field(default_factory=set)
    overflowed: set[str] = field(default_factory=set)

    def record(self) -> dict[str, Any]:
        """Return the facts as JSON has them."""
        return {**vars(self), **{name: sorted(getattr(self, name)) for name in ("dtypes", "anchored", "overflowed")}}


def name_of(func: Any) -> str:
    """Return an op's name without namespace, overload and the mark of working in place."""
    return str(func.name()).split("::")[-1].split(".")[0].rstrip("_")


def is_view(func: Any) -> bool:
    """Tell whether an op's result is memory of its arguments, which it does not write to."""
    returns = func._schema.returns  # noqa: SLF001 - where PyTorch says it
    return any(one.alias_info is not None and not one.alias_info.is_write for one in returns)


def is_random(func: Any) -> bool:
    """Tell whether an op draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags


def unfit(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Tell where no number of the integer ``dtype`` is ``value``, a float, cut off: what C++ leaves undefined."""
    limits = torch.iinfo(dtype)
    whole = value.detach().double().trunc()
    # The largest int64 is no float64: what rounds to it does not fit.
    above = whole > limits.max if dtype.itemsize < 8 else whole >= float(limits.max)
    return ~whole.isfinite() | (whole < limits.min) | above


def conversion(func: Any, args: Sequence[Any], out: Any) -> Tensor | None:
    """Return the float tensor that an op turns into the integers of ``out``; None for any other op."""
    name = name_of(func)
    if not isinstance(out, Tensor) or name not in {"_to_copy", "copy"}:
        return None
    source = args[1] if name == "copy" else args[0]
    to_integer = not out.is_floating_point() and not out.is_complex() and out.dtype != torch.bool
    return source if isinstance(source, Tensor) and source.is_floating_point() and to_integer else None


class Shadow(TorchDispatchMode):  # type: ignore[misc] # torch is not installed beside mypy
    """Runs every op beside the program on its float64 worlds: the exact one first, then the perturbed ones."""

    def __init__(self, *, perturbed: bool) -> None:
        super().__init__()
        self.facts = Facts()
        self.rounding = ROUNDING_WORLDS if perturbed else 0
        self.worlds = 1 + self.rounding + (SENSITIVITY_WORLDS if perturbed else 0)
        self._storages: dict[int, tuple[StorageWeakRef, torch.dtype, list[Tensor]]] = {}
        self._generator = torch.Generator().manual_seed(1)
        self._noise = _Noise(self._generator)
        self._decompositions: Mapping[Any, Callable[..., Any]] = {}
        if perturbed:
            from torch._inductor.decomposition import select_decomp_table

            self._decompositions = select_decomp_table()
            self._noise.decompositions = self._decompositions

    def of(self, tensor: Any) -> list[Tensor] | None:
        """Return a tensor's worlds; None where it has no memory of its own, as sparse ones."""
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError, AttributeError):
            return None
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            return None
        with torch.no_grad(), _no_modes():
            return [self._view(tensor, flat) for flat in self._flats(tensor, storage)]

    def _view(self, tensor: Tensor, flat: Tensor) -> Tensor:
        view = flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        if tensor.is_conj():
            view = view.conj()
        return view._neg_view() if tensor.is_neg() else view  # noqa: SLF001 - there is no other

    def _flats(self, tensor: Tensor, storage: torch.UntypedStorage) -> list[Tensor]:
        key = storage._cdata  # noqa: SLF001 - its address, not used again while the weak reference stands
        known = self._storages.get(key)
        if known is not None and known[1] == tensor.dtype and not known[0].expired():
            return known[2]
        native = torch.empty(0, dtype=tensor.dtype).set_(storage)
        exact = native.to(_WIDE.get(tensor.dtype, tensor.dtype), copy=True)
        flats = [exact]
        for world in range(1, self.worlds):
            flat = exact.clone()
            if world > self.rounding:
                # An input of the program, or what stands for one: by one unit in the last place.
                _perturb(flat, flat, _epsilon(tensor.dtype), self._generator, narrow=0.0)
            flats.append(flat)
        self._storages[key] = (StorageWeakRef(storage), tensor.dtype, flats)
        return flats

    def _forget(self) -> None:
        for key in [key for key, known in self._storages.items() if known[0].expired()]:
            del self._storages[key]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch.no_grad():
            view = is_view(func)
            worlds = None if view else self._arguments(args, kwargs)
        out = func(*args, **kwargs)
        with torch.no_grad():
            self._look(func, args, out)
            if not view:
                self._follow(func, args, kwargs, worlds, out)
            if len(self._storages) > 256:
                self._forget()
        return out

    def _arguments(self, args: Any, kwargs: Any) -> list[tuple[Any, Any]] | None:
        """Return the arguments of each world; None where one has no worlds."""
        flat, spec = pytree.tree_flatten((args, kwargs))
        each = [self.of(leaf) if isinstance(leaf, Tensor) else [leaf] * self.worlds for leaf in flat]
        if any(one is None for one in each):
            return None
        return [
            pytree.tree_unflatten([one[world] for one in each if one is not None], spec) for world in range(self.worlds)
        ]

    def _look(self, func: Any, args: Any, out: Any) -> None:
        facts, name = self.facts, name_of(func)
        facts.ops[name] = facts.ops.get(name, 0) + 1
        facts.random |= is_random(func)
        facts.uninitialized |= name in _EMPTY and any(one.numel() for one in _tensors(out))
        for one in _tensors(out):
            if one.is_floating_point() or one.is_complex():
                facts.dtypes.add(str(one.dtype).removeprefix("torch."))
                facts.low_precision |= one.dtype in _LOW
        source = conversion(func, args, out)
        if source is not None:
            facts.undefined_conversions += int(unfit(source, out.dtype).sum())
        facts.terms = max(facts.terms, _terms(name, args, _tensors(out)))

    def _follow(self, func: Any, args: Any, kwargs: Any, worlds: list[tuple[Any, Any]] | None, out: Any) -> None:
        written = [one for one in _tensors((args, kwargs)) if _writes(func)] + _tensors(out)
        name = name_of(func)
        constant = not _tensors((args, kwargs)) and name not in {"arange", "linspace", "logspace"}
        if worlds is None or is_random(func) or constant or name in {"set", "resize"}:
            if worlds is None or is_random(func):
                self.facts.anchored.add(name)
            self._anchor(written)
            return
        results = []
        for world, (their_args, their_kwargs) in enumerate(worlds):
            try:
                results.append(self._run(func, their_args, their_kwargs, noisy=0 < world <= self.rounding, native=out))
            except Exception:  # noqa: BLE001 - an op without a float64 kernel; the program's own result stands in
                self.facts.anchored.add(name)
                self._anchor(written)
                return
        self._store(name, out, results, {id(one) for one in _tensors((args, kwargs))})

    def _run(self, func: Any, args: Any, kwargs: Any, *, noisy: bool, native: Any) -> Any:
        args, kwargs = _widened(name_of(func), args, kwargs)
        if not noisy:
            return func(*args, **kwargs)
        epsilons = [_epsilon(one.dtype) for one in _tensors((native,))]
        self._noise.epsilon = max(epsilons, default=0.0)
        return self._noise.run(func, args, kwargs)

    def _store(self, name: str, out: Any, results: list[Any], arguments: set[int]) -> None:
        natives = _tensors(out)
        each = [_tensors(result) for result in results]
        for place, native in enumerate(natives):
            if id(native) in arguments:
                continue  # written in place, in every world
            theirs = [one[place] if place < len(one) else None for one in each]
            if any(one is None or one.shape != native.shape for one in theirs):
                self.facts.anchored.add(name)
                self._anchor([native])
                continue
            self._note_overflow(name, native, theirs[0])
            self._new(native, [one for one in theirs if one is not None])

    def _new(self, native: Tensor, theirs: list[Tensor]) -> None:
        try:
            storage = native.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return
        if native.layout != torch.strided:
            return
        wide = _WIDE.get(native.dtype, native.dtype)
        elements = storage.nbytes() // max(native.element_size(), 1)
        flats = []
        for one in theirs:
            flat = torch.zeros(elements, dtype=wide)
            flat.as_strided(native.size(), native.stride(), native.storage_offset()).copy_(one)
            flats.append(flat)
        self._storages[storage._cdata] = (StorageWeakRef(storage), native.dtype, flats)  # noqa: SLF001

    def _anchor(self, natives: Sequence[Tensor]) -> None:
        for native in natives:
            with contextlib.suppress(RuntimeError, NotImplementedError):
                storage = native.untyped_storage()
                elements = torch.empty(0, dtype=native.dtype).set_(storage)
                wide = elements.to(_WIDE.get(native.dtype, native.dtype), copy=True)
                flats = [wide, *(wide.clone() for _ in range(self.worlds - 1))]
                self._storages[storage._cdata] = (StorageWeakRef(storage), native.dtype, flats)  # noqa: SLF001

    def _note_overflow(self, name: str, native: Tensor, exact: Tensor | None) -> None:
        if native.dtype in _LOW and exact is not None and bool((exact.isfinite() & ~native.isfinite()).any()):
            self.facts.overflowed.add(name)

    def evidence(self, natives: Sequence[Any]) -> Evidence:
        """Return what is known of the right values of ``natives``, leaves of the program's result."""
        reference: list[Tensor | None] = []
        allowed: list[Tensor | None] = []
        sensitivity: list[Tensor | None] = []
        unstable: list[Tensor | None] = []
        for native in natives:
            worlds = self.of(native) if isinstance(native, Tensor) else None
            if worlds is None:
                for one in (reference, allowed, sensitivity, unstable):
                    one.append(None)
                continue
            exact = _real(worlds[0])
            reference.append(worlds[0].detach().clone())
            if self.worlds == 1:
                for one in (allowed, sensitivity, unstable):
                    one.append(None)
                continue
            rounded = [_real(one) for one in worlds[1 : 1 + self.rounding]]
            moved = [_real(one) for one in worlds[1 + self.rounding :]]
            unstable.append(_unstable(exact, rounded, native.dtype))
            if exact.is_floating_point():
                allowed.append(_allowed(exact, rounded, native.dtype))
                sensitivity.append(SAFETY * _spread(exact, moved))
            else:
                allowed.append(None)
                sensitivity.append(None)
        known = self.worlds > 1
        return Evidence(
            reference=reference,
            allowed=allowed if known else None,
            sensitivity=sensitivity if known else None,
            unstable=unstable if known else None,
            low_precision=self.facts.low_precision,
        )


class _Noise(TorchDispatchMode):  # type: ignore[misc] # as above
    """Perturbs the result of every op, those that a composed one is made of too, by ``epsilon``."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator
        self.epsilon = 0.0
        self.decompositions: Mapping[Any, Callable[..., Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an op, decomposed where Inductor would, with its roundings."""
        name = name_of(func)
        if func in self.decompositions and name not in _BACKWARD_STABLE and not is_random(func):
            # A decomposition need not take every argument.
            with contextlib.suppress(Exception), self:
                out = self.decompositions[func](*args, **kwargs)
                if out is not NotImplemented:
                    return out
        return self._rounded(func, name, args, kwargs)

    def _rounded(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if is_view(func):
            return func(*args, **kwargs)
        epsilon = self.epsilon
        magnitudes = self._magnitudes(func, name, args, kwargs) if name in _LINEAR else None
        if name in _BACKWARD_STABLE or name.startswith(_NORMWISE):
            args, kwargs = pytree.tree_map_only(Tensor, self._moved, (args, kwargs))
        out = func(*args, **kwargs)
        tensors = [one for one in _tensors(out) if one.is_floating_point() or one.is_complex()]
        terms = _terms(name, args, tensors)
        for one in tensors:
            normwise = name.startswith((*_NORMWISE, *_CANCELLING)) and one.numel()
            wide = one.abs().nan_to_num(posinf=0.0).max() if normwise else one.abs()
            if magnitudes is not None and magnitudes.shape == one.shape:
                narrow = epsilon if name in _NARROW_SUMS else min(epsilon, torch.finfo(torch.float32).eps)
                share = 0.5 * narrow * math.sqrt(terms)
                if terms > 1 and not _exact_sum(magnitudes, one):
                    one.add_(share * magnitudes * _signs(one, self.generator))
                _perturb(one, wide, 0.5 * epsilon, self.generator)
            else:
                ulps = 0.5 if name in _IEEE else FUNCTION_ULPS
                _perturb(
                    one, wide, ulps * epsilon * math.sqrt(terms), self.generator, narrow=0.0 if normwise else epsilon
                )
        return out

    def _magnitudes(self, func: Any, name: str, args: Any, kwargs: Any) -> Tensor | None:
        absolute = pytree.tree_map_only(
            Tensor, lambda one: one.abs() if one.is_floating_point() or one.is_complex() else one, (args, kwargs)
        )
        if _writes(func) or name == "convolution_backward":
            absolute = pytree.tree_map_only(Tensor, lambda one: one.clone(), absolute)
        try:
            found = _tensors(func(*absolute[0], **absolute[1]))
        except Exception:  # noqa: BLE001 - then its result stands for the magnitudes
            return None
        return found[0] if len(found) == 1 else None

    def _moved(self, one: Tensor) -> Tensor:
        if not (one.is_floating_point() or one.is_complex()):
            return one
        moved = one.clone()
        _perturb(moved, moved, self.epsilon, self.generator, narrow=0.0)
        return moved


@contextlib.contextmanager
def _no_modes() -> Iterator[None]:
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _writes(func: Any) -> bool:
    return bool(func._schema.is_mutable)  # noqa: SLF001 - where PyTorch says it


def _epsilon(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps) if dtype.is_floating_point or dtype.is_complex else 0.0


def _signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """Return random signs with magnitudes between 0.5 and 1."""
    real = torch.rand(like.shape, generator=generator, dtype=torch.float64)
    return torch.where(real < 0.5, real - 1.0, real)


def _perturb(
    tensor: Tensor, magnitude: Tensor, share: float, generator: torch.Generator, *, narrow: float | None = None
) -> None:
    """Move elements by up to ``share`` of ``magnitude``; where ``narrow`` says, not those that its dtype holds."""
    if share == 0.0 or not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return
    step = share * magnitude.abs() * _signs(tensor, generator)
    if narrow is None and share:
        narrow = 2 * share
    step = torch.where(_held(tensor, narrow or 0.0), 0.0, step)
    tensor.add_(step.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0))


def _held(tensor: Tensor, epsilon: float) -> Tensor:
    """Tell which elements a dtype of this epsilon holds exactly: they were not rounded. None for epsilon 0."""
    if epsilon == 0.0:
        return torch.zeros(tensor.shape, dtype=torch.bool)
    real = torch.view_as_real(tensor).abs().amax(-1) if tensor.is_complex() else tensor
    mantissa, _ = torch.frexp(real)
    scaled = mantissa * (2.0 / epsilon)
    held = scaled == scaled.round()
    if tensor.is_complex():
        low = torch.view_as_real(tensor).abs().amin(-1)
        held = held & (low == 0)
    return held


def _exact_sum(magnitudes: Tensor, result: Tensor) -> bool:
    """Tell whether a sum is one of integers that float32 holds in every order."""
    if magnitudes.is_complex() or result.is_complex():
        return False
    whole = bool((magnitudes == magnitudes.round()).all()) and bool((result == result.round()).all())
    return whole and bool((magnitudes < 2**23).all())


def _widened(name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return an op's arguments with float64 in place of every narrower dtype that it asks for."""
    wide_args, wide_kwargs = pytree.tree_map_only(torch.dtype, lambda dtype: _WIDE.get(dtype, dtype), (args, kwargs))
    if name in {"_softmax", "_log_softmax"}:
        wide_args = (*wide_args[:2], False)  # half_to_float, which float64 cannot be
    return wide_args, wide_kwargs


def _terms(name: str, args: Any, outs: Sequence[Tensor]) -> int:
    """Return how many terms an op adds up to one element of its result, at most."""
    ins: list[Any] = list(_tensors(args))
    if not ins or not outs or not outs[0].numel() or name.startswith(("empty", "new_", "index_select", "embedding")):
        return 1
    if name in {"mm", "bmm", "mv", "dot", "vdot", "linear"}:
        return max(1, int(ins[0].shape[-1] if ins[0].dim() else 1))
    if name in {"addmm", "baddbmm", "addbmm", "addmv"}:
        return max(1, int(ins[1].shape[-1]))
    if name == "convolution" and len(ins) > 1:
        return max(1, int(ins[1].numel() // max(1, ins[1].shape[0])))
    if name in {"native_layer_norm", "native_group_norm", "native_batch_norm"} and len(outs) > 1 and outs[1].numel():
        return max(1, int(ins[0].numel() // outs[1].numel()))
    if name in {"_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp"}:
        return max(1, int(ins[0].shape[args[1]] if ins[0].dim() else 1))
    if name in {"index_add", "scatter_add", "index_put", "_index_put_impl", "scatter_reduce", "_unsafe_index_put"}:
        return max(1, int(ins[-1].numel()))
    if name.startswith(("convolution_backward", "embedding_dense_backward", "native_layer_norm_backward")):
        return max(1, int(ins[0].numel()))
    reduces = name in {
        "sum", "mean", "nansum", "var", "var_mean", "std", "std_mean", "prod", "norm", "logsumexp",
        "linalg_vector_norm", "dist", "nll_loss_forward", "mse_loss", "_embedding_bag",
    } or name.startswith(("avg_pool", "_adaptive_avg_pool"))  # fmt: skip
    return max(1, max(one.numel() for one in ins) // outs[0].numel()) if reduces else 1


def _real(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()).clone() if tensor.is_complex() else tensor.resolve_neg().clone()


def _spread(exact: Tensor, worlds: Sequence[Tensor]) -> Tensor:
    spread = torch.zeros_like(exact)
    for one in worlds:
        spread = torch.maximum(spread, (one - exact).abs().nan_to_num(nan=0.0, posinf=0.0))
    return spread


def _allowed(exact: Tensor, worlds: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Return how far rounding may take each element of ``exact``.

    Where an element's own draws happened to be small, the root mean square of all elements' relative spread counts.
    """
    size = torch.where(exact.isfinite(), exact.abs(), 0.0)
    spread = _spread(exact, worlds)
    relative = torch.where(size > 0, spread / size, 0.0)
    relative = torch.where(relative < 1.0, relative, 0.0)  # not from those that cancelled
    typical = float(relative.square().mean().sqrt()) if relative.numel() else 0.0
    limits = torch.finfo(dtype)
    floor = 4 * limits.eps * size + 4 * limits.smallest_normal * limits.eps
    return SAFETY * torch.maximum(spread, typical * size) + floor


def _unstable(exact: Tensor, worlds: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Tell where results that are rounded otherwise disagree: another integer, finite or not, another magnitude.

    Of another magnitude: large ones, as a division by almost nothing gives.
    """
    found = torch.zeros(exact.shape, dtype=torch.bool)
    if not exact.is_floating_point():
        for one in worlds:
            found = found | (exact != one)
        return found
    each = torch.stack([exact, *worlds])
    finite = each.isfinite()
    largest, least = each.abs().amax(0), each.abs().amin(0)
    return (finite.any(0) & ~finite.all(0)) | ((largest > 100 * least) & (largest > torch.finfo(dtype).eps ** -0.5))
