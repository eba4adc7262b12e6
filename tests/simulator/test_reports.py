"""Counters, occupancy, timelines, architectures, and what the elementwise operations compute."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.simulator.kernels import EXAMPLES, kernel, run

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.simulator import Program, occupancy
from tilewright.simulator.architectures import Architecture
from tilewright.simulator.timeline import PRODUCT_RATE, TensorCores
from tilewright.simulator.timeline_drawing import KINDS


def _conflicts(stride: int) -> tuple[int, int]:
    body = f"""
    %s = arith.constant {stride} : index
    %m = arith.muli %tid, %s : index
    %n = arith.constant 256 : index
    %i = arith.remui %m, %n : index
    %x = arith.constant 1.0 : f32
    memref.store %x, %words[%i] : memref<256xf32, 3>
    """
    counters = run(body).counters
    return counters.shared_waves, counters.bank_conflicts


@pytest.mark.parametrize(
    ("stride", "waves", "conflicts"), [(1, 1, 0), (0, 1, 0), (2, 2, 0), (8, 8, 7), (3, 1, 0)]
)
def test_bank_conflicts(stride: int, waves: int, conflicts: int) -> None:
    """Stride 2 touches 64 words, which take two waves anyway."""
    found = _conflicts(stride)
    assert found[0] == waves
    assert found[1] == {2: 1}.get(stride, conflicts)


def test_bytes_are_counted() -> None:
    a = np.zeros(32, np.float32)
    body = """
    %half = arith.cmpi ult, %tid, %c16 : index
    scf.if %half {
      %x = memref.load %a[%tid] : memref<32xf32>
      memref.store %x, %words[%tid] : memref<256xf32, 3>
    }
    """
    counters = run(body, "%a: memref<32xf32>", [a], grid=2).counters
    assert counters.global_bytes_read == 2 * 16 * 4
    assert counters.shared_bytes_written == 2 * 16 * 4
    assert counters.global_bytes_written == 0


@pytest.mark.parametrize(
    ("arch", "threads", "shared", "registers", "blocks", "limit"),
    [
        ("sm_90a", 128, 0, None, 16, "warps"),
        ("sm_90a", 32, 0, None, 32, "blocks"),
        ("sm_90a", 384, 98 * 1024, None, 2, "shared memory"),
        ("sm_90a", 288, 0, 168, 1, "registers"),
        ("sm_80", 256, 0, 32, 8, "warps"),
        ("sm_86", 256, 0, 40, 6, "warps"),
        ("sm_75", 256, 48 * 1024, 32, 1, "shared memory"),
    ],
)
def test_occupancy(
    arch: str, threads: int, shared: int, registers: int | None, blocks: int, limit: str
) -> None:
    found = occupancy(arch, threads, shared, registers)
    assert (found.blocks, found.limited_by) == (blocks, limit)
    assert found == occupancy(Architecture.parse(arch), threads, shared, registers)


def test_occupancy_is_told_what_there_is() -> None:
    assert occupancy("sm_90a", 1024, 228 * 1024, 255).blocks == 0  # fits nowhere
    with pytest.raises(TileIRError, match="'sm_1' is not an architecture"):
        occupancy("sm_1", 128, 0)
    for threads, registers in ((0, None), (128, 0)):
        with pytest.raises(ValueError, match="a block has threads"):
            occupancy("sm_90a", threads, 0, registers)


def _hopper() -> Any:
    path = EXAMPLES / "matmul_hopper.mlir"
    a, b = np.ones((128, 320), np.float16), np.ones((320, 128), np.float16)
    program = Program.parse(path.read_text(), str(path))
    return program.launch(
        None, 1, [a, b, np.zeros((128, 128), np.float32), 5], options=LaunchOptions(block=384)
    )


def test_timeline_has_the_roles() -> None:
    timeline = _hopper().timeline
    kinds = {(event.row, event.kind) for event in timeline.events}
    assert ("warp 8 (copies)", "copy") in kinds
    assert ("warp 0", "product") in kinds and ("warp 0", "wait") in kinds
    copies = [e for e in timeline.events if e.kind == "copy"]
    assert len(copies) == 5 * 3
    # The ring has three stages: the first nine boxes are under way before a product has ended.
    first_product = min(e.end for e in timeline.events if e.kind == "product")
    assert sum(e.start < first_product for e in copies) == 9
    assert all(e.end >= e.start for e in timeline.events)


def test_timeline_is_drawn() -> None:
    timeline = _hopper().timeline
    root = ET.fromstring(timeline.to_svg())
    marks = [node for node in root if node.get("class") == "stage"]
    assert len(marks) == len(timeline.events)
    page = timeline.to_html("a < b")
    assert "a &lt; b" in page and "<svg" in page and "http://www.w3.org/2000/svg" in page
    assert "default-src 'none'" in page and 'src="' not in page
    assert 'name="viewport"' in page and "prefers-color-scheme:dark" in page
    # The legend has what is drawn only.
    assert "waits for a product" in page and "from shared memory" not in page


def _texts(root: ET.Element) -> list[tuple[str, float]]:
    """The texts of a drawing and how far down they stand."""
    found = (node for node in root if node.tag.endswith("text"))
    return [(node.text or "", float(node.get("y", 0))) for node in found]


def test_timeline_groups_warps_by_what_they_do() -> None:
    places = dict(_texts(ET.fromstring(_hopper().timeline.to_svg())))
    names = ["consumers", *(f"warp {i}" for i in range(8)), "producers", "warp 8", "its copies"]
    assert sorted(names, key=places.__getitem__) == names


def test_stages_that_are_under_way_at_once_do_not_cover_each_other() -> None:
    """Copies have lanes; of a warp, only a product stands on the wait for it."""
    root = ET.fromstring(_hopper().timeline.to_svg())
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for node in root:
        if node.get("class") == "stage":
            x, width = (float(node.get(name, 0)) for name in ("x", "width"))
            is_product = node.get("fill") == KINDS["product"].fill
            row = (node.get("y", ""), "product" if is_product else "")
            seen.setdefault(row, []).append((x, x + width))
    for bars in seen.values():
        bars.sort()
        # Bars that last less than a dot are drawn one dot wide.
        assert all(right <= left + 1 for (_, right), (left, _) in pairwise(bars))


def test_products_share_tensor_cores() -> None:
    """Each warp has one of four; a product takes the first time that is long enough."""
    cores = TensorCores()
    assert cores.take(0, 10.0, PRODUCT_RATE) == (10.0, 11.0)
    assert cores.take(4, 10.5, PRODUCT_RATE) == (11.0, 12.0)
    assert cores.take(1, 10.5, PRODUCT_RATE) == (10.5, 11.5)
    assert cores.take(0, 20.0, PRODUCT_RATE) == (20.0, 21.0)
    assert cores.take(8, 9.5, 8 * PRODUCT_RATE) == (12.0, 20.0)
    assert cores.take(0, 9.0, PRODUCT_RATE) == (9.0, 10.0)
    assert cores.busy[0] == [(9.0, 10.0), (10.0, 20.0), (20.0, 21.0)]


def _needs(name: str, arch: str) -> str:
    path = EXAMPLES / name
    program = Program.parse(path.read_text(), str(path))
    z = np.zeros((128, 128))
    args = {
        "matmul_hopper.mlir": [z.astype("f2"), z.astype("f2"), z.astype("f4"), 2],
        "vector_add.mlir": [np.zeros(8, "f4")] * 3,
    }[name]
    block = 384 if "hopper" in name else 128
    with pytest.raises(TileIRError) as error:
        program.launch(None, 1, args, arch=arch, options=LaunchOptions(block=block))
    assert error.value.diagnostics[0].code == "sim-architecture"
    return error.value.diagnostics[0].message


def test_architectures_lack_operations() -> None:
    assert "the first architecture that has it is sm_80" in _needs("vector_add.mlir", "sm_75")
    assert "sm_90" in _needs("matmul_hopper.mlir", "sm_89")
    for arch in ("sm_90", "sm_100a", "sm_120a"):
        message = _needs("matmul_hopper.mlir", arch)
        assert "the first architecture that has it is sm_90a" in message


def test_products_of_turing() -> None:
    body = """
    %fa = arith.constant dense<1.0> : vector<{a}x2xf16>
    %fb = arith.constant dense<1.0> : vector<{b}x2xf16>
    %fc = arith.constant dense<1.0> : vector<2x2xf32>
    %fd = nvgpu.mma.sync (%fa, %fb, %fc) {{mmaShape = [16, 8, {k}]}} : (vector<{a}x2xf16>, vector<{b}x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
    """
    assert run(body.format(a=2, b=1, k=8), arch="sm_75").completed
    with pytest.raises(TileIRError, match="sm_80"):
        run(body.format(a=4, b=2, k=16), arch="sm_75")


def test_strict_launches_raise_and_others_return() -> None:
    text = kernel("%y = memref.load %words[%tid] : memref<256xf32, 3>")
    program = Program.parse(text)
    with pytest.raises(TileIRError, match="sim-uninitialized"):
        program.launch(None, 1, [], options=LaunchOptions(block=32))
    result = program.launch(None, 1, [], options=LaunchOptions(block=32, strict=False))
    assert result.completed and len(result.errors) == 1


def test_unknown_operations_are_named() -> None:
    with pytest.raises(TileIRError, match=r"does not run 'vector\.print'"):
        run('%x = arith.constant 1.0 : f32\n"vector.print"(%x) : (f32) -> ()')


def test_printing() -> None:
    said: list[str] = []
    body = """
    %few = arith.cmpi ult, %tid, %c2 : index
    %x = arith.constant 1.5 : f32
    scf.if %few {
      gpu.printf "%d: %.1f%%\\0A" %tid, %x : index, f32
    }
    """
    run(body, print_to=said.append)
    assert said == ["0: 1.5%\n", "1: 1.5%\n"]


def test_seeds_repeat() -> None:
    """The same seed gives the same schedule."""
    runs = [_hopper().timeline.events for _ in range(2)]
    assert runs[0] == runs[1]


INT_OPS = ["addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "minsi", "minui", "maxsi", "maxui", "andi", "ori", "xori", "shli", "shrsi", "shrui", "floordivsi", "ceildivsi", "ceildivui"]  # fmt: skip


@pytest.mark.parametrize("name", INT_OPS)
@pytest.mark.parametrize(("x", "y"), [(7, 3), (-7, 3), (-(2**31), 5), (2**31 - 1, 2), (12, -5)])
def test_numbers_and_lanes_agree(name: str, x: int, y: int) -> None:
    """What all lanes share is computed apart from what they do not."""
    if name in ("shli", "shrsi", "shrui") and y < 0:
        pytest.skip("shifts by negative amounts are undefined")
    out = np.zeros((2, 32), np.int32)
    body = f"""
    %x = arith.constant {x} : i32
    %y = arith.constant {y} : i32
    %one = arith.{name} %x, %y : i32
    %zero = arith.muli %tid, %c0 : index
    %z = arith.index_cast %zero : index to i32
    %lx = arith.addi %x, %z : i32
    %many = arith.{name} %lx, %y : i32
    memref.store %one, %out[%c0, %tid] : memref<2x32xi32>
    memref.store %many, %out[%c1, %tid] : memref<2x32xi32>
    """
    assert not run(body, "%out: memref<2x32xi32>", [out]).diagnostics
    assert len(set(out.ravel().tolist())) == 1


@pytest.mark.parametrize(
    "predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
)
def test_comparisons_of_numbers_and_lanes_agree(predicate: str) -> None:
    out = np.zeros((2, 32), np.int32)
    body = f"""
    %x = arith.constant -3 : i32
    %y = arith.constant 5 : i32
    %b = arith.cmpi {predicate}, %x, %y : i32
    %one = arith.extui %b : i1 to i32
    %zero = arith.muli %tid, %c0 : index
    %z = arith.index_cast %zero : index to i32
    %lx = arith.addi %x, %z : i32
    %lb = arith.cmpi {predicate}, %lx, %y : i32
    %many = arith.extui %lb : i1 to i32
    memref.store %one, %out[%c0, %tid] : memref<2x32xi32>
    memref.store %many, %out[%c1, %tid] : memref<2x32xi32>
    """
    run(body, "%out: memref<2x32xi32>", [out])
    assert len(set(out.ravel().tolist())) == 1


def test_float_comparisons() -> None:
    values = np.array([1.0, 2.0, np.nan, -0.0], np.float32)
    names = ["false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"]  # fmt: skip
    for name in names:
        out = np.zeros(16, np.int32)
        body = f"""
        %i = arith.divui %tid, %c4 : index
        %j = arith.remui %tid, %c4 : index
        %x = memref.load %v[%i] : memref<4xf32>
        %y = memref.load %v[%j] : memref<4xf32>
        %b = arith.cmpf {name}, %x, %y : f32
        %w = arith.extui %b : i1 to i32
        memref.store %w, %out[%tid] : memref<16xi32>
        """
        run(body, "%v: memref<4xf32>, %out: memref<16xi32>", [values, out], block=16)
        x, y = np.meshgrid(values, values, indexing="ij")
        unordered = np.isnan(x) | np.isnan(y)
        base = {"eq": x == y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y}
        base |= {"ne": (x != y) & ~unordered, "no": np.zeros_like(x, bool)}
        fixed = {"false": x != x, "true": x == x, "ord": ~unordered, "uno": unordered}
        if name in ("false", "true"):
            wanted = np.full(x.shape, name == "true")
        elif name in fixed:
            wanted = fixed[name]
        else:
            wanted = base[name[1:]] | (unordered if name[0] == "u" else False)
        assert (out.reshape(4, 4) == wanted).all(), name


def test_shuffles_and_reductions() -> None:
    out = np.zeros((5, 32), np.int32)
    body = """
    %t = arith.index_cast %tid : index to i32
    %o = arith.constant 3 : i32
    %w = arith.constant 16 : i32
    %a, %ok0 = gpu.shuffle xor %t, %o, %w : i32
    %b, %ok1 = gpu.shuffle up %t, %o, %w : i32
    %c, %ok2 = gpu.shuffle down %t, %o, %w : i32
    %d, %ok3 = gpu.shuffle idx %t, %o, %w : i32
    %e = gpu.subgroup_reduce maxsi %t : (i32) -> i32
    %c3 = arith.constant 3 : index
    memref.store %a, %out[%c0, %tid] : memref<5x32xi32>
    memref.store %b, %out[%c1, %tid] : memref<5x32xi32>
    memref.store %c, %out[%c2, %tid] : memref<5x32xi32>
    memref.store %d, %out[%c3, %tid] : memref<5x32xi32>
    memref.store %e, %out[%c4, %tid] : memref<5x32xi32>
    """
    assert not run(body, "%out: memref<5x32xi32>", [out]).diagnostics
    lane = np.arange(32)
    inside = lane % 16
    assert (out[0] == (lane ^ 3)).all()
    assert (out[1] == np.where(inside >= 3, lane - 3, lane)).all()
    assert (out[2] == np.where(inside < 13, lane + 3, lane)).all()
    assert (out[3] == lane - inside + 3).all()
    assert (out[4] == 31).all()


def test_reciprocals_flush() -> None:
    x = np.array([2.0, 3.0, 1e-40, -1e-40, np.inf, -np.inf, 2.0**127, np.nan], np.float32)
    out = np.zeros(8, np.float32)
    body = """
    %v = vector.load %x[%c0] : memref<8xf32>, vector<8xf32>
    %r = nvgpu.rcp %v {rounding = approx, ftz} : vector<8xf32>
    vector.store %r, %out[%c0] : memref<8xf32>, vector<8xf32>
    """
    run(body, "%x: memref<8xf32>, %out: memref<8xf32>", [x, out], block=1)
    wanted = [0.5, np.float32(1) / np.float32(3), np.inf, -np.inf, 0.0, -0.0, 0.0]
    assert out[:7].tolist() == wanted and np.isnan(out[7]) and np.signbit(out[5])


def test_interrupts_end_a_run() -> None:
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run('gpu.printf "%d" %tid : index', print_to=interrupt)
    # The next launch is as if nothing had been.
    assert run("gpu.barrier").completed
