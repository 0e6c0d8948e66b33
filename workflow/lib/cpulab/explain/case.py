"""How a user's case file is read: the function under its name and fresh inputs for it. Runs in the measured process."""

from __future__ import annotations

import copy
import importlib.util
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# What a file draws at import, such as the weights of a module, is the same in every process.
_IMPORT_SEED = 0

_loaded: dict[str, ModuleType] = {}


class CaseInvalid(Exception):
    """A case that cannot be judged, whatever torch.compile does; the message says why in one sentence."""


def seed_everything(seed: int) -> None:
    """Seed every generator that a case may draw from."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def load(file: str, function: str) -> Callable[..., Any]:
    """Execute ``file`` anew, as a module with its folder on the import path, and return its callable ``function``.

    Each call gives new globals, module parameters and buffers, equal to those of every other call. ``function`` may be
    dotted. A class of `torch.nn.Module` is called for an instance.

    Raises:
        CaseInvalid: the file cannot be read or executed, or has no such callable.

    """
    import torch

    found: Any = _module(file, anew=True)
    for name in function.split("."):
        if not hasattr(found, name):
            raise CaseInvalid(f"{Path(file).name} defines no {function!r}.")
        found = getattr(found, name)
    if isinstance(found, type) and issubclass(found, torch.nn.Module):
        seed_everything(_IMPORT_SEED)
        try:
            found = found()
        except Exception as error:
            raise CaseInvalid(f"{function}() could not be made: {_said(error)}.") from error
    if not callable(found):
        raise CaseInvalid(f"{function!r} in {Path(file).name} is a {type(found).__name__}, which cannot be called.")
    called: Callable[..., Any] = found
    return called


def inputs(file: str, function: str, seed: int) -> list[Any]:
    """Return new arguments for ``function``, with every generator seeded: by INPUTS[function], or inputs, of its file.

    The file is the module that `load` executed last. Strides, storage offsets, expanded dimensions and storage shared
    between arguments are as the file makes them; nothing is shared with what another call returned.

    Raises:
        CaseInvalid: the file has neither, it raises, or it returns something other than a list or tuple.

    """
    module = _module(file, anew=False)
    table = getattr(module, "INPUTS", None)
    name = f"INPUTS[{function!r}]" if isinstance(table, dict) and function in table else "inputs"
    make = table[function] if isinstance(table, dict) and function in table else getattr(module, "inputs", None)
    if not callable(make):
        raise CaseInvalid(f"{Path(file).name} defines no inputs() for {function!r}.")
    seed_everything(seed)
    try:
        made = make()
    except (Exception, SystemExit) as error:
        raise CaseInvalid(f"{name}() raises {_said(error)}.") from error
    if not isinstance(made, (list, tuple)):
        raise CaseInvalid(f"{name}() returns a {type(made).__name__}, not a list or tuple of arguments.")
    try:
        # Arguments may be globals of the file, which a function in place would change for the next call.
        return copy.deepcopy(list(made))
    except Exception:  # noqa: BLE001 - what cannot be copied, such as a tensor with a history, is as new as it was made
        return list(made)


def _module(file: str, *, anew: bool) -> ModuleType:
    path = Path(file).resolve()
    if not anew and str(path) in _loaded:
        return _loaded[str(path)]
    if not path.is_file():
        raise CaseInvalid(f"There is no file {file}.")
    # Not its bare name: a case may be called like a module that PyTorch imports later.
    name = f"cpulab_case_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CaseInvalid(f"{file} is not a Python file (.py).")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[name] = module
    sys.dont_write_bytecode = True  # the case's folder is not ours
    seed_everything(_IMPORT_SEED)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise CaseInvalid(f"{path.name} has a syntax error in line {error.lineno}: {error.msg}.") from error
    except SystemExit as error:
        raise CaseInvalid(f"{path.name} ends the process when it is imported (exit status {error.code}).") from error
    except Exception as error:
        raise CaseInvalid(f"{path.name} raises {_said(error)} when it is imported.") from error
    _loaded[str(path)] = module
    return module


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
