"""The table of scenarios is worth something only if a broken judge contradicts it: so the judge is broken, everywhere.

Each mutant is the real source with one thing changed: a comparison or an arithmetic operator turned round, a condition
negated, an `and` made an `or`, a state or a number replaced. A mutant that no scenario contradicts fails the test.
"""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from judge_scenarios import SCENARIOS, contradiction

from cpulab import judge, rules
from cpulab.rules import RULES, STATES, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

COMPARISONS = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip

# What the table cannot see, for it holds no files; test_judge.py has tests of its own for these.
FILES_ONLY = frozenset({"judge_files", "summary", "_without_folders"})

ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def test_a_rule_that_always_finds_one_state_contradicts_a_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, rule in RULES.items():
        own = {one.state for one in SCENARIOS if one.rule == name}
        for state in STATES:
            if own == {state}:
                continue

            def stuck(claim: Any, evidence: Any, rule: Any = rule, state: Any = state) -> Finding:
                found = rule(claim, evidence)
                return Finding(state, found.measured, found.reason, found.low, found.high)

            with monkeypatch.context() as patch:
                patch.setitem(judge.RULES, name, stuck)
                mine = [one for one in SCENARIOS if one.rule == name]
                assert any(contradiction(judge.judge, one) for one in mine), f"{name} may always find {state}"


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Yield the ways to break ``node``: what is done, and the function that does it in place."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            other = COMPARISONS[type(operator)]
            yield (
                f"{place}: {other.__name__}",
                lambda one, place=place, other=other: one.ops.__setitem__(place, other()),
            )
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield other.__name__, lambda one: setattr(one, "op", other())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "without not", lambda one: setattr(one, "op", ast.UAdd()) or setattr(one, "operand", _truth(one.operand))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "without minus", lambda one: setattr(one, "op", ast.UAdd())
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        turned = ARITHMETIC[type(node.op)]
        yield turned.__name__, lambda one: setattr(one, "op", turned())
    elif isinstance(node, ast.If | ast.IfExp):
        yield "negated", lambda one: setattr(one, "test", ast.UnaryOp(ast.Not(), one.test))
    elif isinstance(node, ast.Constant) and node.value in STATES:
        for state in STATES:
            if state != node.value:
                yield state, lambda one, state=state: setattr(one, "value", state)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        yield f"{node.value} + 1", lambda one: setattr(one, "value", one.value + 1)


def _truth(operand: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("bool", ast.Load()), [operand], [])


def _mutants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Break ``tree`` in one place after another: yield what is done and the function it is done to, then mend it."""
    annotations = {
        id(part)
        for node in ast.walk(tree)
        for field in ("annotation", "returns")
        if (found := getattr(node, field, None)) is not None
        for part in ast.walk(found)
    }
    for statement in tree.body:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AnnAssign):
            continue
        where = getattr(statement, "name", "")
        if where in FILES_ONLY:
            continue
        for node in list(ast.walk(statement)):
            if id(node) in annotations:
                continue
            source = ast.unparse(node).split("\n")[0]
            for words, change in _changes(node):
                whole = {name: list(value) if isinstance(value, list) else value for name, value in vars(node).items()}
                change(node)
                yield f"line {getattr(node, 'lineno', 0)}: {source} -> {words}", where
                vars(node).update(whole)


def _parse(module: ModuleType) -> ast.Module:
    return ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))


def _load(name: str, tree: ast.Module | types.CodeType) -> ModuleType:
    module = types.ModuleType(name)
    sys.modules[name] = module
    code = tree if isinstance(tree, types.CodeType) else compile(ast.fix_missing_locations(tree), f"<{name}>", "exec")
    exec(code, module.__dict__)  # noqa: S102 - our own source
    return module


def _is_contradicted(broken: Callable[..., Any], rule: str) -> bool:
    # The rule's own scenarios first: they are the likeliest to contradict it.
    for scenario in sorted(SCENARIOS, key=lambda one: one.rule != rule):
        try:
            if contradiction(broken, scenario) is not None:
                return True
        except Exception:  # noqa: BLE001 - a mutant that falls over is seen as well
            return True
    return False


@pytest.mark.parametrize("module", [rules, judge], ids=["rules", "judge"])
def test_every_mutant_of_the_judge_contradicts_a_scenario(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cpulab.rules", "cpulab.judge"):
        monkeypatch.setitem(sys.modules, name, sys.modules[name])
    tree, judging = _parse(module), compile(_parse(judge), "<cpulab.judge>", "exec")
    survivors, total = [], 0
    for words, where in _mutants(tree):
        total += 1
        try:
            broken = _load(module.__name__, tree)
            if module is rules:
                broken = _load("cpulab.judge", judging)
        except Exception:  # noqa: BLE001, S112 - it does not even load
            continue
        if not _is_contradicted(broken.judge, where):
            survivors.append(words)
    assert total > 30
    assert survivors == []
