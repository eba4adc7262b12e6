"""Reductions with places: ties go to the place that the body says, though a thread does not compare those of its own elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K

from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.lowering.scheduled.ordered_indices import known_comparisons
from tilewright.machine.launch import Program
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

ROWS, COLUMNS = 32, 128


def least(
    relation: str,
    axis: int = 1,
    *,
    swapped: bool = False,
    falling: bool = False,
    across: bool = False,
    element: str = "f32",
) -> str:
    """The least numbers along an axis, and their places: of equal ones that for which the relation holds, of its place and the
    other one. ``falling``: places are counted from the end; ``across``: they are those along the other axis."""
    shape, extent = f"{ROWS}x{COLUMNS}", (ROWS, COLUMNS)[axis != across]
    kept = (ROWS, COLUMNS)[1 - axis]
    long = f"1x{extent}" if axis != across else f"{extent}x1"
    rows, columns = (kept, 1) if axis else (1, kept)
    least_of: tuple[int, int, str] = (rows, columns, element)
    places_of: tuple[int, int, str] = (rows, columns, "i32")
    shown = f"{rows}x{columns}"
    places, number = f"tile<{shape}xi32>", f"tile<{element}>"
    body = K.load("x", "a", "%zero, %zero", (ROWS, COLUMNS, element))
    body += f"    %up = iota : tile<{extent}xi32>\n"
    if falling:
        body += f"    %last = constant <i32: {extent - 1}> : tile<{extent}xi32>\n"
        body += f"    %line = subi %last, %up : tile<{extent}xi32>\n"
    line = "line" if falling else "up"
    body += f"    %l = reshape %{line} : tile<{extent}xi32> -> tile<{long}xi32>\n"
    body += f"    %p = broadcast %l : tile<{long}xi32> -> {places}\n"
    both = "%k, %j" if swapped else "%j, %k"
    body += f"""
    %v, %w = reduce %x, %p dim={axis} identities=[0.0 : {element}, 0 : i32]
      : tile<{shape}x{element}>, {places} -> tile<{kept}x{element}>, tile<{kept}xi32>
      (%s: {number}, %e: {number}, %k: tile<i32>, %j: tile<i32>) {{
        %less = cmpf less_than ordered %e, %s : {number} -> tile<i1>
        %same = cmpf equal ordered %e, %s : {number} -> tile<i1>
        %first = cmpi {relation.replace(" ", f" {both}, ")} : tile<i32> -> tile<i1>
        %tie = andi %same, %first : tile<i1>
        %take = ori %less, %tie : tile<i1>
        %m = select %take, %e, %s : tile<i1>, {number}
        %n = select %take, %j, %k : tile<i1>, tile<i32>
        yield %m, %n : {number}, tile<i32>
      }}
    %vs = reshape %v : tile<{kept}x{element}> -> tile<{shown}x{element}>
    %ws = reshape %w : tile<{kept}xi32> -> tile<{shown}xi32>
"""
    body += K.store("vs", "b", "%zero, %zero", least_of)
    body += K.store("ws", "c", "%zero, %zero", places_of)
    return K.entry({"a": (ROWS, COLUMNS, element), "b": least_of, "c": places_of}, body)


def known(text: str) -> list[bool]:
    module = K.lowered(text, "tileaa,tileas-assign-layouts")
    (fold,) = [op for op in module.walk() if isinstance(op, ReduceOp)]
    return list(known_comparisons(fold).values())


def launched(text: str, element: str) -> list[Any]:
    """Of numbers of which many are equal: the results of the simulator, which are those of the reference machine."""
    rng = np.random.default_rng(3)
    kind = {"f16": np.float16, "f32": np.float32}[element]
    found: list[list[Any]] = []
    values = rng.integers(0, 4, (256, K.WIDTH)).astype(kind)
    for machine in (Program(parse(text)), TileProgram(parse(text), "sm_80")):
        arrays = [values.copy(), np.zeros_like(values), np.zeros(values.shape, np.int32)]
        machine.launch("k", 1, [*arrays, *values.shape, 1])
        found.append(arrays)
    for mine, wanted in zip(found[1], found[0], strict=True):
        assert np.array_equal(mine, wanted)
    return found[1]


@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("relation", ["less_than signed", "greater_than unsigned"])
def test_ties_go_where_the_body_says(relation: str, swapped: bool, axis: int, element: str) -> None:
    text = least(relation, axis, swapped=swapped, element=element)
    first = relation.startswith("less") != swapped
    assert known(text) == [relation.startswith("greater") != swapped]
    numbers, _, places = launched(text, element)
    tile = numbers[:ROWS, :COLUMNS].astype(np.float64)
    turned = np.flip(tile, axis)
    wanted = tile.argmin(axis) if first else tile.shape[axis] - 1 - turned.argmin(axis)
    assert np.array_equal(places[:ROWS, 0] if axis else places[0, :COLUMNS], wanted)


@pytest.mark.parametrize("relation", ["less_than_or_equal signed", "greater_than_or_equal signed"])
def test_places_that_may_be_equal_are_known_too(relation: str) -> None:
    assert known(least(relation)) == [relation.startswith("greater")]
    launched(least(relation), "f32")


@pytest.mark.parametrize("relation", ["equal signed", "not_equal signed"])
def test_two_places_are_never_one(relation: str) -> None:
    for swapped in (False, True):
        assert known(least(relation, swapped=swapped)) == [relation.startswith("not")]


def test_what_does_not_grow_is_compared() -> None:
    text = least("less_than signed", falling=True)
    assert known(text) == []
    numbers, _, places = launched(text, "f32")
    last = np.flip(numbers[:ROWS, :COLUMNS], 1).argmin(1)
    assert np.array_equal(places[:ROWS, 0], last)


def test_places_along_the_other_axis_are_compared() -> None:
    for axis in (0, 1):
        text = least("less_than signed", axis, across=True)
        assert known(text) == []
        launched(text, "f32")


@pytest.mark.parametrize(("made", "is_known"), [("%k", True), ("%other", False)])
def test_what_a_body_makes_of_a_place_is_no_place(made: str, is_known: bool) -> None:
    """Without a choice between the two, one of the two places may be given on, and nothing else."""
    chosen = "%n = select %take, %j, %k : tile<i1>, tile<i32>"
    text = least("less_than signed")
    assert chosen in text
    text = text.replace(chosen, "%other = addi %j, %k : tile<i32>")
    text = text.replace("yield %m, %n", f"yield %m, {made}")
    assert bool(known(text)) == is_known
