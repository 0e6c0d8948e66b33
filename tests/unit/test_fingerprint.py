"""The fingerprint says what a host is: every field of it, an unreadable one with its reason, and nobody's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cpulab.host.fingerprint import fingerprint
from cpulab.host.smbios import Module, memory_modules
from cpulab.paths import SCHEMAS

RECORDED = Path(__file__).parents[1] / "data" / "host" / "fingerprints"
CPU = "sys/devices/system/cpu"


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def recorded(root: Path, machine: str) -> Path:
    return write(root, json.loads((RECORDED / f"{machine}.json").read_text())["files"])


def fields(root: Path, **options: Any) -> dict[str, Any]:
    given = {"variables": {}, "architecture": "x86_64", "glibc": "glibc 2.36"}
    found = fingerprint(root, **{**given, **options})
    assert_fits_the_schema(found)
    return found


def values(root: Path, **options: Any) -> dict[str, Any]:
    return {name: field["value"] for name, field in fields(root, **options).items()}


def assert_fits_the_schema(host: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / "environment.schema.json").read_text())
    jsonschema.validate(
        host, {**schema["properties"]["host"], "$defs": schema["$defs"]}, cls=jsonschema.Draft202012Validator
    )


def test_a_file_in_another_encoding_is_read_all_the_same(tmp_path: Path) -> None:
    """Makers write what they like into the firmware's strings."""
    write(tmp_path, {"proc/cpuinfo": "flags: fpu hypervisor\n", "sys/class/dmi/id/product_name": ""})
    (tmp_path / "sys/class/dmi/id/product_name").write_bytes("VirtualBox für alle".encode("latin-1"))
    assert values(tmp_path)["hypervisor"] == "VirtualBox"


def test_this_machine_has_every_field() -> None:
    found = fingerprint()
    assert_fits_the_schema(found)
    assert found["flags"]["value"]
    assert found["memory_bytes"]["value"] > 0


def test_a_machine_that_says_nothing_has_every_field_with_its_reason(tmp_path: Path) -> None:
    found = fields(tmp_path)
    assert set(found) == set(fingerprint())
    said = {name for name, field in found.items() if field["value"] is not None}
    assert said == {"container", "architecture", "glibc"}
    assert all(field["reason"] for field in found.values() if field["value"] is None)


def test_a_field_that_is_left_out_or_null_without_a_reason_does_not_fit_the_schema(tmp_path: Path) -> None:
    for change in ("left out", "no reason", "value and reason"):
        host = fields(tmp_path)
        if change == "left out":
            del host["governor"]
        elif change == "no reason":
            host["governor"]["reason"] = None
        else:
            host["governor"]["value"] = ["performance"]
        with pytest.raises(jsonschema.ValidationError):
            assert_fits_the_schema(host)


def test_a_recorded_virtual_machine(tmp_path: Path) -> None:
    root = recorded(tmp_path, "xeon_vm")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    found = fields(root)
    value = {name: field["value"] for name, field in found.items()}
    assert value["cpu_model"] == "Intel(R) Xeon(R) Processor"
    assert value["cpu_family_model_stepping"] == "6/207/2"
    assert found["microcode"]["reason"] == "the hypervisor shows 0x1 in place of the revision"
    assert {"amx_bf16", "amx_tile", "avx2", "avx512_bf16", "avx512_fp16", "avx_vnni", "fma"} < set(
        value["vector_flags"]
    )
    assert set(value["vector_flags"]) < set(value["flags"])
    assert value["caches"][0] == {
        "level": 1, "type": "data", "size_bytes": 48 * 2**10, "ways": 12, "line_bytes": 64, "shared_by_cpus": 1
    }  # fmt: skip
    assert [(one["level"], one["size_bytes"], one["shared_by_cpus"]) for one in value["caches"][2:]] == [
        (2, 2 * 2**20, 1), (3, 300 * 2**20, 2)
    ]  # fmt: skip
    assert value["smt"] == {"active": False, "control": "notsupported"}
    assert set(value["mitigations"]) == {"spec_store_bypass", "spectre_v1", "spectre_v2", "tsx_async_abort"}
    assert value["mitigations"]["tsx_async_abort"] == "Mitigation: TSX disabled"
    assert value["transparent_hugepages"] == {"enabled": "madvise", "defrag": "madvise"}
    assert value["numa_balancing"] == 0
    assert value["memory_bytes"] == 24684092 * 1024
    assert value["swap_bytes"] == 0
    assert value["clocksource"] == "tsc"
    assert value["hypervisor"] == "there is one, without a name"
    assert value["operating_system"] == "Debian GNU/Linux 12 (bookworm)"
    assert value["kernel_parameters"] == ["mitigations=auto,no_guest_host,no_guest_guest"]
    assert value["container_limits"] == {"cpu_quota": None, "cpuset": None, "memory_bytes": None}
    for name in ("frequency_limits", "governor", "scaling_driver"):
        assert "sets the frequency" in found[name]["reason"]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (
            "ice_lake_azure",
            ("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", "6/106/6", None, "Microsoft Hyper-V"),
        ),
        ("epyc", ("AMD EPYC 7351P 16-Core Processor", "23/1/2", "0x8001230", "none")),
        ("graviton3", ("Neoverse-V1 (implementer 0x41, part 0xd40)", "8/0xd40/r1p1", None, "Amazon EC2")),
        ("ampere_altra", ("Neoverse-N1 (implementer 0x41, part 0xd0c)", "8/0xd0c/r3p1", None, None)),
    ],
)
def test_published_machines(tmp_path: Path, machine: str, expected: tuple[str | None, ...]) -> None:
    value = values(recorded(tmp_path, machine))
    names = ("cpu_model", "cpu_family_model_stepping", "microcode", "hypervisor")
    assert tuple(value[name] for name in names) == expected


@pytest.mark.parametrize(
    ("machine", "some", "none"),
    [
        ("ice_lake_azure", {"avx512f", "avx512_vnni", "fma"}, {"vaes", "amx_tile"}),
        ("epyc", {"avx2", "fma", "sse4a"}, {"svm", "sme"}),
        ("graviton3", {"asimd", "asimddp", "sve", "fcma"}, {"sha512", "sm3"}),
    ],
)
def test_vector_flags_are_those_of_the_architecture(
    tmp_path: Path, machine: str, some: set[str], none: set[str]
) -> None:
    found = set(values(recorded(tmp_path, machine))["vector_flags"])
    assert some <= found
    assert not none & found


def test_an_arm_cpu_that_is_not_in_the_table_is_told_by_its_numbers(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": "processor: 0\nCPU implementer: 0x41\nCPU part: 0xd99\n"})
    assert values(tmp_path)["cpu_model"] == "Arm CPU, implementer 0x41, part 0xd99"


def test_a_hybrid_machine_names_each_kind_of_cpu_once(tmp_path: Path) -> None:
    cpus = [
        f"processor: {one}\nCPU implementer: 0x41\nCPU part: {part}\n"
        for one, part in enumerate(("0xd0b", "0xd08") * 2)
    ]
    write(tmp_path, {"proc/cpuinfo": "\n".join(cpus)})
    assert values(tmp_path)["cpu_model"] == (
        "Cortex-A76 (implementer 0x41, part 0xd0b) and Cortex-A72 (implementer 0x41, part 0xd08)"
    )


def test_a_board_names_the_cpu_where_cpuinfo_does_not(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": "processor: 0\n", "proc/device-tree/model": "SiFive HiFive Unmatched A00\0"})
    assert values(tmp_path)["cpu_model"] == "SiFive HiFive Unmatched A00"


def test_a_shown_microcode_counts_where_there_is_no_hypervisor(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": "flags: fpu\nmicrocode: 0x1\n"})
    assert values(tmp_path)["microcode"] == "0x1"


def test_frequencies_are_told_once_for_all_cpus_with_the_same_limits(tmp_path: Path) -> None:
    for cpu, most in enumerate((5500000, 5500000, 4300000)):
        write(
            tmp_path / f"{CPU}/cpu{cpu}/cpufreq",
            {
                "cpuinfo_min_freq": "800000\n", "cpuinfo_max_freq": f"{most}\n", "scaling_min_freq": "800000\n",
                "scaling_max_freq": "3000000\n", "scaling_driver": "intel_pstate\n",
                "scaling_governor": "performance\n" if cpu else "powersave\n",
            },
        )  # fmt: skip
    write(tmp_path / f"{CPU}/cpu0/cpufreq", {"base_frequency": "2600000\n"})
    write(tmp_path / f"{CPU}/cpu1/cpufreq", {"base_frequency": "2600000\n"})
    value = values(tmp_path)
    alike = {"hardware_min_khz": 800000, "scaling_min_khz": 800000, "scaling_max_khz": 3000000}
    assert value["frequency_limits"] == [
        {"cpus": "0-1", **alike, "hardware_max_khz": 5500000, "base_khz": 2600000},
        {"cpus": "2", **alike, "hardware_max_khz": 4300000, "base_khz": None},
    ]
    assert value["scaling_driver"] == ["intel_pstate"]
    assert value["governor"] == ["performance", "powersave"]


@pytest.mark.parametrize(
    ("file", "text", "turbo"),
    [
        ("intel_pstate/no_turbo", "0", True),
        ("intel_pstate/no_turbo", "1", False),
        ("cpufreq/boost", "1", True),
        ("cpufreq/boost", "0", False),
    ],
)
def test_turbo_is_told_for_either_driver(tmp_path: Path, file: str, text: str, turbo: bool) -> None:
    assert values(write(tmp_path, {f"{CPU}/{file}": f"{text}\n"}))["turbo"] is turbo


def test_no_flaw_is_another_thing_than_no_word_of_any(tmp_path: Path) -> None:
    write(tmp_path, {f"{CPU}/vulnerabilities/meltdown": "Not affected\n"})
    assert values(tmp_path)["mitigations"] == {}


@pytest.mark.parametrize(
    ("files", "hypervisor"),
    [
        ({"proc/cpuinfo": "flags: fpu\n", "sys/class/dmi/id/sys_vendor": "QEMU"}, "none"),
        ({"proc/cpuinfo": "flags: fpu hypervisor\n", "sys/class/dmi/id/sys_vendor": "QEMU"}, "QEMU"),
        ({"proc/cpuinfo": "flags: fpu hypervisor\n", "sys/class/dmi/id/product_name": "VMware7,1"}, "VMware"),
        ({"proc/cpuinfo": "flags: fpu hypervisor\n", "sys/hypervisor/type": "xen\n"}, "Xen"),
        ({"proc/cpuinfo": "Features: fp\n", "sys/class/dmi/id/product_name": "KVM Virtual Machine"}, "KVM"),
        (
            {
                "proc/cpuinfo": "Features: fp\n",
                "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
                "sys/class/dmi/id/product_name": "c7g.metal\n",
            },
            "none",
        ),
    ],
)
def test_the_hypervisor_is_named_where_it_names_itself(tmp_path: Path, files: dict[str, str], hypervisor: str) -> None:
    assert values(write(tmp_path, files))["hypervisor"] == hypervisor


@pytest.mark.parametrize(
    ("files", "variables", "container"),
    [
        ({}, {}, "none"),
        ({".dockerenv": ""}, {}, "docker"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({}, {"APPTAINER_CONTAINER": "/lab.sif"}, "apptainer"),
        ({"run/systemd/container": "lxc\n"}, {}, "lxc"),
        ({"proc/self/cgroup": "4:memory:/docker/0123\n"}, {}, "docker"),
        ({"proc/self/cgroup": "0::/kubepods.slice/pod\n"}, {}, "kubernetes"),
        ({"proc/self/cgroup": "0::/user.slice\n"}, {}, "none"),
    ],
)
def test_a_container_is_known_by_its_marks(
    tmp_path: Path, files: dict[str, str], variables: dict[str, str], container: str
) -> None:
    assert values(write(tmp_path, files), variables=variables)["container"] == container


@pytest.mark.parametrize(
    "files",
    [
        {
            "proc/self/cgroup": "0::/lab/inner\n",
            "sys/fs/cgroup/lab/inner/cpuset.cpus.effective": "0-3\n",
            "sys/fs/cgroup/lab/cpuset.cpus.effective": "0-7\n",
            "sys/fs/cgroup/lab/inner/cpu.max": "max 100000\n",
            "sys/fs/cgroup/lab/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/lab/inner/memory.max": "max\n",
            "sys/fs/cgroup/lab/memory.max": "8589934592\n",
        },
        {
            "proc/self/cgroup": "5:cpuset:/docker/01\n4:cpu,cpuacct:/docker/01\n3:memory:/docker/01\n",
            "sys/fs/cgroup/cpuset/cpuset.cpus": "0-3\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "8589934592\n",
        },
    ],
    ids=["v2", "v1"],
)
def test_the_limits_of_a_container(tmp_path: Path, files: dict[str, str]) -> None:
    assert values(write(tmp_path, files))["container_limits"] == {
        "cpu_quota": 2.5, "cpuset": "0-3", "memory_bytes": 8 * 2**30
    }  # fmt: skip


def test_a_library_of_debian_is_told_with_its_package(tmp_path: Path) -> None:
    library = tmp_path / "usr/lib/libnuma.so.1.0.0"
    link = library.with_name("libnuma.so.1")
    write(
        tmp_path,
        {
            "usr/lib/libnuma.so.1.0.0": "",
            "var/lib/dpkg/info/libnuma1:amd64.list": f"/.\n{library}\n{link}\n",
            "var/lib/dpkg/status": "Package: libc6\nVersion: 2.36-9\n\nPackage: libnuma1\nVersion: 2.0.16-1\n",
        },
    )
    link.symlink_to(library.name)
    assert values(tmp_path, libraries={"libnuma": link})["libnuma"] == {
        "file": "libnuma.so.1.0.0", "package": "libnuma1 2.0.16-1"
    }  # fmt: skip


def test_a_library_of_another_folder_is_not_debians(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "conda/libnuma.so.1": "",
            "var/lib/dpkg/info/libnuma1:amd64.list": "/.\n/usr/lib/libnuma.so.1\n",
            "var/lib/dpkg/status": "Package: libnuma1\nVersion: 2.0.16-1\n",
        },
    )
    found = values(tmp_path, libraries={"libnuma": tmp_path / "conda/libnuma.so.1"})
    assert found["libnuma"] == {"file": "libnuma.so.1", "package": None}


def test_the_openmp_runtime_of_the_environment_is_told_with_its_wheel(tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    write(lib, {"libiomp5.so": "", "python3.11/site-packages/intel_openmp-2026.2.0.dist-info/METADATA": ""})
    assert values(tmp_path, libraries={"libiomp5": lib / "libiomp5.so"})["libiomp5"] == {
        "file": "libiomp5.so", "package": "intel_openmp 2026.2.0"
    }  # fmt: skip


MARK = "Sn7XQ2"


def memory_device(
    size: int, kind: int, speed: int, configured: int, *, extended_size: int = 0, length: int = 0x5C
) -> bytes:
    """Return a structure of type 17 by DSP0134 7.18, with strings that hold what must not be recorded."""
    formatted = bytearray(length)
    formatted[0:4] = bytes([17, length, 0x22, 0x11])

    def put(offset: int, width: int, value: int) -> None:
        if offset + width <= length:
            formatted[offset : offset + width] = value.to_bytes(width, "little")

    put(0x08, 2, 72)
    put(0x0A, 2, 64)
    put(0x0C, 2, size)
    put(0x0E, 1, 9)
    for place, offset in enumerate((0x10, 0x11, 0x17, 0x18, 0x19, 0x1A), start=1):
        put(offset, 1, place)
    put(0x12, 1, kind)
    put(0x15, 2, speed)
    put(0x1C, 4, extended_size)
    put(0x20, 2, configured)
    put(0x54, 4, 70000)
    put(0x58, 4, 68000)
    strings = b"".join(f"{MARK} {name}".encode() + b"\0" for name in range(6))
    return bytes(formatted) + strings + b"\0"


BIOS = bytes([0, 4, 0, 0]) + b"\0\0"
END = bytes([127, 4, 0, 0]) + b"\0\0"


def test_memory_modules_that_are_alike_are_counted_and_empty_sockets_are_not() -> None:
    table = BIOS + 2 * memory_device(0x7FFF, 0x1A, 3200, 2933, extended_size=32768) + memory_device(0, 2, 0, 0) + END
    assert memory_modules(table) == {Module(32 * 2**30, "DDR4", 3_200_000_000, 2_933_000_000): 2}


@pytest.mark.parametrize(
    ("structure", "module"),
    [
        (memory_device(16384, 0x22, 4800, 4400), Module(16 * 2**30, "DDR5", 4_800_000_000, 4_400_000_000)),
        (memory_device(0x8000 | 512, 0x12, 266, 0), Module(512 * 2**10, "DDR", 266_000_000, None)),
        (memory_device(0xFFFF, 0x02, 0, 0), Module(None, None, None, None)),
        (memory_device(16384, 0x22, 0xFFFF, 0xFFFF), Module(16 * 2**30, "DDR5", 70_000_000_000, 68_000_000_000)),
        (memory_device(2048, 0x13, 667, 667, length=0x1B), Module(2 * 2**30, "DDR2", 667_000_000, None)),
    ],
    ids=["plain", "in KiB", "nothing known", "too fast for the field", "SMBIOS 2.3"],
)
def test_a_memory_module_is_read_by_the_standard(structure: bytes, module: Module) -> None:
    assert memory_modules(structure + END) == {module: 1}


def test_what_follows_the_end_of_the_table_or_a_cut_is_not_read() -> None:
    module = memory_device(16384, 0x1A, 3200, 3200)
    assert memory_modules(END + module) == {}
    assert sum(memory_modules(module + module[:-1]).values()) == 1
    assert memory_modules(b"") == {}
    assert memory_modules(bytes([17, 0, 0, 0, 0, 0, 0, 0])) == {}


def test_memory_modules_reach_the_fingerprint(tmp_path: Path) -> None:
    table = tmp_path / "sys/firmware/dmi/tables/DMI"
    table.parent.mkdir(parents=True)
    table.write_bytes(memory_device(16384, 0x1A, 3200, 2933) + END)
    assert values(tmp_path)["memory_modules"] == [
        {"count": 1, "size_bytes": 16 * 2**30, "type": "DDR4", "rated_transfers_per_s": 3_200_000_000,
         "configured_transfers_per_s": 2_933_000_000}
    ]  # fmt: skip


def test_nobodys_name_and_no_serial_number_is_recorded(tmp_path: Path) -> None:
    """Every file that may hold one holds a mark, and the mark is nowhere in the result."""
    owned = ("product_serial", "product_uuid", "board_serial", "board_asset_tag", "chassis_serial", "chassis_asset_tag",
             "sys_vendor", "product_name", "product_sku", "product_family", "board_name", "bios_version")  # fmt: skip
    write(tmp_path, {f"sys/class/dmi/id/{name}": f"{MARK} QEMU\n" for name in owned})
    write(
        tmp_path,
        {
            **dict.fromkeys(("etc/hostname", "etc/machine-id", "proc/sys/kernel/hostname", "proc/1/environ"), MARK),
            "sys/class/net/eth0/address": MARK,
            "proc/cpuinfo": f"flags: fpu hypervisor\nmodel name: A CPU\nSerial: {MARK}\n",
            "proc/cmdline": f"root=UUID={MARK} ip={MARK} mitigations=off nosmt isolcpus=2-3 x.mitigations={MARK}\n",
            "proc/version": MARK,
            "proc/self/cgroup": f"0::/{MARK}\n",
            f"sys/fs/cgroup/{MARK}/memory.max": "4096\n",
            "sys/hypervisor/uuid": MARK,
            "etc/os-release": f'HOSTNAME={MARK}\nPRETTY_NAME="An OS"\n',
            "run/systemd/container": MARK,
        },
    )
    table = tmp_path / "sys/firmware/dmi/tables/DMI"
    table.parent.mkdir(parents=True)
    table.write_bytes(memory_device(16384, 0x1A, 3200, 2933) + END)
    variables = dict.fromkeys(("KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "HOSTNAME", "USER"), MARK)
    library = tmp_path / MARK / "libjemalloc.so.2"
    write(tmp_path, {f"{MARK}/libjemalloc.so.2": ""})
    found = fields(tmp_path, variables=variables, libraries={"libjemalloc": library})
    assert MARK not in json.dumps(found)
    # They were read all the same: what may be said of them is there.
    value = {name: field["value"] for name, field in found.items()}
    assert value["hypervisor"] == "QEMU"
    assert value["kernel_parameters"] == ["mitigations=off", "nosmt", "isolcpus=2-3"]
    assert value["operating_system"] == "An OS"
    assert value["container_limits"]["memory_bytes"] == 4096
    assert value["container"] == "kubernetes"
    assert len(value["memory_modules"]) == 1
