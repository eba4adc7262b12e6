"""The pipeline ``cpu``: rewrites on ``nv_tileaa`` before code is planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.lowering.calls import copy_function
from tilewright.passes.tileaa.choose_magnitudes import (
    ChooseMagnitudes,
    choose_magnitudes,
    magnitudes,
)
from tilewright.passes.tileaa.cleanup import MergeEqual, has_equal
from tilewright.passes.tileaa.constant_powers import ConstantPowers, constant_powers, powers_of
from tilewright.passes.tileaa.halve_products import HalveProducts, halve_products, halves
from tilewright.passes.tileaa.hoist_masks import HoistMasks, hoist_masks, hoistable
from tilewright.passes.tileaa.longer_rows import LongerRows, across_short_rows, longer_rows
from tilewright.passes.tileaa.mark_in_bounds import MarkInBounds, mark_in_bounds, unmarked
from tilewright.passes.tileaa.merge_reductions import MergeReductions, merge_reductions, mergeable
from tilewright.passes.tileaa.narrow_comparisons import (
    NarrowComparisons,
    narrow_comparisons,
    wide_comparisons,
)
from tilewright.passes.tileaa.narrow_integers import (
    NarrowIntegers,
    narrow_integers,
    wide_integers,
)
from tilewright.passes.tileaa.one_axis import OneAxis, on_one_axis, one_axis
from tilewright.passes.tileaa.pick_elements import PickElements, pick_elements, picks
from tilewright.passes.tileaa.single_reductions import (
    SingleReductions,
    of_single_elements,
    single_reductions,
)
from tilewright.passes.tileaa.sink_stores import SinkStores, sink_stores, sinkable
from tilewright.passes.tileaa.split_carried import (
    REGISTER_BYTES,
    SplitCarried,
    split_carried,
    too_large,
)
from tilewright.passes.tileaa.split_divisions import (
    SplitDivisions,
    divisions,
    split_divisions,
)
from tilewright.passes.tileaa.unroll_loops import UnrollLoops, short_loops, unroll_loops
from tilewright.passes.tileaa.weaken_atomics import WeakenAtomics, ordered_updates, weaken_atomics
from tilewright.passes.tileas.remarks import Remarks


@dataclass(frozen=True, slots=True)
class Step:
    """A pass: its name, the operations of a function that it may rewrite, and the rewrite."""

    name: str
    candidates: Callable[[FuncOp], list[Operation]]
    rewrite: Callable[[FuncOp, Remarks], None]


_MERGES = Step(
    MergeEqual.name,
    lambda function: [function] if has_equal(function) else [],
    lambda function, remarks: MergeEqual().rewrite_function(function),
)

#: The first steps of the pipeline ``cpu``, in its order (``passes.pipelines``), up to the one that asks how many registers there are.
_FIRST = (
    Step(UnrollLoops.name, short_loops, unroll_loops),
    _MERGES,
    Step(HoistMasks.name, hoistable, lambda function, remarks: hoist_masks(function)),
    Step(SinkStores.name, sinkable, lambda function, remarks: sink_stores(function)),
    Step(WeakenAtomics.name, ordered_updates, weaken_atomics),
)
#: Those behind it.
_LAST = (
    Step(ConstantPowers.name, powers_of, constant_powers),
    Step(
        NarrowComparisons.name,
        wide_comparisons,
        lambda function, remarks: narrow_comparisons(function),
    ),
    Step(HalveProducts.name, halves, lambda function, remarks: halve_products(function)),
    Step(NarrowIntegers.name, wide_integers, lambda function, remarks: narrow_integers(function)),
    Step(PickElements.name, picks, lambda function, remarks: pick_elements(function)),
    Step(
        SingleReductions.name,
        of_single_elements,
        lambda function, remarks: single_reductions(function),
    ),
    Step(LongerRows.name, across_short_rows, lambda function, remarks: longer_rows(function)),
    Step(
        ChooseMagnitudes.name,
        magnitudes,
        lambda function, remarks: choose_magnitudes(function),
    ),
    Step(OneAxis.name, on_one_axis, lambda function, remarks: one_axis(function)),
    Step(SplitDivisions.name, divisions, lambda function, remarks: split_divisions(function)),
    Step(MergeReductions.name, mergeable, lambda function, remarks: merge_reductions(function)),
    Step(MarkInBounds.name, unmarked, lambda function, remarks: mark_in_bounds(function)),
    _MERGES,
)


def steps(register_bytes: int = REGISTER_BYTES) -> tuple[Step, ...]:
    """The steps of the pipeline ``cpu``, for a processor whose vector registers take so many bytes."""
    split = Step(
        SplitCarried.name,
        lambda function: too_large(function, register_bytes),
        lambda function, remarks: split_carried(function, remarks, register_bytes),
    )
    return (*_FIRST, split, *_LAST)


def prepared(func: FuncOp, remarks: Remarks, register_bytes: int = REGISTER_BYTES) -> FuncOp:
    """The function after the pipeline ``cpu``, for a processor whose vector registers take so many bytes: itself where no pass finds
    anything, else a copy.

    Each pass is asked about what those before it made: some reductions can be merged only once others have become views.
    """
    found = func
    for step in steps(register_bytes):
        if not step.candidates(found):
            continue
        if found is func:
            found = copy_function(func)
        remarks.made_by = step.name
        step.rewrite(found, remarks)
    remarks.made_by = ""
    return found
