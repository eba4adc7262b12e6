"""Stopping a run at operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.machine.inspect.kernels import ADD, COUNT, TILES, VIEW, array, line_of, module

import tilewright
from tilewright import LaunchOptions
from tilewright.diagnostics import Span, TileIRError
from tilewright.dialects.cuda_tile.ops.control_flow import ForOp
from tilewright.machine.inspect import Breakpoint, Stop, StopRun, break_at, run_with
from tilewright.machine.values import TensorView


def stops_of(
    target: object, *, text: str = ADD, grid: int = 2, args: list[object] | None = None, **options
) -> list[Stop]:
    found: list[Stop] = []
    given = [array(), 2] if args is None else args
    point = Breakpoint(target, found.append, **options)  # pyright: ignore[reportArgumentType]
    ran = run_with(module(text), None, grid, given, options=LaunchOptions(breakpoints=[point]))
    assert ran.result is not None and ran.stopped_at is None
    return found


def test_a_stop_shows_operands_and_results() -> None:
    stops = stops_of("%more")
    assert [(s.block, s.hit) for s in stops] == [
        ((0, 0, 0), 1), ((0, 0, 0), 2), ((1, 0, 0), 3), ((1, 0, 0), 4)
    ]  # fmt: skip
    first = stops[0]
    assert set(first.operands) == {"%sum", "%by_one"} and set(first.results) == {"%more"}
    assert np.array_equal(first["%sum"], array()[:4])
    assert np.array_equal(first["more"], array()[:4] + 1)
    assert first.stats("%more").maximum == 32
    assert first.location == f"add.tileir:{line_of('addf %sum')}"
    assert "%more: tile<4x8xf32> min 1, max 32, mean 16.5" in str(first)
    with pytest.raises(KeyError, match="no value %other here; values: %sum, %by_one, %more"):
        first["other"]


def test_what_is_shown_cannot_be_changed() -> None:
    def spoil(stop: Stop) -> None:
        tile = stop["%before"]
        assert isinstance(tile, np.ndarray)
        with pytest.raises(ValueError, match="read-only"):
            tile[...] = 0

    x = array()
    run_with(
        module(), None, 2, [x, 1], options=LaunchOptions(breakpoints=[Breakpoint("%before", spoil)])
    )
    assert np.array_equal(x, array() + 1)


def test_views_and_tokens() -> None:
    (stop,) = stops_of("load_view_tko", block=1)
    view = stop["%tiles"]
    assert isinstance(view, TensorView) and view.shape == (8, 8)
    assert "%loaded" not in stop.results
    with pytest.raises(TypeError, match="is a view"):
        stop.stats("%tiles")


def test_before_an_operation_there_are_no_results() -> None:
    stops = stops_of("store_view_tko", when="before")
    assert [s.results for s in stops] == [{}, {}]
    assert np.array_equal(stops[0]["%after"], array()[:4] + 2)


def test_the_operation_that_fails_is_met_before_it() -> None:
    found: list[Stop] = []
    points = [Breakpoint("load_view_tko", found.append, when=w) for w in ("before", "after")]
    with pytest.raises(TileIRError, match="outside-index-space"):
        run_with(module(), None, 3, [array(), 1], options=LaunchOptions(breakpoints=points))
    assert [(s.block[0], s.when) for s in found] == [
        (0, "before"), (0, "after"), (1, "before"), (1, "after"), (2, "before")
    ]  # fmt: skip


def test_operations_with_regions_stop_when_they_have_ended() -> None:
    (stop,) = stops_of(lambda op: isinstance(op, ForOp), block=(1, 0, 0))
    assert np.array_equal(stop["%after"], array()[4:] + 2)


def test_operations_that_are_left_from_inside_have_not_ended() -> None:
    counts = {
        name: len(stops_of(name, text=COUNT, args=[np.zeros(1, np.int32)]))
        for name in ("break", "if", "loop", "continue", "load_ptr_tko")
    }
    assert counts["break"] == counts["loop"] == 2
    assert counts["if"] == counts["continue"] == counts["load_ptr_tko"] - 2


def test_operations_without_a_step_of_their_own_stop_as_well() -> None:
    stops = stops_of("%by_one")
    assert [s.block[0] for s in stops] == [0, 1]
    assert np.array_equal(stops[1]["%by_one"], np.ones((4, 8)))


@pytest.mark.parametrize(
    ("options", "hits"),
    [
        ({}, [1, 2, 3, 4]),
        ({"skip": 3}, [4]),
        ({"limit": 1}, [1]),
        ({"skip": 1, "limit": 2}, [2, 3]),
        ({"block": 0}, [1, 2]),
        ({"block": lambda block: block[0] > 0}, [1, 2]),
        ({"block": (1,), "skip": 1}, [2]),
    ],
)
def test_conditions(options: dict[str, object], hits: list[int]) -> None:
    assert [s.hit for s in stops_of("addf", **options)] == hits


def test_an_action_can_end_the_run() -> None:
    def leave(stop: Stop) -> None:
        raise StopRun

    x = array()
    points = [Breakpoint("addf", lambda stop: None), Breakpoint("%after", leave, block=1)]
    ran = run_with(module(), None, 2, [x, 1], options=LaunchOptions(breakpoints=points))
    assert ran.result is None and ran.hits == (2, 1)
    assert ran.stopped_at is not None and ran.stopped_at.block == (1, 0, 0)
    assert np.array_equal(x[:4], array()[:4] + 1) and np.array_equal(x[4:], array()[4:])


def test_what_an_action_raises_comes_out() -> None:
    def fail(stop: Stop) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_with(
            module(),
            None,
            2,
            [array(), 1],
            options=LaunchOptions(breakpoints=[Breakpoint("addf", fail)]),
        )


def test_break_at_lines_results_and_mnemonics() -> None:
    target = module()
    by_line = break_at(target, line=line_of("addf %sum")).target
    by_result = break_at(target, result="more").target
    by_both = break_at(target, op="addf", line=line_of("addf %sum")).target
    assert by_line == by_result == by_both
    (op,) = by_line  # pyright: ignore[reportGeneralTypeIssues]
    assert op.name == "cuda_tile.addf"
    assert break_at(target, op="constant").target != by_line


def test_a_line_in_a_fold_stands_for_the_fold() -> None:
    (op,) = break_at(module(), line=line_of("mulf")).target  # pyright: ignore[reportGeneralTypeIssues]
    assert op.name == "cuda_tile.reduce"
    (stop,) = stops_of("reduce", block=0)
    assert isinstance(stop["%total"], np.ndarray)


@pytest.mark.parametrize("by", ["mnemonic", "predicate", "operation"])
def test_what_is_only_in_a_fold_is_refused(by: str) -> None:
    target = module()
    inner = next(op for op in target.walk() if op.name == "cuda_tile.mulf")
    wanted = {
        "mnemonic": "mulf",
        "predicate": lambda op: op.name == "cuda_tile.mulf",
        "operation": inner,
    }[by]
    with pytest.raises(TileIRError, match="except in the body of a reduce") as caught:
        run_with(
            target, None, 2, [array(), 1], options=LaunchOptions(breakpoints=[Breakpoint(wanted)])
        )
    (found,) = caught.value.diagnostics
    assert "stop at the reduce" in found.help
    assert isinstance(found.location, Span) and found.location.line == line_of("mulf")


SOURCE = "kernels/softmax.py"
#: The kernel with the locations of a source file on its lines, without spans of its own.
LOCATED = ADD.replace("addf %sum, %by_one : tile<4x8xf32>", f'addf %sum, %by_one : tile<4x8xf32> loc("{SOURCE}":48:5)')  # fmt: skip


@pytest.mark.parametrize("file", ["softmax.py", SOURCE])
def test_lines_of_the_kernels_source(file: str) -> None:
    located = module(LOCATED)
    (op,) = break_at(located, line=48, file=file).target  # pyright: ignore[reportGeneralTypeIssues]
    assert op.name == "cuda_tile.addf"
    stops: list[Stop] = []
    point = break_at(located, stops.append, line=48, file=file, limit=1)
    run_with(located, None, 1, [array(), 1], options=LaunchOptions(breakpoints=[point]))
    assert stops[0].source == f"{SOURCE}:48"


def test_modules_from_bytecode() -> None:
    found = tilewright.read(tilewright.write(module()))
    stops: list[Stop] = []
    run_with(
        found,
        None,
        1,
        [array(), 1],
        options=LaunchOptions(breakpoints=[Breakpoint("addf", stops.append)]),
    )
    assert stops[0].location.startswith("<bytes>: byte 0x")
    assert len(stops[0].results) == 1
    with pytest.raises(TileIRError, match="no operation has a known line"):
        break_at(found, line=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: break_at(m, line=line_of("(%element")), "no operation begins at line 14"),
        (lambda m: break_at(m, line=5, file="other.py"), "known line of 'other.py'"),
        (lambda m: break_at(m, op="subf"), "no operation with 'subf'"),
        (lambda m: break_at(m, result="%nothing"), "no operation with the result %nothing"),
        (lambda m: break_at(m, op="addf", line=3), "no operation with line 3 and 'addf'"),
        (lambda m: Breakpoint("subf"), "'subf' is not in the kernel 'add'"),
        (lambda m: Breakpoint("%inner"), "'%inner' is not in the kernel 'add'"),
        (lambda m: Breakpoint(lambda op: False), "the predicate chooses nothing"),
        (lambda m: Breakpoint(next(iter(module().walk()))), "'cuda_tile.module' is not in"),
        (lambda m: Breakpoint([]), "none of the operations"),
        (lambda m: Breakpoint("addf", block=2), r"the grid \(2, 1, 1\) has no tile block \(2,\)"),
        (lambda m: Breakpoint("addf", block=(0, 0, 0, 0)), "no tile block"),
        (lambda m: Breakpoint("addf", block=-1), "no tile block"),
    ],
)
def test_what_does_not_exist(make: Callable[[object], Breakpoint], message: str) -> None:
    target = module()
    code = "no-such-block" if "tile block" in message else "nothing-to-stop-at"
    with pytest.raises(TileIRError, match=rf"\[{code}\]: .*{message}"):
        run_with(target, None, 2, [array(), 1], options=LaunchOptions(breakpoints=[make(target)]))


def test_bad_conditions() -> None:
    with pytest.raises(ValueError, match="'before' or 'after'"):
        Breakpoint("addf", when="during")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="needs a line, an op or a result"):
        break_at(module())


def test_unknown_kernels_and_bad_arguments_are_those_of_run() -> None:
    with pytest.raises(TileIRError, match="unknown-entry"):
        run_with(module(), "other", 1, [])
    with pytest.raises(TileIRError, match="bad-argument"):
        run_with(module(), None, 1, [])


def test_the_default_action_prints(capsys: pytest.CaptureFixture[str]) -> None:
    run_with(
        module(), None, 1, [array(), 1], options=LaunchOptions(breakpoints=[Breakpoint("%block")])
    )
    assert capsys.readouterr().out == (
        "at cuda_tile.get_tile_block_id add.tileir:2, tile block (0, 0, 0)\n"
        "  %block: tile<i32> = 0\n  %by: tile<i32> = 0\n  %bz: tile<i32> = 0\n"
    )


def test_pointers_are_shown_as_addresses() -> None:
    text = f"""\
entry @k(%x: tile<ptr<f32>>) {{
  %view = make_tensor_view %x, shape = [8, 8], strides = [8, 1] : {VIEW}
  %tiles = make_partition_view %view : {TILES}
}}
"""
    stops = stops_of("make_tensor_view", text=text, grid=1, args=[array()])
    assert "%x: tile<ptr<f32>> = 0x100000000" in str(stops[0])
