# Needs: the configuration. Makes: its check, before any job runs, and what several rules share.
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.insert(0, f"{workflow.basedir}/workflow/lib")

import cpulab.config
import cpulab.records
from cpulab.errors import LabError
from cpulab.host.launch import age_not_in_force

try:
    cpulab.config.check_cores(workflow.cores)
    cpulab.config.check(config)
except LabError as error:
    # Without its traceback: the two sentences are the message.
    raise WorkflowError(str(error)) from None

LIBRARY = "workflow/lib/cpulab"
# What every step's outcome depends on, besides its own package.
STEP_CODE = [
    f"{LIBRARY}/{name}.py"
    for name in ["config", "records", "step", "host/launch", "host/binding"]
]


def package(name: str) -> list[str]:
    """Return the files of a package of cpulab, so that editing one reruns the rules that name it."""
    return sorted(str(path) for path in Path(LIBRARY, name).rglob("*.py"))


STEP_SETTINGS = [
    f"--preset={config['preset']}",
    f"--model={config['model']}",
    f"--seed={config['seed']}",
]

DEBUG_CASES = [
    f"{experiment}_{variant}"
    for experiment in ["program", "compile_error", "accuracy"]
    for variant in ["scalar", "vectorized"]
]
BENCHMARK_CASES = [
    "mobilebert_as_published",
    "mobilebert_default",
    "fused_pattern",
    "mobilebert_tuning",
    "fused_pattern_tuning",
]
PROFILE_CASES = [
    f"{arm}_{variant}"
    for variant in ["as_published", "default"]
    for arm in ["eager", "compiled"]
]
ROOFLINE_CASES = ["machine", "pattern", "linear"]
# The user's own cases, by the names of their records, and the files that they are in.
CASES = cpulab.config.case_slugs(config.get("cases", []))
CASE_FILES = {slug: case.rpartition(":")[0] for slug, case in CASES.items()}
RECORDS = [
    "results/model/weights.json",
    *[f"results/debug/{case}.json" for case in DEBUG_CASES],
    "results/minify/accuracy.json",
    *[f"results/benchmark/{case}.json" for case in BENCHMARK_CASES],
    *[f"results/profile/{case}.json" for case in PROFILE_CASES],
    *[f"results/roofline/{case}.json" for case in ROOFLINE_CASES],
    *[f"results/explain/{case}.json" for case in CASES],
]


def try_failed_steps_again() -> None:
    """Let the next run repeat what failed in this one, and say which."""
    for reason in age_not_in_force(Path("results/environment.json")):
        print(
            f"Not in force, and tried again by the next run: {reason}", file=sys.stderr
        )
    failed = cpulab.records.age_failed(map(Path, RECORDS))
    if failed:
        print(
            f"Failed, and tried again by the next run: {', '.join(failed)}",
            file=sys.stderr,
        )


onsuccess:
    try_failed_steps_again()


onerror:
    try_failed_steps_again()
