"""``tileas-insert-barriers``: as many barriers as it takes, and none that could be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp

from tilewright import LaunchOptions, TileIRError
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.base import int_list, is_set
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp, BarrierOp
from tilewright.dialects.nv_tileas.ops import AllocTensorOp
from tilewright.dialects.nv_tileas.stores import AsyncTiledTmaStoreOp
from tilewright.lowering.scheduled import schedule
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.passes.tileas.insert_barriers import insert_barriers
from tilewright.passes.tileas.shared_conversions import SCRATCH
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

ROW = (1, 256, "f32")
TILE = (64, 64, "f32")
PLACES = "tileas-allocate,tileas-insert-barriers"


def fold(result: str, source: str, dims: tuple[int, int, str], body: str, start: str) -> str:
    """``result`` is a row folded to one number, spread over the row again."""
    rows, columns, element = dims
    tile = f"tile<{rows}x{columns}x{element}>"
    return (
        f"    %{result}r = reduce %{source} dim=1 identities=[{start} : {element}] : {tile} -> tile<{rows}x{element}>\n"
        f"    (%x: tile<{element}>, %y: tile<{element}>) {{\n"
        f"      %z = {body} : tile<{element}>\n      yield %z : tile<{element}>\n    }}\n"
        f"    %{result}n = reshape %{result}r : tile<{rows}x{element}> -> tile<{rows}x1x{element}>\n"
        f"    %{result} = broadcast %{result}n : tile<{rows}x1x{element}> -> {tile}\n"
    )


def folds(count: int, *, looped: bool = True) -> str:
    """c = the sum over ``steps`` of rows, less what ``count`` folds one after the other give."""
    tile = "tile<1x256xf32>"
    body = K.load("l0", "a", "%s, %zero" if looped else "%zero, %zero", ROW)
    for number in range(count):
        body += fold(f"m{number}", f"l{number}", ROW, "maxf %x, %y", "-1.0e+30")
        body += (
            f"    %l{number + 1} = subf %l{number}, %m{number} rounding<nearest_even> : {tile}\n"
        )
    if not looped:
        return K.entry({"a": ROW, "c": ROW}, body + K.store(f"l{count}", "c", "%zero, %zero", ROW))
    return K.entry(
        {"a": ROW, "c": ROW},
        f"  %nothing = constant <f32: 0.0> : {tile}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({tile}) {{\n{body}"
        f"    %next = addf %acc, %l{count} rounding<nearest_even> : {tile}\n"
        f"    continue %next : {tile}\n  }}\n" + K.store("sum", "c", "%zero, %zero", ROW),
    )


def turned(times: int) -> str:
    """c = a, turned so many times."""
    body = K.load("l0", "a", "%zero, %one", TILE)
    for number in range(times):
        body += (
            f"  %l{number + 1} = permute %l{number} [1, 0] : tile<64x64xf32> -> tile<64x64xf32>\n"
        )
        body += f"  %l{number + 1}w = exp2 %l{number + 1} : tile<64x64xf32>\n".replace("w", "")
    return K.entry({"a": TILE, "c": TILE}, body + K.store(f"l{times}", "c", "%one, %zero", TILE))


def through_memory(*, ordered: bool) -> str:
    """c = the tile beside what was stored to b, or what was: rows that one thread stores another one loads."""
    token = " token = %b_d" if ordered else ""
    load = K.load("m", "b", "%zero, %zero", (32, 128, "f32"))
    body = (
        K.load("l", "a", "%zero, %zero", TILE)
        + K.store("l", "b", "%zero, %zero", TILE).replace("%bt[", "%b2t[")
        + load.replace(" : partition", f"{token} : partition", 1)
        + K.store("m", "c", "%zero, %zero", (32, 128, "f32"))
    )
    matrices = {"a": TILE, "b": (32, 128, "f32"), "c": (32, 128, "f32")}
    text = K.entry(matrices, body)
    view = f"  %b2t = make_partition_view %bv : {K.view(*TILE)}\n"
    return text.replace("  %cp = assume", view + "  %cp = assume")


def synchronised(text: str, target: str = "sm_80") -> ModuleOp:
    return K.lowered(text, f"tileaa,tileas{{target={target}}}")


def barriers(module: Any) -> list[BarrierOp]:
    return [op for op in module.walk() if isinstance(op, BarrierOp)]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_folds_of_a_round_take_turns(count: int) -> None:
    """A fold over warps meets once, within itself. Only where an iteration has no more than one is it in conflict with
    that of the iteration before."""
    text = folds(count)
    module = synchronised(text)
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    places = [int_list(op.attributes[SCRATCH]) for op in loop.walk() if SCRATCH in op.attributes]
    assert len(places) == count
    assert len(barriers(loop)) == (count == 1)
    assert len(barriers(module)) == (count == 1)
    for one, other in zip(places, [*places[1:], places[0]] if count > 1 else [], strict=False):
        assert one[1] <= other[0] or other[1] <= one[0]
    assert K.outcome(module, text, 3) == K.outcome(parse(text), text, 3)


def test_what_lies_ahead_of_a_loop_is_met_ahead_of_it() -> None:
    """A fold in front of a loop, and one in each iteration: the loop has the barrier of its own iterations, no other."""
    text = folds(1).replace(
        "  %nothing = constant <f32: 0.0> : tile<1x256xf32>\n",
        K.load("e", "a", "%one, %zero", ROW) + fold("nothing", "e", ROW, "maxf %x, %y", "-1.0e+30"),
    )
    module = synchronised(text)
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    assert len(barriers(loop)) == 1 and len(barriers(module)) == 1
    assert K.outcome(module, text, 3) == K.outcome(parse(text), text, 3)


@pytest.mark.parametrize("ordered", [False, True])
def test_only_what_tokens_order_is_waited_for(ordered: bool) -> None:
    module = synchronised(through_memory(ordered=ordered))
    assert len(barriers(module)) == ordered


def test_no_barrier_before_the_pass_and_no_second_time() -> None:
    module = K.lowered(
        K.product(nested=True), "tileaa,tileas-assign-layouts,tileas-pipeline,tileas-expand"
    )
    assert not barriers(module)
    run_pipeline(module, PLACES, verify_each=True)
    count = len(barriers(module))
    assert count == 2
    again = parse(print_text(module))
    (func,) = (op for op in again.walk() if isinstance(op, FuncOp))
    insert_barriers(func)
    assert len(barriers(again)) == count


def test_threads_that_read_what_they_copied_do_not_meet() -> None:
    """A ring that is read in the layout in which it was filled has no barrier; products read what others copied."""
    tile = "tile<64x64xf32>"
    text = K.entry(
        {"a": TILE, "c": TILE},
        f"  %nothing = constant <f32: 0.0> : {tile}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({tile}) {{\n"
        + K.load("l", "a", "%s, %zero", TILE)
        + f"    %next = addf %acc, %l rounding<nearest_even> : {tile}\n    continue %next : {tile}\n  }}\n"
        + K.store("sum", "c", "%zero, %zero", TILE),
    )
    module = synchronised(text)
    assert any(isinstance(op, AsyncTiledLoadOp) for op in module.walk())
    assert not barriers(module)
    assert len(barriers(synchronised(K.product()))) == 1


@pytest.mark.parametrize(("token", "count"), [(" token = %read", 1), ("", 0)])
def test_what_others_still_copy_is_not_written(token: str, count: int) -> None:
    """Behind a ring in which threads meet nowhere they do before they store to what copies have read, where tokens
    say that the store comes behind."""
    tile = "tile<64x64xf32>"
    text = K.entry(
        {"a": TILE, "c": TILE},
        f"  %nothing = constant <f32: 0.0> : {tile}\n  %begin = make_token : token\n"
        "  %sum, %read = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing, %before = %begin) -> ({tile}, token) {{\n"
        + K.load("l", "a", "%s, %zero", TILE)
        + "    %both = join_tokens %before, %l_t : token\n"
        f"    %next = addf %acc, %l rounding<nearest_even> : {tile}\n"
        f"    continue %next, %both : {tile}, token\n  }}\n"
        + K.store("sum", "a", "%zero, %zero", TILE).replace(" :", f"{token} :", 1),
    )
    module = synchronised(text)
    assert any(isinstance(op, AsyncTiledLoadOp) for op in module.walk())
    assert len(barriers(module)) == count


def test_tiles_without_layouts_are_of_all_threads() -> None:
    """What has no layout is dealt to the threads of a block: folds over its warps have scratch memory, and meet."""
    module = K.lowered(folds(3, looped=False), "tileaa," + PLACES)
    places = [op.attributes[SCRATCH] for op in module.walk() if SCRATCH in op.attributes]
    assert len([place for place in places if len(int_list(place)) == 2]) == 3


def test_fences_only_for_what_is_read_past_threads() -> None:
    """On sm_90a products read by another way what threads write: the second one of attention its operand, a copy."""
    text = K.product()
    (fenced,) = {is_set(op, "fence") for op in barriers(synchronised(text))}
    assert not fenced
    module = synchronised(K.attention(), "sm_90a")
    assert any(is_set(op, "fence") for op in barriers(module))


def test_bytes_that_are_stored_later_need_no_fence_before() -> None:
    """Operands lie where the tile lies that a tensor map stores: threads write them, and ``ldmatrix`` reads them."""
    tall, square = (128, 64, "f16"), (64, 64, "f16")
    text = K.entry(
        {"a": tall, "b": square, "c": tall},
        K.load("l", "a", "%zero, %zero", tall)
        + K.load("r", "b", "%zero, %zero", square)
        + "  %none = constant <f32: 0.0> : tile<128x64xf32>\n"
        "  %sum = mmaf %l, %r, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>\n"
        "  %half = ftof %sum : tile<128x64xf32> -> tile<128x64xf16>\n"
        + K.store("half", "c", "%zero, %zero", tall),
    )
    module = synchronised(text, "sm_120a")
    assert [op for op in module.walk() if isinstance(op, AsyncTiledTmaStoreOp)]
    fences = [is_set(op, "fence") for op in barriers(module)]
    assert len(fences) >= 2 and fences == [False] * (len(fences) - 1) + [True]
    offsets = [int_property(op, "offset") for op in module.walk() if isinstance(op, AllocTensorOp)]
    assert len(set(offsets)) < len(offsets), "live ranges share"
    rng = np.random.default_rng(0)
    made = [rng.integers(-3, 4, (256, K.WIDTH)).astype(np.float16) for _ in range(2)]
    values = [*made, np.zeros((256, K.WIDTH), np.float16), 256, K.WIDTH, 1]
    TileProgram(parse(text), "sm_120a").launch("k", 1, values)
    wanted = made[0][:128, :64].astype(np.float32) @ made[1][:64, :64].astype(np.float32)
    assert np.array_equal(values[2][:128, :64], wanted.astype(np.float16))


#: Kernels, a target of each, and how many barriers it has.
NEEDED = {
    "ring": (K.product(), "sm_80", 1),
    "ring in a loop": (K.product(nested=True), "sm_80", 2),
    "products": (K.attention(), "sm_80", 3),
    "folds": (folds(1), "sm_80", 1),
    "memory": (through_memory(ordered=True), "sm_80", 1),
}


def outcomes(text: str, target: str, without: int, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What the simulator finds where one barrier is left out, in the first of some orders of warps in which it finds something."""

    def insert(func: FuncOp) -> None:
        insert_barriers(func)
        victims = barriers(func)[without : without + 1] if without >= 0 else []
        for victim in victims:
            victim.detach()
            victim.erase()

    expected = K.arguments(text, 3)
    Program(parse(text)).launch("k", 1, expected)
    with monkeypatch.context() as patch:
        patch.setattr(schedule, "insert_barriers", insert)
        program = TileProgram(parse(text), target)
        for seed in range(6):
            given = K.arguments(text, 3)
            try:
                program.launch("k", 1, given, LaunchOptions(seed=seed))
            except TileIRError as error:
                return {diagnostic.code for diagnostic in error.diagnostics}
            if not np.allclose(given[-4], expected[-4], rtol=1e-3, atol=2e-3):
                return {"wrong"}
    return set()


@pytest.mark.parametrize("name", NEEDED)
def test_each_barrier_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, target, count = NEEDED[name]
    assert len(barriers(synchronised(text, target))) == count
    assert not outcomes(text, target, -1, monkeypatch)
    for number in range(count):
        assert outcomes(text, target, number, monkeypatch), number


def test_scratch_places_are_text() -> None:
    module = synchronised(folds(2))
    again = parse(print_text(module))
    places = [op.attributes[SCRATCH] for op in again.walk() if SCRATCH in op.attributes]
    assert len(places) == 2
    assert all(isinstance(place, DenseArrayBase) for place in places)


def test_scratch_memory_that_is_missing_is_told() -> None:
    """Code is not made from places that barriers were not placed by."""
    module = synchronised(folds(1))
    for op in module.walk():
        op.attributes.pop(SCRATCH, None)
    with pytest.raises(TileIRError, match="bytes of scratch memory, which are not allocated"):
        run_pipeline(module, "convert-tileas-to-nvgpu")
