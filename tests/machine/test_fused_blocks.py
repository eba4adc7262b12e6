"""Steps as one generated function."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.diagnostics import define_code
from tilewright.machine.faults import Fault
from tilewright.machine.fused_blocks import Inline, called, fused_block, inline, joined
from tilewright.machine.hooks import surround

_CODE = define_code("fused-block-test", "a fault of a test", "Only tests raise it.")


def _failing(regs: list[Any]) -> None:
    raise Fault(_CODE, "it fails")


def _add(target: int, first: int, second: int) -> Inline:
    return inline("regs[{target}] = regs[{a}] + regs[{b}]", target=target, a=first, b=second)


def _ops(count: int) -> list[Any]:
    return [f"op {number}" for number in range(count)]


def test_lines_and_calls_run_in_order():
    seen: list[int] = []
    steps = [
        _add(2, 0, 1),
        lambda regs: seen.append(regs[2]),
        inline("local = {twice}(regs[2])\nregs[2] = local", twice=lambda value: value * 2),
        lambda regs: seen.append(regs[2]),
    ]
    regs = [3, 4, None]
    assert fused_block(steps, _ops(4))(regs) is None
    assert seen == [7, 14]
    assert fused_block([], [])(regs) is None


@pytest.mark.parametrize("as_lines", [True, False])
def test_a_signal_ends_the_steps(as_lines):
    signal = inline("regs[0] = 1", 2) if as_lines else lambda regs: 2
    seen: list[int] = []
    run = fused_block([signal, lambda regs: seen.append(1)], _ops(2))
    assert run([0]) == 2
    assert not seen


def test_parts_of_one_name_are_apart():
    steps = [inline("regs[{at}] = {value}", at=at, value=f"value {at}") for at in range(3)]
    regs = [None] * 3
    fused_block(steps, _ops(3))(regs)
    assert regs == ["value 0", "value 1", "value 2"]
    regs = [None] * 3
    called(joined(*steps))(regs)
    assert regs == ["value 0", "value 1", "value 2"]


def test_truth_is_no_number():
    """True is an integer for Python; a slot it is not."""
    regs: list[Any] = [None]
    called(inline("regs[0] = {flag}", flag=True))(regs)
    assert regs == [True]


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("as_lines", [True, False])
def test_a_fault_names_its_operation(position, as_lines):
    steps: list[Any] = [inline("a = 1\nb = 2\nregs[0] = a + b"), _add(0, 0, 0), _add(0, 0, 0)]
    failing = inline("x = 1\nif x:\n    y = 2\n    {f}(regs)\nz = 3", f=_failing)
    steps.insert(position, failing if as_lines else _failing)
    with pytest.raises(Fault) as raised:
        fused_block(steps, _ops(4))([0])
    assert raised.value.op == f"op {position}"


def test_the_innermost_operation_is_named():
    inner = fused_block([lambda regs: None, _failing], ["inner 0", "inner 1"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(Fault) as raised:
        fused_block([inner], ["outer"])([])  # pyright: ignore[reportArgumentType]
    assert raised.value.op == "inner 1"


class _Op:
    """What hooks look at of an operation."""

    def __init__(self, regions: tuple[object, ...] = ()):
        self.regions = regions


@pytest.mark.parametrize("step", ["lines", "call", "region", "none"])
@pytest.mark.parametrize("signal", [None, 1])
def test_hooks_surround_a_step(step, signal):
    """A region that is left by a signal has not ended, so what comes behind it does not run."""
    seen: list[str] = []
    note = seen.append

    def run(regs: list[Any]) -> int | None:
        note("step")
        return signal

    steps = {"lines": inline("{note}('step')", signal, note=note), "none": None}
    before = (lambda regs: note("before"), inline("{note}('lines')", note=note))
    after = (inline("{note}('after')", note=note), lambda regs: note("last"))
    op: Any = _Op(("region",) if step == "region" else ())
    around = surround(op, steps.get(step, run), before, after)
    assert callable(around)
    passed = step == "region" and signal is not None
    assert around([]) == (None if step == "none" else signal)
    assert seen == [
        "before",
        "lines",
        *(["step"] if step != "none" else []),
        *([] if passed else ["after", "last"]),
    ]
