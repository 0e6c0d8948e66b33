"""Observes one case in the measured process, phase by phase, each written down as it ends.

``python -m cpulab.explain.worker ARGUMENTS.json ANSWER.json``. The arguments: ``target`` {file, function}, ``seed``,
``folder`` (of results and of progress.jsonl), ``phases`` (of `PHASES`, in this order), ``limits`` {eager_s, rung_s},
``found`` (phase -> what earlier processes found). A process that dies leaves in progress.jsonl the phase it died in,
and one that takes longer than its limit leaves in hang.txt where it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import functools
import json
import os
import random
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.explain.case import CaseInvalid, inputs, load, seed_everything

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cpulab.explain.comparison import Evidence, Flat

RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor", "inductor_scalar")

# Further compilations, where one of the rungs is to be explained.
EXPERIMENTS = ("inductor_fallback_random", "inductor_emulate_precision_casts")

PHASES = (
    "eager", "again", "other_seed", *(f"rung:{rung}" for rung in RUNGS), "rung:inductor_fallback_random", "observe",
    "variants", "compare", "rung:inductor_emulate_precision_casts", "compare_emulated",
)  # fmt: skip

# The share of the memory that is free at the start that a case may take.
MEMORY_SHARE = 0.6

_CONFIG: dict[str, dict[str, Any]] = {
    "inductor_scalar": {"cpp.simdlen": 1},
    "inductor_fallback_random": {"fallback_random": True},
    "inductor_emulate_precision_casts": {"emulate_precision_casts": True},
}


@dataclasses.dataclass
class Result:
    """What one call left: its outputs, its arguments afterwards, the gradients (None where there is no backward)."""

    outputs: Flat
    inputs: Flat
    gradients: Flat | None = None
    backward_error: BaseException | None = None


class Session:
    """The phases of one case, and what they hand to each other."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.file: str = asked["target"]["file"]
        self.function: str = asked["target"]["function"]
        self.seed: int = asked["seed"]
        self.folder = Path(asked["folder"])
        self.limits: dict[str, float] = asked["limits"]
        self.found: dict[str, Any] = asked.get("found", {})
        self.evidence: dict[str, Evidence] = {}
        self._progress = (self.folder / "progress.jsonl").open("a", encoding="utf-8")
        self._hang = (self.folder / "hang.txt").open("a", encoding="utf-8")

    # --- progress ---

    def say(self, **line: Any) -> None:
        """Write one line of progress, whole."""
        self._progress.write(json.dumps(line) + "\n")
        self._progress.flush()

    @contextlib.contextmanager
    def limited(self, phase: str, seconds: float) -> Iterator[None]:
        """Say that a phase begins; what takes longer ends the process, with its stack in hang.txt."""
        self.say(phase=phase, state="begin", limit_s=seconds)
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._hang)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def run(self, phases: Sequence[str]) -> None:
        """Run the phases that are asked for; one that finds the case invalid is the last."""
        for phase in phases:
            start = time.monotonic()
            try:
                found = self._phase(phase)
            except CaseInvalid as error:
                self.say(phase=phase, state="invalid", reason=str(error))
                return
            if found is not None:
                self.found[phase] = {**found, "seconds": round(time.monotonic() - start, 2)}
                self.say(phase=phase, state="end", found=self.found[phase])

    def _phase(self, phase: str) -> dict[str, Any] | None:
        if phase.startswith("rung:"):
            return self.rung(phase.removeprefix("rung:"))
        found: dict[str, Any] | None = getattr(self, phase)()
        return found

    # --- results ---

    def keep(self, name: str, value: Any) -> None:
        """Keep a value for later phases, of later processes too."""
        import torch

        torch.save(value, self.folder / f"{name.replace(':', '_')}.pt")

    def kept(self, name: str) -> Any:
        """Return what `keep` kept; None where nothing was."""
        import torch

        path = self.folder / f"{name.replace(':', '_')}.pt"
        return torch.load(path, weights_only=False) if path.exists() else None

    @functools.cached_property
    def expected(self) -> Result:
        """What eager gave."""
        result: Result = self.kept("eager")
        return result

    def oracle(self) -> dict[str, Any] | None:
        """Compare what this process' eager gives with what is kept: eager of another process, for the same inputs.

        None where the two cannot be had: random numbers are others without vector instructions.
        """
        import torch

        given = self.kept("given")
        if given is None or self.random:
            return None
        with self.limited("oracle", 2 * self.limits["eager_s"]):
            function = load(self.file, self.function)
            if isinstance(function, torch.nn.Module) and given["state"] is not None:
                function.load_state_dict(given["state"])
            elif given["drawn_at_import"]:
                return None
            result = self.called(function, given["arguments"], {})
        return {
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "differing": self._differing(result),
            "wrong": self._differing(result, wrong_only=True),
        }

    @property
    def random(self) -> bool:
        """Whether the function draws random numbers."""
        return bool(self.found["eager"]["random"])

    @property
    def varying(self) -> list[str]:
        """The outputs, arguments and gradients that are others in another call of eager."""
        return list(self.found.get("other_seed", {}).get("varying", []))

    # --- eager ---

    def prepared(self, *, seed: int | None = None) -> tuple[Callable[..., Any], list[Any]]:
        """Return a new function and new arguments, with the generators seeded for the call."""
        function = load(self.file, self.function)
        arguments = inputs(self.file, self.function, self.seed)
        seed_everything(self.seed if seed is None else seed)
        return function, arguments

    def called(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        sources: dict[str, Any],
        mode: contextlib.AbstractContextManager[Any] | None = None,
    ) -> Result:
        """Call (in ``mode``), run the backward where there is one, and freeze what that leaves."""
        from cpulab.explain import gradients
        from cpulab.explain.comparison import frozen

        inside = mode if mode is not None else contextlib.nullcontext()
        with inside:
            value = function(*arguments)
        result = Result(frozen(value), frozen(arguments))
        if sources:
            try:
                with inside:
                    has_backward = gradients.backward(value)
                if has_backward:
                    result.gradients = frozen(gradients.collected(sources))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the forward is judged all the same
                result.backward_error = error
        return result

    def eager(self) -> dict[str, Any]:
        """Run the case as it is."""
        import torch

        from cpulab.explain import gradients
        from cpulab.explain.comparison import compare, frozen, leaves

        with self.limited("import", self.limits["rung_s"]):
            function = load(self.file, self.function)
        drawn = self._draws_at_import()
        with self.limited("inputs", self.limits["rung_s"]):
            arguments = inputs(self.file, self.function, self.seed)
        before = frozen(arguments)
        self._keep_given(function, arguments, drawn_at_import=drawn)
        sources = gradients.sources(function, arguments)
        seed_everything(self.seed)
        states = _generators()
        with self.limited("eager", self.limits["eager_s"]):
            try:
                result = self.called(function, arguments, sources)
            except SystemExit as error:
                self.say(phase="eager", state="exit", status=error.code if isinstance(error.code, int) else 1)
                sys.exit(0)
            except (Exception, KeyboardInterrupt) as error:
                if _out_of_memory(error):
                    self.say(phase="eager", state="memory", message=str(error)[:300])
                    sys.exit(0)
                raise CaseInvalid(f"{self.function} raises in eager: {_said(error)}.") from error
        if result.backward_error is not None and _out_of_memory(result.backward_error):
            self.say(phase="eager", state="memory", message=str(result.backward_error)[:300])
            sys.exit(0)
        tensors = [leaf for _, leaf in result.outputs.leaves if isinstance(leaf, torch.Tensor)]
        mutated = sorted({one["output"] for one in compare(before, result.inputs, strides=False)})
        self._must_return(result, tensors, mutated)
        self.expected = result
        self.keep("eager", dataclasses.replace(result, backward_error=None))
        return {
            "random": states != _generators(),
            "outputs": [path for path, leaf in result.outputs.leaves if isinstance(leaf, torch.Tensor)],
            "dtypes": sorted({str(one.dtype).removeprefix("torch.") for one in tensors}),
            "tensor_inputs": sum(isinstance(leaf, torch.Tensor) for _, leaf in leaves(arguments)),
            "mutated": [f"inputs{path}" for path in mutated],
            "sources": sorted(sources),
            "has_backward": result.gradients is not None,
            "backward_error": None if result.backward_error is None else _said(result.backward_error),
            "threads": torch.get_num_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        }

    def _draws_at_import(self) -> bool:
        """Tell whether importing the file, which has just been done, drew random numbers."""
        after = _generators()[0]
        seed_everything(0)
        return bool(after != _generators()[0])

    def _keep_given(self, function: Any, arguments: list[Any], *, drawn_at_import: bool) -> None:
        import torch

        state = function.state_dict() if isinstance(function, torch.nn.Module) else None
        # What cannot be pickled is not compared with that of another process.
        with contextlib.suppress(Exception):
            self.keep("given", {"arguments": arguments, "state": state, "drawn_at_import": drawn_at_import})

    def _must_return(self, result: Result, tensors: list[Any], mutated: list[str]) -> None:
        if tensors or mutated:
            return
        values = [leaf for _, leaf in result.outputs.leaves]
        if not values or values == [None]:
            raise CaseInvalid(
                f"{self.function} returns nothing and changes none of its inputs, so there is nothing to compare."
            )
        kind = type(values[0]).__name__ if len(values) == 1 else "value without a tensor"
        if isinstance(values[0], str) and values[0].startswith("<"):
            kind = values[0].strip("<>")
        raise CaseInvalid(f"{self.function} returns a {kind}, not a tensor, so there is nothing to compare.")

    def again(self) -> dict[str, Any]:
        """Run eager under the same seed once more."""
        with self.limited("again", 2 * self.limits["eager_s"]):
            result = self._eager_result(self.seed)
        return {"varying": self._differing(result, wrong_only=True), "inexact": self._differing(result)}

    def other_seed(self) -> dict[str, Any] | None:
        """Run eager with other random numbers, where there are any or where it differs from itself."""
        again = self.found.get("again", {}).get("varying", [])
        if not self.random and not again:
            return None
        with self.limited("other_seed", 2 * self.limits["eager_s"]):
            result = self._eager_result(self.seed + 1)
        return {"varying": sorted({*again, *self._differing(result)})}

    def _eager_result(self, seed: int, mode: contextlib.AbstractContextManager[Any] | None = None) -> Result:
        from cpulab.explain import gradients

        function, arguments = self.prepared(seed=seed)
        sources = gradients.sources(function, arguments)
        return self.called(function, arguments, sources, mode)

    def _differing(self, result: Result, *, wrong_only: bool = False) -> list[str]:
        from cpulab.explain.comparison import compare

        found = []
        for prefix, one, other in _pairs(self.expected, result):
            differences = compare(one, other, strides=False)
            found += [f"{prefix}{each['output']}" for each in differences if each["wrong"] or not wrong_only]
        return sorted(set(found))

    # --- the ladder ---

    def rung(self, rung: str) -> dict[str, Any] | None:
        """Compile and run with a backend; PyTorch's own counters say what ran."""
        skipped = self._skip(rung)
        if skipped is not None:
            return skipped or None
        from unittest import mock

        import torch
        from torch._dynamo.utils import counters
        from torch._inductor import config, metrics
        from torch._inductor.graph import GraphLowering

        from cpulab.debug.worker import exception_chain
        from cpulab.explain import gradients

        torch.compiler.reset()
        counters.clear()
        metrics.reset()
        backend = "inductor" if rung.startswith("inductor") else rung
        settings = dict(_CONFIG.get(rung, {}))
        if self.random and rung == "aot_eager_decomp_partition":
            settings["fallback_random"] = True
        codes: list[str] = []
        error: BaseException | None = None
        result: Result | None = None
        function, arguments = self.prepared()
        sources = gradients.sources(function, arguments)
        with (
            self.limited(f"rung:{rung}", self.limits["rung_s"]),
            config.patch(settings),
            mock.patch.object(GraphLowering, "save_output_code", codes.append),
        ):
            try:
                compiled = torch.compile(_compilable(function), backend=backend)
                seed_everything(self.seed)
                result = self.called(compiled, arguments, sources)
            except (Exception, SystemExit) as raised:  # noqa: BLE001 - whatever it is, it is the observation
                error = raised
        direction = "forward"
        if error is None and result is not None and result.backward_error is not None:
            error, direction = result.backward_error, "backward"
            if self.expected.gradients is None and self.found["eager"]["backward_error"] is not None:
                error = None  # eager's backward raises too
        chain = exception_chain(error)
        answer: dict[str, Any] = {
            "rung": rung,
            "backend": backend,
            "ending": "ok" if error is None else "exception",
            "exception": type(error).__name__ if error is not None else None,
            "exception_chain": " <- ".join(type(one).__name__ for one in chain),
            "exception_modules": [type(one).__module__ for one in chain],
            "exception_direction": direction if error is not None else None,
            "out_of_memory": any(_out_of_memory(one) for one in chain),
            "message": str(error)[-4000:] if error is not None else None,
            "dynamo_ran": counters["frames"]["total"] > 0,
            "aot_autograd_ran": counters["aot_autograd"]["total"] > 0,
            "inductor_ran": metrics.ir_nodes_pre_fusion > 0 or metrics.generated_kernel_count > 0,
            "graphs": counters["stats"]["unique_graphs"],
            "graph_breaks": sum(counters["graph_break"].values()),
            "kernels": metrics.generated_kernel_count,
            "vectorized_kernels": metrics.generated_cpp_vec_kernel_count,
            "identical": None,
        }
        if codes:
            path = self.folder / f"output_code_{rung}.py"
            path.write_text("\n\n".join(codes), encoding="utf-8")
            answer["output_code"] = path.name
        if result is not None:
            answer["identical"] = not self._strictly_differs(result)
            if not answer["identical"]:
                self.keep(f"rung:{rung}", dataclasses.replace(result, backward_error=None))
        return answer

    def _skip(self, rung: str) -> dict[str, Any] | None:
        """Return what a rung would find without running it, ``{}`` where it has nothing to ask, None to run it."""
        inductor = self.found.get("rung:inductor")
        compiled = inductor is not None and inductor["ending"] == "ok" and not inductor["vectorized_kernels"]
        if rung == "inductor_scalar" and inductor is not None and compiled:
            if not inductor["identical"]:
                self.keep(f"rung:{rung}", self.kept("rung:inductor"))
            return {**inductor, "rung": rung, "same_code_as": "inductor"}
        if rung == "inductor_fallback_random" and not self.random:
            return {}
        if rung == "inductor_emulate_precision_casts":
            causes = self.found.get("compare", {}).get("causes", {})
            low = self.found.get("observe", {}).get("low_precision", False)
            if "low_precision" not in causes and not (low and "unexplained" in causes):
                return {}
        return None

    def _strictly_differs(self, result: Result) -> bool:
        """Tell whether anything at all differs from eager: to the bit, the sign of zero and strides too."""
        from cpulab.explain.comparison import compare

        return any(compare(one, other) for _, one, other in _pairs(self.expected, result))

    # --- why ---

    @property
    def differing(self) -> list[str]:
        """The rungs whose results are not to the bit eager's."""
        rungs = [found for phase, found in self.found.items() if phase.startswith("rung:")]
        return [found["rung"] for found in rungs if found["identical"] is False]

    def observe(self) -> dict[str, Any]:
        """Run eager beside float64, and its rounding where something differs."""
        from cpulab.explain import gradients, shadow

        perturbed = bool(self.differing)
        with self.limited("observe", 2 * self.limits["rung_s"]):
            function, arguments = self.prepared()
            sources = gradients.sources(function, arguments)
            mode = shadow.Shadow(perturbed=perturbed)
            from cpulab.explain.comparison import leaves

            with mode:
                value = function(*arguments)
            outputs = [leaf for _, leaf in leaves(value)]
            self.evidence = {
                "": mode.evidence(outputs),
                "inputs": mode.evidence([leaf for _, leaf in leaves(arguments)]),
            }
            if sources and self.found["eager"]["has_backward"]:
                with mode:
                    gradients.backward(value)
                collected = [leaf for _, leaf in leaves(gradients.collected(sources))]
                self.evidence["gradients"] = mode.evidence(collected)
        return {**mode.facts.record(), "perturbed": perturbed}

    def variants(self) -> dict[str, Any] | None:
        """Run eager with other choices where PyTorch leaves them open, where something differs."""
        from cpulab.explain.variants import CHOICES, Variant

        if not self.differing and not self.found.get("again", {}).get("varying"):
            return None
        observed = self.found.get("observe", {})
        asked = {
            "zeros": True,
            "conversions": observed.get("undefined_conversions", 0) > 0,
            "unset": observed.get("uninitialized", False),
        }
        found: dict[str, Any] = {}
        for name, choices in CHOICES.items():
            results = []
            if asked[name]:
                with self.limited(f"variants:{name}", 2 * self.limits["eager_s"]):
                    for choose in choices:
                        # A choice may send the program where it raises.
                        with contextlib.suppress(Exception):
                            results.append(self._eager_result(self.seed, Variant(choose)))
            self._add(name, results)
            found[name] = sorted({place for result in results for place in self._differing(result)})
        found["eager_has_both_signs"] = self._both_signs()
        return found

    def _add(self, name: str, results: list[Result]) -> None:
        for prefix, attribute in (("", "outputs"), ("inputs", "inputs"), ("gradients", "gradients")):
            if prefix in self.evidence:
                values = [getattr(result, attribute) for result in results]
                listed = [[leaf for _, leaf in value.leaves] for value in values if value is not None]
                known = self.evidence[prefix]
                if name == "zeros":
                    self.evidence[prefix] = dataclasses.replace(known, zeros=listed)
                elif name == "conversions":
                    self.evidence[prefix] = dataclasses.replace(known, conversions=listed)

    def _both_signs(self) -> bool:
        """Tell whether eager's own result has zeros of both signs where all zeros are one: its parts disagree."""
        from cpulab.explain.comparison import plain

        zeros = self.evidence[""].zeros if "" in self.evidence else []
        if len(zeros) < 2:
            return False
        for (_, eager), plus, minus in zip(self.expected.outputs.leaves, *zeros[:2], strict=True):
            if not hasattr(eager, "shape") or plus.shape != minus.shape or plus.shape != eager.shape:
                continue
            one, other, seen = plain(plus), plain(minus), plain(eager)
            if one.is_floating_point():
                one, other, seen = one.signbit() | (one < 0), other.signbit() | (other < 0), seen.signbit() | (seen < 0)
            differ = one != other
            if bool((differ & (seen == one)).any()) and bool((differ & (seen == other)).any()):
                return True
        return False

    def compare(self) -> dict[str, Any]:
        """Compare every rung with eager, with all that is known of the right result."""
        rungs = [phase.removeprefix("rung:") for phase in self.found if phase.startswith("rung:")]
        with self.limited("compare", 2 * self.limits["rung_s"]):
            each = {rung: self._compared(rung) for rung in rungs}
            errors = self._errors()
        causes: dict[str, int] = {}
        inductor = each.get("inductor", {"forward": [], "backward": []})
        for one in [*inductor["forward"], *inductor["backward"]]:
            for cause, count in one["causes"].items():
                causes[cause] = causes.get(cause, 0) + count
        return {"rungs": each, "errors": errors, "causes": causes}

    def compare_emulated(self) -> dict[str, Any] | None:
        """Compare what Inductor gives when it rounds as eager does."""
        rung = "inductor_emulate_precision_casts"
        return self._compared(rung) if f"rung:{rung}" in self.found else None

    def _compared(self, rung: str) -> dict[str, Any]:
        from cpulab.explain.comparison import compare, inputs_after_call

        found = self.found[f"rung:{rung}"]
        result: Result | None = None if found["identical"] is not False else self.kept(f"rung:{rung}")
        if result is None:
            return {"forward": [], "backward": []}
        terms = self.found.get("observe", {}).get("terms", 1)
        forward = [
            *compare(self.expected.outputs, result.outputs, terms=terms, evidence=self.evidence.get("")),
            *inputs_after_call(self.expected.inputs, result.inputs, terms=terms, evidence=self.evidence.get("inputs")),
        ]
        backward = []
        if self.expected.gradients is not None and result.gradients is not None:
            backward = compare(
                self.expected.gradients,
                result.gradients,
                terms=terms,
                evidence=self.evidence.get("gradients"),
                strides=False,
            )
        return {"forward": forward, "backward": backward}

    def _errors(self) -> dict[str, Any] | None:
        """Return the largest errors of eager and of Inductor against float64, of the output where Inductor's is."""
        from cpulab.explain.comparison import errors

        if "" not in self.evidence or self.found.get("rung:inductor", {}).get("identical") is None:
            return None
        result: Result | None = self.kept("rung:inductor")
        compiled = self.expected if result is None else result
        return errors(self.expected.outputs, compiled.outputs, self.evidence[""], skip=self.varying)


def _compilable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what torch.compile takes: functions and modules as they are, other callables in a function."""
    import types

    import torch

    if isinstance(function, (torch.nn.Module, types.FunctionType, types.MethodType)):
        return function

    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call


def _pairs(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    pairs: list[tuple[str, Any, Any]] = [("", one.outputs, other.outputs), ("inputs", one.inputs, other.inputs)]
    if one.gradients is not None and other.gradients is not None:
        pairs.append(("gradients", one.gradients, other.gradients))
    return pairs


def _generators() -> tuple[Any, ...]:
    """Return the states of the generators that a case may draw from."""
    import torch

    numpy = sys.modules.get("numpy")
    state = [] if numpy is None else [str(part) for part in numpy.random.get_state()[1:3]]
    return (torch.get_rng_state().numpy().tobytes(), random.getstate(), *state)


def _out_of_memory(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, MemoryError) or any(
        mark in text for mark in ("can't allocate memory", "bad_alloc", "Cannot allocate memory", "not enough memory")
    )


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _limit_memory() -> int:
    """Let allocations fail before the machine's memory is gone. Returns the limit in bytes."""
    sizes = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines() if ":" in line
    )
    free = int(sizes["MemAvailable"].split()[0]) * 1024
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        path = Path(name)
        if path.exists() and (text := path.read_text(encoding="ascii").strip()).isdecimal():
            free = min(free, int(text))
    mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    limit = mapped + int(MEMORY_SHARE * free)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return limit


def main(asked: Path, answer: Path) -> None:
    """Do what ``asked`` says; ``answer`` says that it came to its end."""
    arguments = json.loads(asked.read_text())
    folder = Path(arguments["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    # What the case prints goes to a file that cannot fill the disk.
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))
    import torch  # noqa: F401 - its libraries are mapped before the limit is set

    session = Session(arguments)
    session.say(phase="start", state="end", found={"memory_limit": _limit_memory()})
    session.run(arguments["phases"])
    answer.write_text("{}")
    sys.stdout.flush()
    # Threads and exit handlers of the case have no say any more.
    os._exit(0)


if __name__ == "__main__":
    # Pickled results name this module: by its own name, not as __main__.
    from cpulab.explain.worker import main as run

    run(Path(sys.argv[1]), Path(sys.argv[2]))
