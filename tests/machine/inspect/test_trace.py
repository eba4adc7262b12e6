"""Traces of runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.machine.inspect.kernels import ADD, COUNT, array, line_of, module

from tilewright import LaunchOptions, run
from tilewright.diagnostics import TileIRError
from tilewright.machine.inspect import OpRecord, Trace, run_with
from tilewright.machine.tensors import Elements


def traced(trace: Trace, *, text: str = ADD, grid: int = 2, args: list[object] | None = None):
    given = [array(), 2] if args is None else args
    run_with(module(text), None, grid, given, options=LaunchOptions(trace=trace))
    return trace.records


def outline(records: list[OpRecord]) -> list[str]:
    return [f"{'  ' * r.depth}{r.event} {r.op}" for r in records]


def test_every_operation_of_the_first_block() -> None:
    records = traced(Trace())
    assert {r.block for r in records} == {(0, 0, 0)}
    assert outline(records) == [
        "op get_tile_block_id",
        "op constant",
        "op constant",
        "op constant",
        "op make_tensor_view",
        "op make_partition_view",
        "op load_view_tko",
        "enter for",
        "  op addf",
        "  op continue",
        "  op addf",
        "  op continue",
        "leave for",
        "op reduce",
        "op store_view_tko",
        "op return",
    ]
    added = records[8]
    assert added.place == f"add.tileir:{line_of('addf %sum')}" and added.source is None
    (value,) = added.results
    assert (value.name, value.type) == ("%more", "tile<4x8xf32>")
    assert value.stats is not None and value.stats.mean == 16.5 and value.elements is None


def test_accesses() -> None:
    records = traced(Trace(blocks=[1]))
    found = [(r.op, a.kind, a.ordering, a.elements) for r in records for a in r.accesses]
    half = Elements("%x", (8, 8), (((4, 8), (0, 8)),))
    assert found == [
        ("load_view_tko", "load", "weak", half),
        ("store_view_tko", "store", "weak", half),
    ]


def test_atomics_and_all_blocks() -> None:
    records = traced(Trace("all"), text=COUNT, args=[np.zeros(1, np.int32)])
    assert {r.block for r in records} == {(0, 0, 0), (1, 0, 0)}
    atomic = next(a for r in records for a in r.accesses)
    assert str(atomic) == "atomic relaxed %p[0]"
    # A branch that is left by a break has an enter, but no leave.
    shape = [r.event for r in records if r.op == "if"]
    assert shape.count("enter") == shape.count("leave") + 2


@pytest.mark.parametrize("values", ["none", "summary", "full"])
def test_values(values: Any) -> None:
    records = traced(Trace(values=values))
    (value,) = next(r for r in records if r.op == "load_view_tko").results
    assert (value.stats is not None) == (values != "none")
    expected = array()[:4].tolist() if values == "full" else None
    assert value.elements == expected


def lines_of(trace: Trace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.to_json_lines().splitlines()]


def test_json_lines() -> None:
    trace = Trace(blocks=[1], values="full")
    run_with(module(), None, 2, [array(), 1], options=LaunchOptions(trace=trace, seed=3))
    launch, *records = lines_of(trace)
    assert launch == {
        "event": "launch", "format": 1, "entry": "add", "grid": [2, 1, 1], "seed": 3
    }  # fmt: skip
    assert len(records) == len(trace.records)
    (load,) = (r for r in records if r["op"] == "load_view_tko")
    assert load["block"] == [1, 0, 0]
    assert load["accesses"] == [
        {
            "kind": "load",
            "ordering": "weak",
            "tensor": "%x",
            "shape": [8, 8],
            "ranges": [[4, 8], [0, 8]],
            "boxes": [[[4, 8], [0, 8]]],
            "exact": True,
        }
    ]
    assert load["results"][0]["elements"] == array()[4:].tolist()
    assert load["results"][0]["stats"]["maximum"] == 63


def test_numbers_that_json_lacks() -> None:
    x = array()
    x[0, :3] = [np.nan, np.inf, -np.inf]
    trace = Trace(values="full")
    run_with(module(), None, 1, [x, 0], options=LaunchOptions(trace=trace))
    (load,) = (r for r in lines_of(trace)[1:] if r["op"] == "load_view_tko")
    assert load["results"][0]["elements"][0][:4] == ["nan", "inf", "-inf", 3.0]


def test_text() -> None:
    trace = Trace()
    run_with(module(), None, 1, [array(), 1], options=LaunchOptions(trace=trace))
    number = line_of("addf %sum")
    assert (
        f"(0, 0, 0) enter for  add.tileir:{number - 1}\n"
        f"(0, 0, 0)   addf  add.tileir:{number}\n"
        "      %more: tile<4x8xf32> min 1, max 32, mean 16.5\n"
    ) in trace.to_text()
    assert "    load weak %x[0:4, 0:8]\n" in trace.to_text()


def test_limit_of_records() -> None:
    everything = len(traced(Trace()))
    trace = Trace(limit=5)
    assert len(traced(trace)) == 5 and trace.left_out == everything - 5
    message = f"the trace is cut after 5 records; {everything - 5} more are left out"
    assert trace.to_text().endswith(f"({message})\n")
    assert lines_of(trace)[-1] == {"event": "cut", "left_out": everything - 5, "summarised": 0}


def test_limit_of_elements() -> None:
    trace = Trace(values="full", element_limit=40)
    records = traced(trace)
    kept = [v.elements is not None for r in records for v in r.results if v.type != "tile<i32>"]
    # 5 scalars and one tile of 32 elements fit; what follows does not, until something small does.
    assert kept == [True, False, False, False, False, False, False, False]
    assert trace.summarised == 5
    assert "has kept 40 elements; 5 more values are summaries" in trace.notices[0]


def test_a_trace_remains_when_the_run_fails() -> None:
    trace = Trace("all")
    with pytest.raises(TileIRError, match="outside-index-space"):
        run_with(module(), None, 3, [array(), 1], options=LaunchOptions(trace=trace))
    assert trace.records[-1].block == (2, 0, 0)
    assert trace.records[-1].op == "make_partition_view"


def test_a_run_begins_the_trace_anew() -> None:
    trace = Trace()
    assert outline(traced(trace)) == outline(traced(trace))


def test_bad_choices() -> None:
    with pytest.raises(TileIRError, match="has no tile block"):
        traced(Trace(blocks=[(0, 1)]))
    with pytest.raises(ValueError, match="'none', 'summary' or 'full'"):
        traced(Trace(values="some"))  # pyright: ignore[reportArgumentType]


def test_results_are_those_of_a_plain_run() -> None:
    plain, watched = array(), array()
    run(module(), None, 2, [plain, 2])
    traced(Trace("all", "full"), args=[watched, 2])
    assert np.array_equal(plain, watched)
