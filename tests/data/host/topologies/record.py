"""Records a machine's topology as a small text, and lays a recording down as kernel files again (README.md: the format).

Needs nothing but Python: ``python3 record.py > machine.txt`` on the machine, or in the container, to be recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
COLUMNS = {
    "SOCKET": "topology/physical_package_id",
    "CORE_ID": "topology/core_id",
    "MAX_KHZ": "cpufreq/cpuinfo_max_freq",
    "CAPACITY": "cpu_capacity",
}
KINDS = tuple(f"sys/devices/{kind}/cpus" for kind in ("cpu_core", "cpu_atom", "cpu_lowpower"))
QUOTAS = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")


def expand(cell: str) -> list[int]:
    """Return the ids of a cell: the kernel's list format, with ``a-b:s`` for every s-th and ``a-b*n`` for n times each."""
    if re.fullmatch(r"-?\d+", cell):
        return [int(cell)]
    ids = []
    for part in filter(None, cell.split(",")):
        first, last, step, times = re.fullmatch(r"(\d+)(?:-(\d+))?(?::(\d+))?(?:\*(\d+))?", part).groups()
        ids += [one for one in range(int(first), int(last or first) + 1, int(step or 1)) for _ in range(int(times or 1))]
    return ids


def fold(ids: Iterable[int]) -> str:
    """Return ids in the kernel's list format."""
    text = ""
    for one in sorted(ids):
        follows = re.search(r"(\d+)$", text)
        if follows and one == int(follows[1]) + 1:
            text = re.sub(r"-\d+$", "", text) + f"-{one}"
        else:
            text += f",{one}" if text else f"{one}"
    return text


def sections(recording: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield ``(header words, cells)`` for each line below a header; comments and blank lines are passed over."""
    header: list[str] = []
    for line in recording.splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words[0] in {"CPU", "NODE", "FILE"}:
            header = words
        else:
            yield header, words if header[0] != "FILE" else line.split(": ", 1)


def lay_down(recording: str, root: Path) -> None:
    """Write a recording as kernel files below ``root``. What it does not tell (``-``) is not written."""
    cpus, nodes, files = {}, {}, {}
    for header, cells in sections(recording):
        if header[0] == "CPU":
            ids = expand(cells[0])
            for name, cell in zip(header[1:], cells[1:], strict=True):
                values = expand(cell) if cell != "-" else [None]
                values = values * len(ids) if len(values) == 1 else values
                for one, value in zip(ids, values, strict=True):
                    cpus.setdefault(one, {})[name] = value
        elif header[0] == "NODE":
            nodes[int(cells[0])] = cells[1:]
        else:
            files[cells[0]] = files.get(cells[0], "") + cells[1] + "\n"

    allowed = f"Cpus_allowed_list:\t{fold(cpus)}\nMems_allowed_list:\t{fold(nodes) or 0}\n"
    out = {f"{CPU}/online": fold(cpus), f"{CPU}/present": fold(cpus), "proc/self/status": allowed}
    for one, cpu in cpus.items():
        siblings = [other for other in cpus if cpus[other]["CORE"] == cpu["CORE"]]
        out[f"{CPU}/cpu{one}/topology/thread_siblings_list"] = fold(siblings)
        for name, path in COLUMNS.items():
            if cpu.get(name) is not None:
                out[f"{CPU}/cpu{one}/{path}"] = str(cpu[name])
    for node, (memory_kb, distances) in nodes.items():
        out[f"{NODE}/node{node}/cpulist"] = fold(one for one, cpu in cpus.items() if cpu["NODE"] == node)
        if memory_kb != "-":
            out[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal:       {memory_kb} kB"
        if distances != "-":
            out[f"{NODE}/node{node}/distance"] = distances.replace(",", " ")
    for path, text in {**out, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text if text.endswith("\n") else text + "\n")


def read(path: Path) -> str | None:
    """Return what a file says, or None."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def record(root: Path = Path("/")) -> str:
    """Return a recording of the machine below ``root``, as this process sees it."""
    online = expand(read(root / CPU / "online"))
    nodes = sorted(int(folder.name[4:]) for folder in (root / NODE).glob("node[0-9]*"))
    node_of = {cpu: node for node in nodes for cpu in expand(read(root / NODE / f"node{node}/cpulist"))}
    cores: dict[str, int] = {}
    rows = []
    for one in online:
        folder = root / CPU / f"cpu{one}"
        siblings = read(folder / "topology/thread_siblings_list")
        core = cores.setdefault(siblings, len(cores))
        rows.append([one, core, node_of.get(one, "-"), *((read(folder / path) or "-") for path in COLUMNS.values())])
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, ["CPU", "CORE", "NODE", *COLUMNS])]
    lines = [" ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip()
             for row in (["CPU", "CORE", "NODE", *COLUMNS], *rows)]  # fmt: skip
    lines += ["", "NODE MEMORY_KB DISTANCES"]
    for node in nodes:
        memory = re.search(r"MemTotal:\s*(\d+)", read(root / NODE / f"node{node}/meminfo") or "")
        distances = (read(root / NODE / f"node{node}/distance") or "-").replace(" ", ",")
        lines.append(f"{node} {memory[1] if memory else '-'} {distances}")
    lines += ["", "FILE"]
    for path, text in files(root).items():
        lines += [f"{path}: {line}" for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def files(root: Path) -> dict[str, str]:
    """Return the files which are kept as they are; of /proc/self, only what bears on CPUs and memory nodes."""
    kept = {path: read(root / path) for path in (f"{CPU}/present", *KINDS)}
    status = read(root / "proc/self/status") or ""
    kept["proc/self/status"] = "\n".join(re.findall(r"^(?:Cpus|Mems)_allowed_list:.*$", status, re.MULTILINE))
    groups = re.findall(r"^\d+:(?:|[^:]*\bcpu\b[^:]*|cpuset):.*$", read(root / "proc/self/cgroup") or "", re.MULTILINE)
    kept["proc/self/cgroup"] = re.sub(r"[0-9a-f]{64}", "container", "\n".join(groups))
    for line in groups:
        _, controllers, group = line.split(":", 2)
        for mount in ("", "unified", controllers, "cpu"):
            folder = Path("sys/fs/cgroup", mount, group.lstrip("/"))
            for place in (folder, *folder.parents):
                for name in QUOTAS:
                    path = re.sub(r"[0-9a-f]{64}", "container", str(place / name))
                    kept.setdefault(path, read(root / place / name))
    return {path: text for path, text in kept.items() if text}


if __name__ == "__main__":
    print(record(), end="")
