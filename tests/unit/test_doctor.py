"""The doctor says whether a machine is ready, and what is not in force or will spoil a measurement."""

from __future__ import annotations

from typing import Any

from cpulab.host.doctor import diagnosis, text

ROW = {"name": "KMP_BLOCKTIME", "wanted": "1", "found": "1", "state": "in_force", "reason": None, "remedy": None}
MISSING = ROW | {"found": "200", "state": "not_in_force", "reason": "the runtime has another block time"}
IMPOSSIBLE = ROW | {"name": "numactl -m", "state": "impossible", "reason": "the kernel refuses", "remedy": "allow it"}


def environment(*rows: dict[str, Any], preflight: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """Return the parts of an environment record that the doctor reads."""
    return {
        "host": {"cpu_model": {"value": None, "reason": "/proc/cpuinfo has no model name"}},
        "topology": {"summary": "1 socket x 2 cores", "disagreements": ["libnuma sees 1 CPU."]},
        "plan": {"numactl": "numactl -C 0-1 -m 0", "cpus": [0, 1], "reasons": ["2 cores of socket 0"]},
        "tuning": [],
        "settings": list(rows or [ROW]),
        "preflight": preflight or [],
        "compiler": {"path": "/usr/bin/g++", "version": "g++ 12.2.0"},
        "versions": {"torch": "2.13.0"},
        "lock": {},
        "image": None,
        "python": "/secret/path",
    }


def test_a_machine_with_every_setting_in_force_is_ready() -> None:
    found = diagnosis(environment())
    assert found["ready"] is True
    assert text(found).endswith("Ready.")
    assert "nothing seen" in text(found)


def test_a_setting_that_is_not_in_force_is_named_with_wanted_found_and_reason() -> None:
    found = diagnosis(environment(MISSING))
    assert found["ready"] is False
    assert "another block time: wanted 1, found 200" in text(found)
    assert text(found).endswith("Not ready: KMP_BLOCKTIME not in force.")


def test_what_is_impossible_here_is_said_with_its_remedy_and_does_not_make_a_machine_unready() -> None:
    found = diagnosis(environment(ROW, IMPOSSIBLE))
    assert found["ready"] is True
    assert "--  numactl -m     not possible here: the kernel refuses; allow it" in text(found)
    assert text(found).endswith("Ready, without what is not possible here: numactl -m.")


def test_what_is_to_be_known_of_a_setting_in_force_is_said() -> None:
    assert "in force (one memory node)" in text(diagnosis(environment(ROW | {"reason": "one memory node"})))


def test_a_warning_comes_with_its_remedy_and_does_not_make_a_machine_unready() -> None:
    swap = {"name": "swap", "found": "5 MiB in use", "remedy": "free memory"}
    found = diagnosis(environment(preflight=[swap]))
    assert found["ready"] is True
    assert "swap: 5 MiB in use. Free memory." in text(found)


def test_the_topology_is_told_with_what_libnuma_sees_otherwise() -> None:
    assert "Topology   1 socket x 2 cores\n           libnuma sees 1 CPU.\n" in text(diagnosis(environment()))


def test_an_unknown_cpu_is_said_with_its_reason() -> None:
    assert "no model name" in text(diagnosis(environment()))


def test_a_diagnosis_holds_no_path_of_the_environment() -> None:
    assert "python" not in diagnosis(environment())
