"""How a fault and a variant named by the environment get into Inductor: as it is imported, never on disk."""

from __future__ import annotations

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

from cpulab.debug import faults
from cpulab.errors import BadSimdlen, FaultNotInjectable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# What faulty generators gave in this process, in order. A vectorizing code generation tries scalar code too and drops
# it, so a call alone does not put a fault on the executed path: its text must stand in the kernel.
generated: list[str] = []


def inject(module: ModuleType, fault: faults.Fault, override: str) -> None:
    """Put ``fault`` into those classes of ``module``, torch._inductor.codegen.cpp, that generate ``override`` code.

    Raises:
        FaultNotInjectable: this version of PyTorch has no such class or function.

    """
    for generator in fault.chosen(override):
        class_name, _, name = generator.place.partition(".")
        owner = getattr(module, class_name, None)
        # In its own namespace: a generator inherited from another class would leave this one's users untouched.
        if owner is None or name not in vars(owner):
            raise FaultNotInjectable(fault.name, f"{module.__name__}.{generator.place}")
        found = vars(owner)[name]
        healthy = found.__func__ if isinstance(found, staticmethod) else found
        wrong = _wrong(healthy, generator.gives)
        setattr(owner, name, staticmethod(wrong) if isinstance(found, staticmethod) else wrong)


def _wrong(healthy: Callable[..., Any], gives: Callable[..., Any]) -> Callable[..., Any]:
    def generate(*operands: Any, **options: Any) -> Any:
        right = healthy(*operands, **options)
        wrong = gives(right, *operands, **options)
        if wrong is None:
            return right
        generated.extend(_texts(wrong))
        return wrong

    generate.__name__ = healthy.__name__  # CppVecOverrides finds the scalar generator by the vector generator's name
    return generate


def _texts(wrong: Any) -> list[str]:
    if isinstance(wrong, str):
        return [wrong]
    lines = wrong if isinstance(wrong, list) else wrong.getvalue().splitlines()  # or a buffer of lines
    return [line.strip() for line in lines]


def actions(environment: Mapping[str, str]) -> dict[str, Callable[[ModuleType], None]]:
    """Return what ``environment`` asks to be done after an import: module -> action.

    Raises:
        UnknownFault, UnknownOverride: no such fault.
        BadSimdlen: the vector length is not a number.

    """
    wanted: dict[str, Callable[[ModuleType], None]] = {}
    setting = environment.get(faults.FAULT_VARIABLE)
    if setting:
        fault, override = faults.parse(setting)
        wanted["torch._inductor.codegen.cpp"] = lambda module: inject(module, fault, override)
    simdlen = environment.get(faults.SIMDLEN_VARIABLE)
    if simdlen:
        if not simdlen.isdecimal():
            raise BadSimdlen(simdlen)
        wanted["torch._inductor.config"] = lambda module: setattr(module.cpp, "simdlen", int(simdlen))
    return wanted


def install() -> None:
    """Have this process do what its environment asks for. Raises as `actions`."""
    wanted = actions(os.environ)
    if wanted:
        sys.meta_path.insert(0, _PostImport(wanted))


class _PostImport(MetaPathFinder):
    """Finds a watched module by the finders behind it and runs an action once the module is there."""

    def __init__(self, wanted: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._wanted = wanted

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._wanted:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Acting(spec.loader, self._wanted[fullname])
                return spec
        return None


class _Acting(Loader):
    """A loader that acts on the module after it is executed, and otherwise is the loader it stands for."""

    def __init__(self, loader: Loader, action: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._action = action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._action(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)
