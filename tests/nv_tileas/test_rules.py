"""Every rule rejects the program that breaks it with one error, and accepts its nearest legal twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.nv_tileas.in_flight_cases import IN_FLIGHT
from tests.nv_tileas.ring_cases import RINGS

from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import Diagnostic, Span, TileIRError
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.dialects.nv_tileas import load
from tilewright.dialects.nv_tileas.agents import AGENTS
from tilewright.dialects.nv_tileas.base import IN_FLIGHT as IN_FLIGHT_SUMS
from tilewright.dialects.nv_tileas.base import (
    LAYOUT,
    OPERATIONS,
    RESIDENCY,
    STORAGE_PLACE,
    VIEW_SHAPE,
)
from tilewright.dialects.nv_tileas.pipelines import PROTOCOL, TMA
from tilewright.dialects.nv_tileas.stores import NOT_WAITED
from tilewright.text import parse

load()

LAYOUT_OF_8 = "#nv_tileas.layout<register = [], lane = [1, 2, 4, 0, 0], warp = [0, 0]>"
OTHER_OF_8 = "#nv_tileas.layout<register = [], lane = [4, 2, 1, 0, 0], warp = [0, 0]>"
_VIEW = "!nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>"
_TOKEN = "!nv_tileas.async_token"


@dataclass(frozen=True)
class Case:
    op: str
    code: str
    says: str
    bad: str
    good: str

    def __str__(self) -> str:
        return f"{self.op}-{self.says[:28]}"


def storage(ty: str) -> str:
    return f"!nv_tileas.tiled_view<{ty}>"


def alloc(ty: str) -> str:
    return f"%s = nv_tileas.alloc_tensor : {storage(ty)}"


def convert(result: str) -> str:
    return f"%r = nv_tileas.convert_layout %f : tile<8xf32> -> {result}"


def twice(layout: str, other: str) -> str:
    """A tile in one layout plus itself in another."""
    one, two = (f"tile<8xf32, {x}>" for x in (layout, other))
    return (
        f"%r = nv_tileas.convert_layout %f : tile<8xf32> -> {one}\n"
        f"%s = nv_tileas.convert_layout %f : tile<8xf32> -> {two}\n"
        f"%q2 = nv_tileaa.addf %r, %s : {one}, {two} -> {one}"
    )


def stage(source: str, result: str) -> str:
    return (
        f"{alloc(source)}\n%r = nv_tileas.extract_slice %s[%i] : {storage(source)}, index -> "
        f"{storage(result)}"
    )


def held(source: str, result: str) -> str:
    return f"{alloc(source)}\n%r = nv_tileas.local_load %s : {storage(source)} -> {result}"


def turned(order: str, result: str) -> str:
    source = "2x4xf32, smem"
    return (
        f"{alloc(source)}\n%r = nv_tileas.permute_view %s {{permutation = array<i64: {order}>}} : "
        f"{storage(source)} -> {storage(result)}"
    )


def copy(target: str) -> str:
    return f"{alloc(target)}\nnv_tileas.copy %f, %s : tile<8xf32>, {storage(target)}"


def load_tile(
    target: str = "8x16xf32, smem", indices: str = "%i, %j", attributes: str = "vector = 4 : i64"
) -> str:
    types = ", ".join("index" for _ in indices.split(","))
    return (
        f"{alloc(target)}\n%u = nv_tileas.async.tiled_load %view[{indices}], %s {{{attributes}}} : "
        f"{_VIEW}, {types}, {storage(target)} -> {_TOKEN}"
    )


def load_pointers(
    target: str = "8xf32, smem",
    mask: str = "%mask: tile<8xi1>",
    attributes: str = "vector = 1 : i64",
) -> str:
    value, _, ty = mask.partition(": ")
    return (
        f"{alloc(target)}\n%u = nv_tileas.async.load %ps, {value}, %s {{{attributes}}} : "
        f"tile<8x!nv_tileaa.ptr<f32, 1>>, {ty}, {storage(target)} -> {_TOKEN}"
    )


def dot(
    warps: str = "1, 1",
    a: str = "tile<16x32xf16>",
    c: str = "acc: tile<16x8xf32>",
    atom: str = "mma_sync",
) -> str:
    value, _, sums = c.partition(": ")
    before, left = "", "%a"
    if not a.startswith("tile"):
        before, left, a = alloc(a) + "\n", "%s", storage(a)
    return (
        f"{before}%r = nv_tileas.dot {left}, %b, %{value} {{warps = array<i64: {warps}>, "
        f'atom = "{atom}"}} '
        f": {a}, tile<32x8xf16>, {sums} -> {sums}"
    )


def wait(pending: int) -> str:
    return (
        f"%u = nv_tileas.async.group : {_TOKEN}\n"
        f"nv_tileas.async.wait %u {{pending = {pending} : i64}} : {_TOKEN}"
    )


SLOT = storage("8x16xf32, smem")
PIPELINE = f"!nv_tileas.pipeline<3, {SLOT}>"
_PIPE = "nv_tileas.async.pipeline"


def ring(
    stages: int = 3,
    slot: str = SLOT,
    iterator: str = "!nv_tileas.pipeline_iterator",
    body: str = "",
) -> str:
    ty = f"!nv_tileas.pipeline<3, {slot}>"
    return (
        f"{alloc(f'{stages}x8x16xf32, smem')}\n"
        f"%p = {_PIPE}.create_pipeline %s : {storage(f'{stages}x8x16xf32, smem')} -> {ty}\n"
        f"%it = {_PIPE}.create_iterator %p : {ty} -> {iterator}\n{body}"
    )


def advance(given: str = "!nv_tileas.pipeline_iterator") -> str:
    value = "%it" if "iterator" in given else "%i"
    return ring(
        body=f"%next = {_PIPE}.inc_iter %p, {value} : {PIPELINE}, {given} -> !nv_tileas.pipeline_iterator"
    )


def consume(steps: str = "wait read release", slot: str = SLOT) -> str:
    """A consumer that takes these steps; ``use`` is an access to the storage."""
    lines = {
        "wait": f"%r = {_PIPE}.consumer_wait %p, %it : {PIPELINE}, !nv_tileas.pipeline_iterator -> "
        "!nv_tileas.stage",
        "read": f"%full = {_PIPE}.consumer_read %p, %r : {PIPELINE}, !nv_tileas.stage -> {slot}",
        "release": f"{_PIPE}.consumer_release %p, %r : {PIPELINE}, !nv_tileas.stage",
        "use": f"nv_tileas.copy %tall, %full : tile<8x16xf32>, {SLOT}",
    }
    made = "%tall = arith.constant dense<0.0> : tile<8x16xf32>"
    found = [lines[word] for word in steps.split()]
    return ring(body="\n".join([made, *found]))


def produce(
    steps: str = "acquire write load commit",
    indices: str = "%i, %j",
    count: int = 512,
    order: str = "0, 1",
    box: str = "8, 16",
) -> str:
    types = ", ".join("index" for _ in indices.split(","))
    lines = {
        "acquire": f"%w = {_PIPE}.producer_acquire %p, %it : {PIPELINE}, !nv_tileas.pipeline_iterator -> "
        "!nv_tileas.stage",
        "write": f"%slot = {_PIPE}.producer_write %p, %w : {PIPELINE}, !nv_tileas.stage -> {SLOT}",
        "load": f"%u = nv_tileas.async.tiled_tma_load %d[{indices}], %slot, %w {{tx_count = {count} : i64}} "
        f": !nv_tileas.tma_desc, {types}, {SLOT}, !nv_tileas.stage -> {_TOKEN}",
        "commit": f"{_PIPE}.producer_commit %p, %w : {PIPELINE}, !nv_tileas.stage",
    }
    desc = (
        f"%d = nv_tileas.make_tiled_tma_desc %view {{order = array<i64: {order}>, "
        f"box = array<i64: {box}>}} : {_VIEW} -> !nv_tileas.tma_desc"
    )
    return ring(body="\n".join([desc, *(lines[word] for word in steps.split())]))


def two_storages(places: str, order: str = "copy read copy2 read2") -> str:
    """Two tiles of 32 bytes at these offsets, written and read in this order."""
    first, second = places.split()
    ty, tile = storage("8xf32, smem"), "tile<8xf32>"
    lines = {
        "copy": f"nv_tileas.copy %f, %one : {tile}, {ty}",
        "copy2": f"nv_tileas.copy %f, %two : {tile}, {ty}",
        "read": f"%got = nv_tileas.local_load %one : {ty} -> {tile}",
        "read2": f"%gets = nv_tileas.local_load %two : {ty} -> {tile}",
    }
    made = [
        f"%{name} = nv_tileas.alloc_tensor {{offset = {place} : i64}} : {ty}"
        for name, place in (("one", first), ("two", second))
    ]
    return "\n".join([*made, *(lines[word] for word in order.split())])


def put(
    stored: str = "8x16xf32, smem",
    indices: str = "%i, %j",
    order: str = "store wait",
    pending: int = 0,
) -> str:
    """A tile that goes to memory by a tensor map."""
    types = ", ".join("index" for _ in indices.split(","))
    lines = {
        "store": f"nv_tileas.async.tiled_tma_store %d[{indices}], %s : !nv_tileas.tma_desc, {types}, "
        f"{storage(stored)}",
        "wait": f"nv_tileas.async.store_wait %s {{pending = {pending} : i64, read}} : {storage(stored)}",
    }
    desc = (
        "%d = nv_tileas.make_tiled_tma_desc %view {order = array<i64: 0, 1>, box = array<i64: 8, 16>} "
        f": {_VIEW} -> !nv_tileas.tma_desc"
    )
    return "\n".join([alloc(stored), desc, *(lines[word] for word in order.split())])


#: Operation, code, message, how the program is made, what is wrong, and what would be right.
PIPELINES: list[Any] = [
    (
        "async.pipeline.create_pipeline",
        "as-view-shape",
        "expected storage of 3 stages, got",
        ring,
        {"stages": 4},
        {},
    ),
    (
        "async.pipeline.create_pipeline",
        "as-view-shape",
        "the stages hold !nv_tileas.tiled_view<8x16xf32, smem>",
        ring,
        {"slot": storage("8x8xf32, smem")},
        {"slot": storage("16x8xf32, smem")},
    ),
    (
        "async.pipeline.create_iterator",
        "result-type",
        "must be a pipeline_iterator",
        ring,
        {"iterator": "index"},
        {},
    ),
    (
        "async.pipeline.inc_iter",
        "operand-type",
        "must be a pipeline_iterator",
        advance,
        {"given": "index"},
        {},
    ),
    (
        "async.pipeline.consumer_wait",
        "as-pipeline-protocol",
        "expected one consumer_release of the stage in the block of its consumer_wait, got 0",
        consume,
        {"steps": "wait read"},
        {},
    ),
    (
        "async.pipeline.consumer_release",
        "as-pipeline-protocol",
        "expected one consumer_release of the stage in the block of its consumer_wait, got 2",
        consume,
        {"steps": "wait read release release"},
        {},
    ),
    (
        "async.pipeline.consumer_read",
        "as-pipeline-protocol",
        "consumer_release precedes consumer_read",
        consume,
        {"steps": "wait release read"},
        {},
    ),
    (
        "async.pipeline.consumer_read",
        "as-pipeline-protocol",
        "'nv_tileas.copy' uses the storage of a stage outside of its consumer_read",
        consume,
        {"steps": "wait read release use"},
        {"steps": "wait read use release"},
    ),
    (
        "async.pipeline.consumer_read",
        "as-view-shape",
        "a stage holds !nv_tileas.tiled_view<8x16xf32, smem>",
        consume,
        {"slot": storage("8x8xf32, smem")},
        {"slot": storage("128xf32, smem")},
    ),
    (
        "async.pipeline.producer_acquire",
        "as-pipeline-protocol",
        "expected one producer_commit of the stage",
        produce,
        {"steps": "acquire write load"},
        {},
    ),
    (
        "async.pipeline.producer_commit",
        "as-pipeline-protocol",
        "expected one producer_commit of the stage in the block of its producer_acquire, got 2",
        produce,
        {"steps": "acquire write load commit commit"},
        {},
    ),
    (
        "async.pipeline.producer_write",
        "as-pipeline-protocol",
        "uses the storage of a stage outside of its producer_write",
        produce,
        {"steps": "acquire write commit load"},
        {},
    ),
    (
        "async.tiled_tma_load",
        "as-tma",
        "the copy moves 512 bytes, got tx_count 256",
        produce,
        {"count": 256},
        {},
    ),
    (
        "async.tiled_tma_load",
        "as-view-shape",
        "expects 2 coordinates, but got 1",
        produce,
        {"indices": "%i"},
        {},
    ),
    (
        "make_tiled_tma_desc",
        "as-tma",
        "expected the 2 axes, each once",
        produce,
        {"order": "0, 0"},
        {"order": "1, 0", "box": "16, 8"},
    ),
    (
        "make_tiled_tma_desc",
        "as-tma",
        "no box has the extents [512, 16]",
        produce,
        {"box": "512, 16"},
        {"box": "8, 16"},
    ),
    (
        "make_tiled_tma_desc",
        "as-tma",
        "rows of a box are multiples of 16 bytes, got 4",
        produce,
        {"box": "8, 1"},
        {"box": "8, 4"},
    ),
    (
        "async.tiled_tma_store",
        "as-residency",
        "tensor maps store what lies in smem, got tmem",
        put,
        {"stored": "8x16xf32, tmem"},
        {},
    ),
    (
        "async.tiled_tma_store",
        "as-view-shape",
        "'!nv_tileas.tiled_view<8x8xf32, smem>' does not fit a tile of",
        put,
        {"stored": "8x8xf32, smem"},
        {},
    ),
    (
        "async.tiled_tma_store",
        "as-view-shape",
        "expects 2 coordinates, but got 1",
        put,
        {"indices": "%i"},
        {},
    ),
    *(
        (
            "async.tiled_tma_store",
            "as-store-not-waited",
            "nothing waits until the store has read its storage",
            put,
            bad,
            {"order": "wait store wait"},
        )
        for bad in ({"order": "store"}, {"order": "wait store"}, {"pending": 1})
    ),
    (
        "async.store_wait",
        "as-view-shape",
        "pending must be at least 0",
        put,
        {"order": "wait", "pending": -1},
        {"order": "wait", "pending": 1},
    ),
]
CASES = [
    Case(
        "convert_layout",
        "as-layout",
        "only the layout changes, but 'tile<8xf32>' became 'tile<8xf16>'",
        convert(f"tile<8xf16, {LAYOUT_OF_8}>"),
        convert(f"tile<8xf32, {LAYOUT_OF_8}>"),
    ),
    Case(
        "convert_layout",
        "as-layout",
        "became 'tile<2x4xf32>'",
        convert(f"tile<2x4xf32, {LAYOUT_OF_8}>"),
        convert(f"tile<8xf32, {OTHER_OF_8}>"),
    ),
    Case(
        "addf",
        "as-layout",
        "the tiles of 'nv_tileaa.addf' have different layouts",
        twice(LAYOUT_OF_8, OTHER_OF_8),
        twice(LAYOUT_OF_8, LAYOUT_OF_8),
    ),
    Case(
        "alloc_tensor",
        "as-residency",
        "storage of a block is smem or tmem, got gmem",
        alloc("16x32xf16"),
        alloc("16x32xf16, smem"),
    ),
    Case(
        "alloc_tensor",
        "as-residency",
        "storage of a block is smem or tmem, got rmem",
        alloc("16x32xf16, rmem"),
        alloc("16x32xf16, tmem"),
    ),
    Case(
        "alloc_tensor",
        "as-storage-place",
        "expected a multiple of 16, got 40",
        two_storages("0 40"),
        two_storages("0 48"),
    ),
    Case(
        "alloc_tensor",
        "as-storage-place",
        "expected a multiple of 16, got -16",
        two_storages("-16 0"),
        two_storages("16 48"),
    ),
    Case(
        "alloc_tensor",
        "as-storage-place",
        "bytes 16 to 47 are those of another storage, which is needed at the same time, at 0",
        two_storages("0 16", "copy copy2 read read2"),
        two_storages("0 16", "copy read copy2 read2"),
    ),
    Case(
        "extract_slice",
        "as-view-shape",
        "got '!nv_tileas.tiled_view<16xf32, smem>'",
        stage("3x8xf32, smem", "16xf32, smem"),
        stage("3x8xf32, smem", "2x4xf32, smem"),
    ),
    Case(
        "extract_slice",
        "as-view-shape",
        "a stage of '!nv_tileas.tiled_view<3x8xf32, smem>' is '!nv_tileas.tiled_view<8xf32, smem>'",
        stage("3x8xf32, smem", "8xi32, smem"),
        stage("3x8xf32, smem", "8xf32, smem"),
    ),
    Case(
        "extract_slice",
        "as-view-shape",
        "'!nv_tileas.tiled_view<8xf32, smem>' has no stages",
        stage("8xf32, smem", "1xf32, smem"),
        stage("8x1xf32, smem", "1xf32, smem"),
    ),
    Case(
        "extract_slice",
        "as-view-shape",
        "has no stages",
        stage("4x8xf32, smem, #nv_tileas.shared<[1, 2, 4, 8, 16]>", "8xf32, smem"),
        stage(
            "4x8xf32, smem, #nv_tileas.shared<[1, 2, 4]>",
            "8xf32, smem, #nv_tileas.shared<[1, 2, 4]>",
        ),
    ),
    Case(
        "copy",
        "as-view-shape",
        "a tile 'tile<8xf32>' does not fit '!nv_tileas.tiled_view<3x8xf32, smem>'",
        copy("3x8xf32, smem"),
        copy("8xf32, smem"),
    ),
    Case("copy", "as-view-shape", "does not fit", copy("8xi32, smem"), copy("8xf32, tmem")),
    Case(
        "local_load",
        "as-view-shape",
        "'!nv_tileas.tiled_view<8xf32, smem>' holds no 'tile<8xi32>'",
        held("8xf32, smem", "tile<8xi32>"),
        held("8xf32, smem", "tile<8xf32>"),
    ),
    Case(
        "permute_view",
        "as-view-shape",
        "(1, 1) is not a permutation of the axes",
        turned("1, 1", "4x2xf32, smem, #nv_tileas.shared<[4, 1, 2]>"),
        turned("1, 0", "4x2xf32, smem, #nv_tileas.shared<[4, 1, 2]>"),
    ),
    Case(
        "permute_view",
        "as-view-shape",
        "expected '!nv_tileas.tiled_view<4x2xf32, smem, #nv_tileas.shared<[4, 1, 2]>>'",
        turned("1, 0", "4x2xf32, smem"),
        turned("0, 1", "2x4xf32, smem"),
    ),
    Case(
        "dot",
        "as-view-shape",
        "expected MxK, KxN and MxN, got [32, 16] [32, 8] [16, 8]",
        dot(a="32x16xf16, smem"),
        dot(a="16x32xf16, smem"),
    ),
    Case(
        "dot",
        "as-view-shape",
        "expected MxK, KxN and MxN, got [16, 32] [32, 8] [8]",
        dot(c="f: tile<8xf32>"),
        dot(),
    ),
    Case(
        "dot",
        "aa-dot-types",
        "element types that combine, but got f32 and f16",
        dot(a="16x32xf32, smem"),
        dot(a="16x32xf16, smem"),
    ),
    Case(
        "dot",
        "as-residency",
        "operands lie in registers or smem, got tmem",
        dot(a="16x32xf16, tmem"),
        dot(a="16x32xf16, smem"),
    ),
    *(
        Case("dot", "as-layout", "expected two powers of two", dot(bad), dot(good))
        for bad, good in (("64, 1", "32, 1"), ("0, 1", "2, 1"), ("3, 1", "1, 4"), ("1", "1, 1"))
    ),
    Case(
        "async.tiled_load",
        "as-view-shape",
        "does not fit '!nv_tileas.tiled_view<8x8xf32, smem>'",
        load_tile("8x8xf32, smem"),
        load_tile("8x16xf32, smem"),
    ),
    Case(
        "async.tiled_load",
        "as-view-shape",
        "expects 2 coordinates, but got 1",
        load_tile(indices="%i"),
        load_tile(),
    ),
    Case(
        "async.tiled_load",
        "as-residency",
        "asynchronous copies write smem, got tmem",
        load_tile("8x16xf32, tmem"),
        load_tile(),
    ),
    *(
        Case(
            "async.tiled_load",
            "as-view-shape",
            f"moves 4, 8 or 16 bytes, but {bad} elements",
            load_tile(attributes=f"vector = {bad} : i64"),
            load_tile(attributes=f"vector = {good} : i64"),
        )
        for bad, good in ((0, 1), (3, 2), (8, 4))
    ),
    Case(
        "async.tiled_load",
        "as-view-shape",
        "expected 2 booleans in in_bounds, got 1",
        load_tile(attributes="vector = 4 : i64, in_bounds = array<i1: true>"),
        load_tile(attributes="vector = 4 : i64, in_bounds = array<i1: true, false>"),
    ),
    *(
        Case("async.load", "as-view-shape", words, load_pointers(**bad), load_pointers())
        for words, bad in (
            ("does not fit '!nv_tileas.tiled_view<16xf32, smem>'", {"target": "16xf32, smem"}),
            ("does not fit '!nv_tileas.tiled_view<8xi32, smem>'", {"target": "8xi32, smem"}),
            ("moves 4, 8 or 16 bytes, but 8 elements", {"attributes": "vector = 8 : i64"}),
            ("a power of two below vector", {"attributes": "vector = 4 : i64, proven = 3 : i64"}),
        )
    ),
    Case(
        "async.load",
        "as-residency",
        "asynchronous copies write smem, got tmem",
        load_pointers("8xf32, tmem"),
        load_pointers(),
    ),
    Case("async.wait", "as-layout", "pending must be at least 0", wait(-1), wait(0)),
    Case(
        "async.wait",
        "operand-type",
        "must be an async_token, but got '!nv_tileaa.mem_token'",
        "nv_tileas.async.wait %t {pending = 0 : i64} : !nv_tileaa.mem_token",
        wait(1),
    ),
    Case(
        "async.group",
        "operand-type",
        "must be an async_token, but got '!nv_tileaa.mem_token'",
        f"%u = nv_tileas.async.group %t : !nv_tileaa.mem_token -> {_TOKEN}",
        f"%u = nv_tileas.async.group : {_TOKEN}",
    ),
    Case(
        "dot",
        "as-layout",
        "expected one of mma_sync, wgmma, mma_sync_f16, fma, got other",
        dot(atom="other"),
        dot(atom="mma_sync"),
    ),
    Case(
        "dot",
        "as-layout",
        "mma_sync_f16 takes floats of 8 bits, got f16",
        dot(atom="mma_sync_f16"),
        dot(atom="mma_sync"),
    ),
    Case(
        "dot",
        "as-residency",
        "the right operand of wgmma is in smem",
        dot(atom="wgmma"),
        dot(atom="mma_sync"),
    ),
    Case(
        "dot",
        "as-residency",
        "the operands of fma are in smem",
        dot(a="16x32xf16, smem", atom="fma"),
        dot(a="16x32xf16, smem"),
    ),
    *(
        Case(name, code, says, text(**bad), text(**good))
        for name, code, says, text, bad, good in (*PIPELINES, *IN_FLIGHT, *RINGS)
    ),
]


def findings(body: str) -> tuple[Diagnostic, ...]:
    try:
        return tuple(find_problems(parse(wrap(body))))
    except TileIRError as error:
        return error.diagnostics


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    found = findings(case.bad)
    assert [d.code for d in found] == [case.code], [d.brief() for d in found]
    assert case.says in found[0].message
    assert found[0].is_error
    assert isinstance(found[0].location, Span)
    assert [d.brief() for d in findings(case.good)] == []


def test_every_rule_and_operation_has_a_case() -> None:
    codes = {
        AGENTS,
        IN_FLIGHT_SUMS,
        LAYOUT,
        RESIDENCY,
        STORAGE_PLACE,
        VIEW_SHAPE,
        PROTOCOL,
        TMA,
        NOT_WAITED,
    }
    assert codes <= {case.code for case in CASES}
    # A barrier has nothing that could be wrong.
    assert {case.op for case in CASES} >= set(OPERATIONS) - {"barrier"}


def layout(register: str = "", lane: str = "1, 2, 4, 0, 0", warp: str = "0, 0") -> str:
    return f"#nv_tileas.layout<register = [{register}], lane = [{lane}], warp = [{warp}]>"


def in_tile(attribute: str) -> str:
    return convert(f"tile<8xf32, {attribute}>")


#: The text, the code, and the message of its only error.
MALFORMED = [
    (in_tile(layout(lane="1, 2, 4, 0")), "invalid-attribute", "5 vectors for lanes, got 4"),
    (in_tile(layout(lane="1, 2, 8, 0, 0")), "invalid-attribute", "held by no thread"),
    (in_tile(layout(lane="1, 2, -4, 0, 0")), "invalid-attribute", "are not negative"),
    (in_tile(layout(register=str(10**40))), "invalid-attribute", "held by no thread"),
    (in_tile(layout(warp=", ".join("0" * 6))), "invalid-attribute", "at most 5 vectors for warps"),
    (
        in_tile(layout(register=", ".join("0" * 60))),
        "invalid-attribute",
        "at most 24 vectors for registers",
    ),
    (in_tile(layout(lane="1, 2, 0, 0, 0")), "invalid-type", "a tile of 8 elements is of 4"),
    (in_tile(layout(lane="1, 2, 4, 8, 0")), "invalid-type", "a tile of 8 elements is of 16"),
    (in_tile(layout(lane="1, 2, true, 0, 0")), "syntax", "expected integer literal"),
    (in_tile("#nv_tileas.layout<register = []>"), "syntax", "expected ',', found '>'"),
    (in_tile("#nv_tileas.layout<lane = [1]>"), "syntax", "expected 'register', found 'lane'"),
    (in_tile("#nv_tileas.layout<>"), "syntax", "expected 'register', found '>'"),
    (in_tile("#nv_tileas.layout"), "syntax", "expected '<', found '>'"),
    (in_tile("#nv_tileas.shared<[1, 2, 4]>"), "invalid-type", "a tile is #nv_tileas.layout"),
    (in_tile("#nv_tileas.other<[1]>"), "unknown-attribute", "#nv_tileas.other"),
    (in_tile("42 : i32"), "invalid-type", "the layout of a tile is #nv_tileas.layout"),
    (in_tile("#layout7"), "undefined-alias", "#layout7"),
    (
        alloc("8xf16, smem, #nv_tileas.shared<[1, 2, 2]>"),
        "invalid-attribute",
        "have the same position",
    ),
    (
        alloc("8xf16, smem, #nv_tileas.shared<[1, 2, 8]>"),
        "invalid-attribute",
        "have the same position",
    ),
    (
        alloc("8xf16, smem, #nv_tileas.shared<[1, 2, -4]>"),
        "invalid-attribute",
        "have the same position",
    ),
    (alloc("2x4xf16, smem, #nv_tileas.shared<[1]>"), "invalid-attribute", "of 2 elements"),
    (alloc(f"8xf16, smem, {LAYOUT_OF_8}"), "invalid-attribute", "is #nv_tileas.shared"),
    (
        alloc("8xf16, mem"),
        "syntax",
        "'mem' is not a residency; expected one of gmem, smem, rmem, tmem",
    ),
    (alloc("8xf16 smem"), "syntax", "expected '>', found 'smem'"),
    (alloc("f16, smem"), "invalid-attribute", "all dimensions must be positive constants"),
    (alloc("0x4xf16, smem"), "invalid-attribute", "all dimensions must be positive constants"),
    (alloc("3x3xf16, smem"), "invalid-attribute", "must be powers of two"),
    (alloc("3x2xindex, smem"), "invalid-attribute", "are numbers, but got 'index'"),
    (alloc(f"{1 << 16}x{1 << 16}xf16, smem"), "invalid-attribute", "exceed the maximum"),
    (alloc("?x4xf16, smem"), "unknown-type", "'?'"),
    (alloc(""), "unknown-type", "'>'"),
]


@pytest.mark.parametrize(("body", "code", "says"), MALFORMED)
def test_malformed_text_gives_one_error(body: str, code: str, says: str) -> None:
    (found,) = findings(body)
    assert (found.code, says in found.message) == (code, True), found.brief()
    assert isinstance(found.location, Span)
    assert found.location.line >= 7


@pytest.mark.parametrize("given", [{"warp": "0, " * 4 + "0"}, {"register": "0, " * 23 + "0"}])
def test_a_layout_may_have_as_many_vectors_as_the_message_says(given: dict[str, str]) -> None:
    assert not findings(in_tile(layout(**given)))
