"""The doctor says whether a machine is ready, and what is not in force or will spoil a measurement."""

from __future__ import annotations

from typing import Any

from cpulab.host.doctor import diagnosis, text


def environment(*, in_force: bool = True, preflight: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """Return the parts of an environment record that the doctor reads."""
    row = {"name": "KMP_BLOCKTIME", "wanted": "1", "found": "1", "in_force": True, "reason": None}
    other = {"found": "200", "in_force": False, "reason": "the runtime has another block time"}
    return {
        "host": {"cpu_model": {"value": None, "reason": "/proc/cpuinfo has no model name"}},
        "topology": {},
        "plan": {"numactl": "numactl -C 0-1 -m 0", "cpus": [0, 1], "reasons": ["2 cores of socket 0"]},
        "tuning": [],
        "settings": [row if in_force else {**row, **other}],
        "preflight": preflight or [],
        "compiler": {"path": "/usr/bin/g++", "version": "g++ 12.2.0"},
        "versions": {"torch": "2.13.0"},
        "python": "/secret/path",
    }


def test_a_machine_with_every_setting_in_force_is_ready() -> None:
    found = diagnosis(environment())
    assert found["ready"] is True
    assert text(found).endswith("Ready.")
    assert "nothing seen" in text(found)


def test_a_setting_that_is_not_in_force_is_named_with_wanted_found_and_reason() -> None:
    found = diagnosis(environment(in_force=False))
    assert found["ready"] is False
    assert "another block time: wanted 1, found 200" in text(found)
    assert text(found).endswith("Not ready: KMP_BLOCKTIME not in force.")


def test_a_warning_comes_with_its_remedy_and_does_not_make_a_machine_unready() -> None:
    swap = {"name": "swap", "found": "5 MiB in use", "remedy": "free memory"}
    found = diagnosis(environment(preflight=[swap]))
    assert found["ready"] is True
    assert "swap: 5 MiB in use. Free memory." in text(found)


def test_an_unknown_cpu_is_said_with_its_reason() -> None:
    assert "no model name" in text(diagnosis(environment()))


def test_a_diagnosis_holds_no_path_of_the_environment() -> None:
    assert "python" not in diagnosis(environment())
