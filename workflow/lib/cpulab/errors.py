"""Every error a user can meet: what is wrong, with its value; then what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class LabError(Exception):
    """A finding against the user's input or machine; the command line exits 1 and prints its two sentences."""


class InputError(LabError):
    """The user's input is wrong: no record is written and the workflow stops."""


class MachineError(LabError):
    """The machine failed or refused: the step's record says so and the report still builds."""


# --- input ---------------------------------------------------------------------------------------


class UnknownPreset(InputError):
    """The preset has no file in config/presets."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        super().__init__(f"There is no preset {name!r}. Choose one of: {', '.join(sorted(known))}.")


class BadConfig(InputError):
    """A configuration value that the schema refuses."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            f"The configuration is wrong at {where}: {problem}. "
            "Correct it in config/ or on the command line; config/README.md lists every key."
        )


class NoCase(InputError):
    """A text that does not name a function in a file, as a user's case is named."""

    def __init__(self, case: str) -> None:
        super().__init__(f"The case {case!r} names no function in a file. Write it as path/to/file.py:function.")


class NoCaseFile(InputError):
    """A user's case in a file that is not there."""

    def __init__(self, case: str) -> None:
        super().__init__(
            f"The file of the case {case!r} is not there. Give its path from this folder, or its absolute one."
        )


class SameCase(InputError):
    """Two of the user's cases that would leave the same record."""

    def __init__(self, case: str, other: str, record: str) -> None:
        super().__init__(
            f"The cases {other!r} and {case!r} would leave the same record, {record}. "
            "Name each case once, and rename the file or the function where two have the same name."
        )


class UnfitCase(InputError):
    """A user's case that cannot be timed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The case cannot be timed: {reason.rstrip('.')}. Correct it, or ask cpulab explain about it.")


class BadBudget(InputError):
    """A budget that is no time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"A budget of {seconds} s is no time to measure in. Give --budget more than 0 seconds.")


class BadCores(InputError):
    """A number of cores that no job can run on."""

    def __init__(self, cores: object) -> None:
        super().__init__(f"{cores} is not a number of cores to measure on. Give --cores a number from 1 up, or all.")


class BadImageId(InputError):
    """A docker image id that is none."""

    def __init__(self, value: str) -> None:
        super().__init__(
            f"CPULAB_IMAGE_ID={value} is not the id of a docker image. "
            "Pass what `docker image inspect -f '{{.Id}}' cpulab` prints, or leave it out."
        )


class UnknownCase(InputError):
    """A step was asked for a case it does not have."""

    def __init__(self, step: str, case: str, known: Iterable[str]) -> None:
        super().__init__(f"The step {step} has no case {case!r}. Choose one of: {', '.join(sorted(known))}.")


class ModelNotLoadable(InputError):
    """A model that is neither on disk, in the cache, nor to be fetched."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"The model {name!r} cannot be loaded: {reason}. "
            "Give config key `model` a local folder or a name in the Hugging Face cache, or leave it out."
        )


class BadFile(InputError):
    """A results file that is not what its writer wrote."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} cannot be trusted: {problem}. Delete it and rerun; only its step will run again.")


class MixedPresets(InputError):
    """Records of two presets in one results folder."""

    def __init__(self, presets: Iterable[str]) -> None:
        super().__init__(
            f"The records come from different presets ({', '.join(sorted(presets))}) and are not judged together. "
            "Rerun `snakemake --cores all report` with one preset, or delete the folder results/."
        )


class OtherEnvironment(InputError):
    """Records that were made under another environment than the one they are to be judged with."""

    def __init__(self, names: Iterable[str], environment: Path) -> None:
        super().__init__(
            f"{', '.join(names)} ran under another environment than {environment} describes. "
            "Rerun `snakemake --cores all report`, which repeats these steps, or delete them."
        )


class BadClaims(InputError):
    """A claims file that the schema or the judge refuses."""

    def __init__(self, path: Path, where: str, problem: str) -> None:
        super().__init__(f"The claims file {path} is wrong at {where}: {problem}. Correct that entry and rerun.")


class UnknownFault(InputError):
    """A fault that the registry does not have."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"There is no injected fault {name!r}. Choose one of: {', '.join(sorted(known))}.")


class UnknownOverride(InputError):
    """A fault was asked for in a code generator that it does not break."""

    def __init__(self, fault: str, override: str, known: Iterable[str]) -> None:
        super().__init__(
            f"The fault {fault!r} cannot be put into the override {override!r}. Choose one of: {', '.join(known)}."
        )


class BadSimdlen(InputError):
    """A vector length that is not a number."""

    def __init__(self, value: str) -> None:
        super().__init__(
            f"CPULAB_SIMDLEN={value} is not a vector length. Set it to a number of bits, or to 1 for scalar code."
        )


# --- machine -------------------------------------------------------------------------------------


class MissingLibrary(MachineError):
    """A shared library of the tuned environment that was not found."""

    def __init__(self, library: str, remedy: str, looked_in: Iterable[str]) -> None:
        super().__init__(f"{library} was not found in {', '.join(looked_in)}. To get it: {remedy}.")


class MissingProgram(MachineError):
    """A program that the suite cannot do without."""

    def __init__(self, what: str, tried: Iterable[str], remedy: str) -> None:
        super().__init__(f"There is no {what} on this machine (tried: {', '.join(tried)}). To get it: {remedy}.")


class EnvironmentNotBuilt(MachineError):
    """The measured environment could not be built, or is gone."""

    def __init__(self, where: Path, reason: str) -> None:
        super().__init__(
            f"The measured environment {where} is not usable: {reason}. "
            "Build it with `snakemake --cores all environment --forcerun environment`."
        )


class EnvironmentNotOfLock(MachineError):
    """The measured environment is not what its lock names, where it may not be built anew: in an image."""

    def __init__(self, where: Path, lock: str, differences: str) -> None:
        super().__init__(
            f"The measured environment {where} is not what {lock} names, and this user may not build it anew: "
            f"{differences}. Make the image anew with `make image`, or run as the owner of that folder."
        )


class WrongPython(MachineError):
    """A Python that the lock of the measured environment is not made for."""

    def __init__(self, lock: str, wanted: str, found: str) -> None:
        super().__init__(
            f"The lock {lock} is for Python {wanted} and this is Python {found}. "
            f"Install it and start again with `make clean` and `make report PYTHON=python{wanted}`."
        )


class BindingRefused(MachineError):
    """The kernel refused CPU affinity or a memory policy."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(
            f"This process may not bind itself to {what}: {reason}. "
            "Ask for cores that it may use, or start the container with --cap-add SYS_NICE."
        )


class SettingsNotInForce(MachineError):
    """Settings of the tuned environment that a measured process did not find in force."""

    def __init__(self, settings: Iterable[str]) -> None:
        super().__init__(
            f"Not in force inside a measured process: {'; '.join(settings)}. "
            "Mend what the reasons name and rerun; `cpulab doctor` shows every setting."
        )


class ProcessFailed(MachineError):
    """A measured process that ended otherwise than it should have."""

    def __init__(self, what: str, ending: str, log: Path | str) -> None:
        super().__init__(f"{what} {ending}. Its output is in {log}.")


class FaultNotInjectable(MachineError):
    """The installed PyTorch has nothing that the fault could break."""

    def __init__(self, fault: str, target: str) -> None:
        super().__init__(
            f"The fault {fault!r} cannot be injected: this PyTorch has no {target}. "
            "Use the version in envs/cpu.lock, or add a fault for this version to cpulab/debug/faults.py."
        )


class DiskFull(MachineError):
    """No space left where results are written."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"There is no space left to write {path}. Free some space and rerun; nothing half-written was kept."
        )
