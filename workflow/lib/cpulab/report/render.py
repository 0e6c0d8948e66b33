"""Renders the report: one page from verdicts, the environment record and records, the same bytes for the same input."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from cpulab.config import known_presets, load_preset
from cpulab.files import write_whole
from cpulab.paths import PROJECT
from cpulab.records import digest, load_all, load_data
from cpulab.report import explained, figures, machine, measuring, profiles, quantities, roofline, views, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from cpulab.records import Record

TEMPLATES = PROJECT / "report" / "templates"
STATIC = PROJECT / "report" / "static"

# The preset with the sizes that the tutorial's figures were taken at.
PUBLISHED_SIZES = "tutorial"

EXHIBITS = (
    ("artefacts", "Debug artefacts"),
    ("ladder", "Which component is at fault"),
    ("compile-error", "Compile error"),
    ("minifier", "Accuracy and the minifier"),
    ("environment", "Tuned environment"),
    ("benchmark", "Benchmark"),
    ("profile", "Profile"),
    ("roofline", "Roofs and reasons"),
)
PROFILE_VARIANTS = ("as_published", "default")
LADDER_CASES = (
    "debug/program_scalar", "debug/program_vectorized", "debug/compile_error_scalar", "debug/compile_error_vectorized",
    "debug/accuracy_scalar", "debug/accuracy_vectorized",
)  # fmt: skip
BENCHMARKS = {
    "benchmark/mobilebert_as_published": "MobileBERT as published",
    "benchmark/mobilebert_default": "MobileBERT, today's default",
    "benchmark/fused_pattern": "The pattern add, add, mul, add",
}
TUNINGS = {
    "benchmark/mobilebert_tuning": "MobileBERT, today's default, untuned over tuned",
    "benchmark/fused_pattern_tuning": "The pattern add, add, mul, add, untuned over tuned",
}
WEIGHTS = {
    "published": None,
    "seeded": "The weights are random (seeded), because the published ones could not be had. The architecture is the "
    "published one, so the arithmetic is the same; the model's answers mean nothing.",
    "own": "The model is not the tutorial's but the one that the configuration names.",
}


def render_files(verdicts_path: Path, environment_path: Path, record_paths: Iterable[Path], output: Path) -> None:
    """Write the report to ``output``, whole; beside it the walks' pages into ``walk``, derived tables into ``tables``.

    Links are relative to the folder ``output`` stands in.


    Raises:
        BadFile: the verdicts, the environment record or a record cannot be trusted.
        MixedPresets: the records come from more than one preset.
        DiskFull: no space is left.

    """
    verdicts = load_data(verdicts_path, "verdicts")
    records = load_all(record_paths)
    page = render(verdicts, load_data(environment_path, "environment"), records, output.parent)
    (output.parent / "walk").mkdir(parents=True, exist_ok=True)
    for path, text in walk_pages(verdicts, records, output.parent).items():
        write_whole(output.parent / path, text)
    (output.parent / "tables").mkdir(exist_ok=True)
    for path, text in tables(verdicts, records, output.parent).items():
        write_whole(output.parent / path, text)
    write_whole(output, page)


def walk_pages(verdicts: Mapping[str, Any], records: Mapping[str, Record], results: Path) -> dict[str, str]:
    """Return a page for each walk that was observed, by its path relative to the report."""
    script = (STATIC / "walk.js").read_text(encoding="utf-8")
    style = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in ("report.css", "walk.css"))
    template = _jinja().get_template("walk.html.j2")
    return {
        one.page: template.render(walk=one, stylesheet=Markup(style), **_script(script))  # noqa: S704 - ours
        for one in walk.walks(views.cases(records, verdicts, results).values())
    }


def tables(verdicts: Mapping[str, Any], records: Mapping[str, Record], results: Path) -> dict[str, str]:
    """Return the tables that the page derives from several records, as CSV, by their paths relative to the report."""
    shown = views.cases(records, verdicts, results)
    rows = _differences(lambda name: shown.get(name) or views.Shown(name, None, ""))
    return {profiles.path(variant): profiles.to_csv(found) for variant, found in rows.items()}


def _differences(case: Callable[[str], views.Shown]) -> dict[str, list[profiles.Difference]]:
    """Return what compiling changed of each operation, by variant; nothing of one that lacks an arm."""
    found = {
        variant: profiles.differences(case(f"profile/eager_{variant}"), case(f"profile/compiled_{variant}"))
        for variant in PROFILE_VARIANTS
    }
    return {variant: rows for variant, rows in found.items() if rows}


def _script(text: str) -> dict[str, Any]:
    """Return a script of ours, not to be escaped, and the hash that lets it run."""
    return {
        "script": Markup(text),  # noqa: S704
        "script_sha256": base64.b64encode(hashlib.sha256(text.encode()).digest()).decode(),
    }


def render(
    verdicts: Mapping[str, Any], environment: Mapping[str, Any], records: Mapping[str, Record], results: Path
) -> str:
    """Return the page. ``results``: the results folder, where the logs of failed steps are read."""
    shown = views.cases(records, verdicts, results)

    def case(name: str) -> views.Shown:
        return shown.get(name) or views.Shown(name, None, "")

    claims = verdicts["claims"]
    benchmarks = [measuring.benchmark(case(name), measuring.published_ratio(name, claims)) for name in BENCHMARKS]
    tunings = [measuring.tuning(case(name)) for name in TUNINGS]
    page = _jinja().get_template("report.html.j2")
    return page.render(
        verdicts=verdicts,
        environment=environment,
        states=views.STATES,
        tally=views.tally(claims),
        outcome=views.outcome(claims),
        sections=views.sections(claims),
        conditions=_conditions(verdicts, environment, records),
        machine=machine.fields(environment["host"]),
        not_as_published=_not_as_published(verdicts["preset"], records),
        exhibits=EXHIBITS,
        case=case,
        shown_cases=sorted(shown.values(), key=lambda one: one.name),
        evidence=lambda names: views.evidence(names, shown),
        failures=lambda names: views.failures(names, shown),
        cases=explained.cases(shown.values()),
        ladder=views.ladder(map(case, LADDER_CASES)),
        minifier_figure=views.minifier_figure(case("minify/accuracy")),
        headline=benchmarks[0],
        benchmarks=benchmarks,
        tunings=tunings,
        benchmark_titles=BENCHMARKS | TUNINGS,
        ratio_figure=measuring.ratio_figure([*benchmarks, *tunings], BENCHMARKS | TUNINGS),
        differences=_differences(case),
        counts=profiles.call_counts(
            next((claim["published"] for claim in claims if "counts" in claim["published"]), {}),
            case("profile/eager_as_published"),
            case("profile/eager_default"),
        ),
        reasons_figure=roofline.figure(
            roofline.pattern(case("roofline/pattern")), roofline.linear(case("roofline/linear"))
        ),
        citation=_citation(verdicts, environment, records),
        published_versions=_versions(verdicts),
        verdicts_digest=digest(verdicts),
        # Ours, and with the script the only text that is not escaped.
        stylesheet=Markup((STATIC / "report.css").read_text(encoding="utf-8")),  # noqa: S704
        **_script((STATIC / "report.js").read_text(encoding="utf-8")),
    )


@cache
def _jinja() -> jinja2.Environment:
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_without_project,
    )
    jinja.filters["words"] = words
    jinja.globals.update(
        quantity=quantities.quantity,
        interval=quantities.interval,
        significant=quantities.significant,
        share_bar=figures.share_bar,
        label=views.label,
        measured=views.measured,
        op_table_of=profiles.table,
        fused_kernels=profiles.kernels,
        difference_path=profiles.path,
        roofline_machine=roofline.machine,
        roofline_pattern=roofline.pattern,
        roofline_linear=roofline.linear,
        roofline_sampling=roofline.sampling,
        kernel_lines=views.kernel_lines,
        walk=walk.walk,
    )
    return jinja


def _without_project(value: Any) -> Any:
    """Take the folder that the project stands in out of a text: it is the user's, and may hold a name."""
    return value.replace(f"{PROJECT}/", "") if isinstance(value, str) and not isinstance(value, Markup) else value


def words(value: Any) -> str:
    """Return an observed value as words: yes and no, numbers with the digits that mean something, lists with commas."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return quantities.fixed(value, 0)
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list):
        return ", ".join(map(words, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {words(item)}" for name, item in value.items())
    return str(value)


def _conditions(
    verdicts: Mapping[str, Any], environment: Mapping[str, Any], records: Mapping[str, Record]
) -> list[tuple[str, str | None]]:
    """Return what the numbers hold for: where, when, with what."""
    host = {name: field["value"] for name, field in environment["host"].items()}
    plan = environment["plan"]
    bound = (
        f"memory node {quantities.ranges(plan['memory_nodes'])}"
        if plan["memory_refused"] is None
        else "memory not bound"
    )
    period = views.period(records.values())
    memory = host.get("memory_bytes")
    preset = verdicts["preset"]
    return [
        ("CPU", host.get("cpu_model") or "unknown"),
        ("Threads", f"{len(plan['cpus'])}, on CPUs {quantities.ranges(plan['cpus'])}, {bound}"),
        ("Memory", quantities.quantity(memory, "byte") if memory else None),
        ("Measured, UTC", None if period is None else " to ".join(dict.fromkeys(map(_minute, period)))),
        ("Preset", f"{preset}: {_description(preset)}" if preset else None),
        ("Weights", _weights(records)),
        ("Compiler", environment["compiler"]["version"]),
        ("Versions", ", ".join(f"{name} {version}" for name, version in verdicts["versions"].items())),
        ("Published on", f"{verdicts['published_on']['machine']}; {_versions(verdicts)}"),
    ]


def _weights(records: Mapping[str, Record]) -> str | None:
    """Return where the model's weights come from, and why where they are not the ones asked for."""
    seen = records["model/weights"].observations if "model/weights" in records else {}
    told = [seen.get("weights"), seen.get("problem")]
    return "; ".join(str(one) for one in told if one) or None


def _not_as_published(preset: str | None, records: Mapping[str, Record]) -> list[str]:
    """Return a sentence for each way in which the model measured is not the published one."""
    sentences = []
    if preset is not None and preset != PUBLISHED_SIZES:
        sentences.append(
            f"Not the published size. Preset {preset}: {_description(preset)} "
            "Times, ratios and call counts here say nothing about the published ones."
        )
    found = dict.fromkeys(record.observations.get("weights") for record in records.values())
    sentences += [sentence for weights, sentence in WEIGHTS.items() if sentence and weights in found]
    return sentences


def _description(preset: str) -> str:
    return load_preset(preset).description if preset in known_presets() else "no longer among the presets."


def _minute(start: str) -> str:
    return start[:16].replace("T", " ")


def _versions(verdicts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in verdicts["published_on"]["versions"].items())


def _citation(verdicts: Mapping[str, Any], environment: Mapping[str, Any], records: Mapping[str, Record]) -> str:
    cpu = environment["host"].get("cpu_model", {}).get("value") or "unknown CPU"
    period = views.period(records.values())
    when = f", measured {period[0][:10]}" if period else ""
    return (
        f"Inductor CPU Lab: report on “{verdicts['title']}”. {cpu}, {verdicts['environment']['threads']} threads, "
        f"torch {verdicts['versions'].get('torch', 'unknown')}, preset {verdicts['preset'] or 'none'}{when}. "
        f"Verdicts sha256 {digest(verdicts)}."
    )
