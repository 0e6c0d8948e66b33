"""What host this is, as far as it decides how fast code runs on it; no serial numbers, no host or user names."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.host.kernel import CGROUPS, cgroup_folders, fields, kib_fields, memory_limit, number, text
from cpulab.host.smbios import memory_modules
from cpulab.host.topology import SYSFS_CPU, format_list, parse_list, read_quota

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A value and why it is None; the reason of a value that was found is not used.
Reading = tuple[Any, str]

X86_VECTORS = ("avx", "amx", "fma", "f16c", "sse", "ssse")
ARM_VECTORS = ("asimd", "fphp", "fcma", "sve", "sme", "bf16", "i8mm", "svebf16", "svei8mm")

# Arm CPUs have numbers, not names (MIDR_EL1). Names of servers': util-linux, sys-utils/lscpu-arm.c.
ARM_PARTS = {
    ("0x41", "0xd07"): "Cortex-A57",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x41", "0xd8e"): "Neoverse-N3",
    ("0x43", "0x0af"): "ThunderX2-99xx",
    ("0x46", "0x001"): "A64FX",
    ("0x48", "0xd01"): "TaiShan-v110",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}

# What a hypervisor shows where a guest asks for the microcode: KVM on Intel and on AMD (arch/x86/kvm/vmx/vmx.c,
# svm/svm.c), Hyper-V.
SHOWN_MICROCODE = {"0x1", "0x1000065", "0xffffffff"}

# Parts of the firmware's names for maker and product that name a hypervisor. The names themselves are not recorded:
# an owner may have written something else into them.
UNNAMED = "there is one, without a name"
HYPERVISORS = {
    "Amazon EC2": "Amazon EC2",
    "Google Compute Engine": "Google Compute Engine",
    "Microsoft Corporation Virtual Machine": "Microsoft Hyper-V",
    "VMware": "VMware",
    "VirtualBox": "VirtualBox",
    "Xen": "Xen",
    "KVM": "KVM",
    "QEMU": "QEMU",
    "OpenStack": "OpenStack",
    "Alibaba Cloud": "Alibaba Cloud",
}

# The only words of the kernel's command line that are recorded; others may hold names of disks or hosts.
KERNEL_PARAMETERS = re.compile(
    r"(?:mitigations|isolcpus|nohz_full|intel_pstate|amd_pstate|nosmt|transparent_hugepage|numa_balancing)"
    r"(?:=[\w.:,+-]*)?"
)

# Mark -> container. The first that is found counts: Kubernetes and Apptainer start containers that look like others'.
CONTAINER_VARIABLES = {
    "KUBERNETES_SERVICE_HOST": "kubernetes",
    "APPTAINER_CONTAINER": "apptainer",
    "SINGULARITY_CONTAINER": "apptainer",
}
CONTAINER_FILES = {"run/.containerenv": "podman", ".dockerenv": "docker", "dev/lxd/sock": "lxc"}
CONTAINER_GROUPS = {"kubepods": "kubernetes", "libpod": "podman", "docker": "docker", "lxc": "lxc"}


def fingerprint(
    root: Path = Path("/"),
    *,
    libraries: Mapping[str, Path | None] | None = None,
    variables: Mapping[str, str] | None = None,
    architecture: str | None = None,
    glibc: str | None = None,
) -> dict[str, Any]:
    """Return the host's fields below ``root``: each ``{"value": ..., "reason": why it is null, or null}``.

    ``libraries``: where libiomp5, libjemalloc and libnuma are. ``variables``: of this process. ``architecture`` and
    ``glibc`` are this process's own unless they are given, as for a recorded tree.
    """
    where = libraries or {}
    cpuinfo = text(root / "proc/cpuinfo") or ""
    cpus = [fields(part) for part in cpuinfo.split("\n\n") if part.strip()]
    memory = kib_fields(text(root / "proc/meminfo") or "")
    no_meminfo = "/proc/meminfo does not say"
    found: dict[str, Reading] = {
        "cpu_model": _cpu_model(cpus, root),
        "cpu_family_model_stepping": _stepping(cpus),
        "microcode": _microcode(cpus),
        "vector_flags": _vector_flags(cpus),
        "flags": (sorted(_flags(cpus)) or None, "/proc/cpuinfo has no flags"),
        "caches": _caches(root),
        "frequency_limits": _frequency_limits(root),
        "scaling_driver": _of_all_cpus(root, "cpufreq/scaling_driver"),
        "governor": _of_all_cpus(root, "cpufreq/scaling_governor"),
        "turbo": _turbo(root),
        "smt": _smt(root),
        "mitigations": _mitigations(root),
        "transparent_hugepages": _transparent_hugepages(root),
        "numa_balancing": (number(root / "proc/sys/kernel/numa_balancing"), "the kernel has no numa_balancing"),
        "memory_bytes": (memory.get("MemTotal"), no_meminfo),
        "memory_modules": _memory_modules(root),
        "swap_bytes": (memory.get("SwapTotal"), no_meminfo),
        "clocksource": (
            text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
            "sysfs has no clocksource0",
        ),
        "hypervisor": _hypervisor(cpus, root),
        "container": (_container(root, os.environ if variables is None else variables), ""),
        "container_limits": _container_limits(root),
        "operating_system": _operating_system(root),
        "kernel": (text(root / "proc/sys/kernel/osrelease"), "/proc/sys/kernel/osrelease is not there"),
        "kernel_parameters": _kernel_parameters(root),
        "architecture": (architecture or platform.machine() or None, "the kernel does not say"),
        "glibc": (glibc or " ".join(platform.libc_ver()).strip() or None, "Python does not say which C library it has"),
        **{name: _library(root, where.get(name)) for name in ("libiomp5", "libjemalloc", "libnuma")},
    }
    return {name: {"value": value, "reason": why if value is None else None} for name, (value, why) in found.items()}


def _first(cpus: list[dict[str, str]]) -> dict[str, str]:
    return cpus[0] if cpus else {}


def _cpu_model(cpus: list[dict[str, str]], root: Path) -> Reading:
    models = dict.fromkeys(
        one["model name"] if "model name" in one else _arm_model(one)
        for one in cpus
        if "model name" in one or "CPU part" in one
    )
    # A board of the device tree, where /proc/cpuinfo has neither names nor numbers.
    board = (text(root / "proc/device-tree/model") or "").rstrip("\0")
    return " and ".join(models) or board or None, "neither /proc/cpuinfo nor a device tree names the CPU"


def _arm_model(cpu: Mapping[str, str]) -> str:
    numbers = cpu.get("CPU implementer", "?"), cpu["CPU part"]
    name = ARM_PARTS.get(numbers)
    said = f"implementer {numbers[0]}, part {numbers[1]}"
    return f"{name} ({said})" if name else f"Arm CPU, {said}"


def _stepping(cpus: list[dict[str, str]]) -> Reading:
    first = _first(cpus)
    if "CPU part" in first:
        variant, revision = (first.get(name, "?") for name in ("CPU variant", "CPU revision"))
        variant = str(int(variant, 16)) if variant.startswith("0x") else variant
        return f"{first.get('CPU architecture', '?')}/{first['CPU part']}/r{variant}p{revision}", ""
    names = ("cpu family", "model", "stepping")
    known = all(name in first for name in names)
    return "/".join(first[name] for name in names) if known else None, "/proc/cpuinfo has no family, model and stepping"


def _microcode(cpus: list[dict[str, str]]) -> Reading:
    found = _first(cpus).get("microcode")
    if found in SHOWN_MICROCODE and "hypervisor" in _flags(cpus):
        return None, f"the hypervisor shows {found} in place of the revision"
    return found, "/proc/cpuinfo has no microcode"


def _flags(cpus: list[dict[str, str]]) -> set[str]:
    first = _first(cpus)
    return set(first.get("flags", first.get("Features", "")).split())


def _vector_flags(cpus: list[dict[str, str]]) -> Reading:
    # On AMD "sme" is memory encryption, so each family has its own names.
    prefixes = ARM_VECTORS if "Features" in _first(cpus) else X86_VECTORS
    found = sorted(flag for flag in _flags(cpus) if flag.startswith(prefixes))
    return found or None, "/proc/cpuinfo has no vector flags"


def _caches(root: Path) -> Reading:
    """Source: Documentation/ABI/testing/sysfs-devices-system-cpu, cache/index*."""
    found = []
    for folder in sorted((root / SYSFS_CPU / "cpu0/cache").glob("index[0-9]*")):
        size = re.fullmatch(r"(\d+)([KM]?)", text(folder / "size") or "")
        shared = text(folder / "shared_cpu_list")
        found.append(
            {
                "level": number(folder / "level"),
                "type": (text(folder / "type") or "unknown").lower(),
                "size_bytes": int(size[1]) * {"": 1, "K": 2**10, "M": 2**20}[size[2]] if size else None,
                "ways": number(folder / "ways_of_associativity"),
                "line_bytes": number(folder / "coherency_line_size"),
                "shared_by_cpus": len(parse_list(shared)) if shared else None,
            }
        )
    return found or None, "sysfs has no cache folders for cpu0"


def _cpu_folders(root: Path) -> dict[int, Path]:
    folders = {int(one.name.removeprefix("cpu")): one for one in (root / SYSFS_CPU).glob("cpu[0-9]*")}
    return dict(sorted(folders.items()))


def _no_cpufreq(what: str) -> str:
    return f"sysfs has no {what}: the firmware or a hypervisor sets the frequency"


def _of_all_cpus(root: Path, name: str) -> Reading:
    found = {said for folder in _cpu_folders(root).values() if (said := text(folder / name)) is not None}
    return sorted(found) or None, _no_cpufreq(name)


def _frequency_limits(root: Path) -> Reading:
    """Source: Documentation/admin-guide/pm/cpufreq.rst, Documentation/admin-guide/pm/intel_pstate.rst."""
    names = {
        "hardware_min_khz": "cpuinfo_min_freq",
        "hardware_max_khz": "cpuinfo_max_freq",
        "scaling_min_khz": "scaling_min_freq",
        "scaling_max_khz": "scaling_max_freq",
        "base_khz": "base_frequency",
    }
    alike: dict[tuple[int | None, ...], list[int]] = {}
    for cpu, folder in _cpu_folders(root).items():
        limits = tuple(number(folder / "cpufreq" / name) for name in names.values())
        if any(limit is not None for limit in limits):
            alike.setdefault(limits, []).append(cpu)
    found = [{"cpus": format_list(ids), **dict(zip(names, limits, strict=True))} for limits, ids in alike.items()]
    return found or None, _no_cpufreq("cpufreq")


def _turbo(root: Path) -> Reading:
    no_turbo = number(root / SYSFS_CPU / "intel_pstate/no_turbo")
    boost = number(root / SYSFS_CPU / "cpufreq/boost")
    why = "sysfs has neither intel_pstate/no_turbo nor cpufreq/boost"
    if no_turbo is not None:
        return no_turbo == 0, ""
    return None if boost is None else boost == 1, why


def _smt(root: Path) -> Reading:
    active, control = number(root / SYSFS_CPU / "smt/active"), text(root / SYSFS_CPU / "smt/control")
    if active is None and control is None:
        return None, "sysfs has no smt folder"
    return {"active": None if active is None else active == 1, "control": control}, ""


def _mitigations(root: Path) -> Reading:
    """Source: Documentation/admin-guide/hw-vuln/index.rst; a flaw that this CPU does not have is left out."""
    files = sorted((root / SYSFS_CPU / "vulnerabilities").glob("*"))
    states = {one.name: text(one) or "not readable" for one in files}
    if not states:
        return None, "sysfs has no vulnerabilities folder"
    return {name: state for name, state in states.items() if state != "Not affected"}, ""


def _transparent_hugepages(root: Path) -> Reading:
    """Source: Documentation/admin-guide/mm/transhuge.rst: the word in brackets is the one in force."""
    folder = root / "sys/kernel/mm/transparent_hugepage"
    found = {}
    for name in ("enabled", "defrag"):
        chosen = re.search(r"\[(.+?)\]", text(folder / name) or "")
        found[name] = chosen[1] if chosen else None
    return found if any(found.values()) else None, "the kernel has no transparent huge pages"


def _memory_modules(root: Path) -> Reading:
    path = root / "sys/firmware/dmi/tables/DMI"
    try:
        table = path.read_bytes()
    except PermissionError:
        return None, "only root may read the firmware's table (SMBIOS)"
    except OSError:
        return None, "the firmware has no table of them (SMBIOS)"
    found = [{"count": count, **asdict(module)} for module, count in memory_modules(table).items()]
    return found or None, "the firmware's table (SMBIOS) has no memory module"


def _hypervisor(cpus: list[dict[str, str]], root: Path) -> Reading:
    flags = _flags(cpus)
    x86 = "flags" in _first(cpus)
    if x86 and "hypervisor" not in flags:
        return "none", ""
    vendor, product = (text(root / f"sys/class/dmi/id/{name}") or "" for name in ("sys_vendor", "product_name"))
    if vendor == "Amazon EC2" and product.endswith(".metal"):
        return "none", ""
    kind = text(root / "sys/hypervisor/type")
    if kind:
        return {"xen": "Xen", "kvm": "KVM"}.get(kind, UNNAMED), ""
    for part, name in HYPERVISORS.items():
        if part in f"{vendor} {product}":
            return name, ""
    if x86:
        return UNNAMED, ""
    return None, "an Arm CPU has no flag for it, and the firmware names none"


def _container(root: Path, variables: Mapping[str, str]) -> str:
    marks: list[Callable[[], str | None]] = [
        lambda: next((kind for name, kind in CONTAINER_VARIABLES.items() if variables.get(name)), None),
        lambda: next((kind for name, kind in CONTAINER_FILES.items() if (root / name).exists()), None),
        # systemd writes the container's manager there: https://systemd.io/CONTAINER_INTERFACE
        lambda: {"lxc": "lxc", "docker": "docker", "podman": "podman"}.get(text(root / "run/systemd/container") or ""),
        lambda: next(
            (kind for part, kind in CONTAINER_GROUPS.items() if part in (text(root / "proc/self/cgroup") or "")), None
        ),
    ]
    return next((kind for mark in marks if (kind := mark()) is not None), "none")


def _container_limits(root: Path) -> Reading:
    if not (root / CGROUPS).is_dir():
        return None, f"/{CGROUPS} is not there"
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    sets = (text(folder / name) for folder in cgroup_folders(root, "cpuset") for name in names)
    return {
        "cpu_quota": read_quota(root),
        "cpuset": next((one for one in sets if one), None),
        "memory_bytes": memory_limit(root),
    }, ""


def _operating_system(root: Path) -> Reading:
    """Source: os-release(5)."""
    said = (text(root / name) for name in ("etc/os-release", "usr/lib/os-release"))
    name = re.search(r'^PRETTY_NAME="?([^"\n]+)', next((one for one in said if one), ""), flags=re.MULTILINE)
    return name[1] if name else None, "/etc/os-release has no PRETTY_NAME"


def _kernel_parameters(root: Path) -> Reading:
    line = text(root / "proc/cmdline")
    if line is None:
        return None, "/proc/cmdline is not there"
    return [word for word in line.split() if KERNEL_PARAMETERS.fullmatch(word)], ""


def _library(root: Path, path: Path | None) -> Reading:
    if path is None:
        return None, "not found"
    real = path.resolve()
    return {"file": real.name, "package": _wheel(real) or _debian_package(root, path, real)}, ""


def _wheel(real: Path) -> str | None:
    """Return the wheel that put libiomp5 into an environment's lib: PyPI's intel-openmp."""
    known = sorted(real.parent.glob("python3*/site-packages/intel_openmp-*.dist-info")) if "iomp5" in real.name else []
    return " ".join(known[0].name.removesuffix(".dist-info").split("-")) if known else None


def _debian_package(root: Path, path: Path, real: Path) -> str | None:
    """Return name and version of the package that installed a library (dpkg-query(1), without the program)."""
    # Debian names a package of a library by its soname: libjemalloc.so.2 is in libjemalloc2 (Policy, 8.1).
    name = re.sub(r"\.so\.(\d+).*", r"\1", real.name)
    lists = [text(one) or "" for one in (root / "var/lib/dpkg/info").glob(f"{name}*.list")]
    if not any(str(file) in installed.splitlines() for installed in lists for file in (path, real)):
        return None
    for part in (text(root / "var/lib/dpkg/status") or "").split("\n\n"):
        about = fields(part)
        if about.get("Package") == name:
            return f"{name} {about['Version']}"
    return None
