"""How many warps a block gets; memory of rings between iterations of the loop around them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.softmax_loops import Loop

from tilewright import LaunchOptions
from tilewright.dialects.nv_tileas.agents import AgentSwitchOp
from tilewright.dialects.upstream.gpu import kernels as gpu_kernels
from tilewright.gpu.tiles import TileProgram as GpuProgram
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse


def product(rows: int, columns: int, hints: str = "", sums: str = "f32") -> str:
    """c = the sum over ``steps`` of rows x 32 times 32 x columns."""
    a, b, c = (rows, 32, "f16"), (32, columns, "f16"), (rows, columns, sums)
    ty = f"tile<{rows}x{columns}x{sums}>"
    text = K.entry(
        {"a": a, "b": b, "c": c},
        f"  %nothing = constant <{sums}: 0.0> : {ty}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({ty}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("r", "b", "%s, %zero", b)
        + f"    %next = mmaf %l, %r, %acc : tile<{rows}x32xf16>, tile<32x{columns}xf16>, {ty}\n"
        f"    continue %next : {ty}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c),
    )
    return text.replace(") {\n", f") {hints} {{\n", 1)


def with_residual(rows: int, columns: int) -> str:
    """The same, to which a tile of d is added that is widened before."""
    ty = f"tile<{rows}x{columns}xf32>"
    d = (rows, columns, "f16")
    body = (
        K.load("rest", "d", "%zero, %zero", d)
        + f"  %wide = ftof %rest : tile<{rows}x{columns}xf16> -> {ty}\n"
        + f"  %twice = addf %sum, %sum : {ty}\n  %whole = addf %twice, %wide : {ty}\n"
    )
    text = product(rows, columns)
    view = K.entry({"d": d}, "").split("%even = ")[1].split("\n", 1)[1].rsplit("  return")[0]
    text = text.replace("entry @k(", "entry @k(%d: tile<ptr<f16>>, ")
    text = text.replace("  %nothing", view + "  %nothing", 1)
    before, end = text.split("  %c_d = ", 1)
    return before + body + "  %c_d = " + end.replace("%sum", "%whole", 1)


def sums_of_sums(rows: int, columns: int) -> str:
    """Each round's product has sums of its own, which are added to those before."""
    text = product(rows, columns)
    ty = f"tile<{rows}x{columns}xf32>"
    old, new = "%next = mmaf %l, %r, %acc :", "%part = mmaf %l, %r, %nothing :"
    assert old in text
    text = text.replace(old, new)
    return text.replace(
        "    continue %next", f"    %next = addf %acc, %part : {ty}\n    continue %next", 1
    )


def biased(rows: int, columns: int) -> str:
    """The sums of each iteration meet a tile that the iteration loads."""
    d, ty = (rows, columns, "f16"), f"tile<{rows}x{columns}xf32>"
    text = sums_of_sums(rows, columns)
    view = K.entry({"d": d}, "").split("%even = ")[1].split("\n", 1)[1].rsplit("  return")[0]
    text = text.replace("entry @k(", "entry @k(%d: tile<ptr<f16>>, ")
    text = text.replace("  %nothing", view + "  %nothing", 1)
    met = K.load("rest", "d", "%zero, %s", d)
    met += f"    %wide = ftof %rest : tile<{rows}x{columns}xf16> -> {ty}\n"
    met += f"    %met = addf %part, %wide : {ty}\n    %next = addf %acc, %met"
    return text.replace("    %next = addf %acc, %part", met, 1)


def elementwise(width: int) -> str:
    ty = (64, width, "f32")
    tile = f"tile<64x{width}xf32>"
    body = K.load("l", "a", "%zero, %zero", ty) + f"  %s = addf %l, %l : {tile}\n"
    return K.entry({"a": ty, "c": ty}, body + K.store("s", "c", "%zero, %zero", ty))


def scanned(width: int) -> str:
    """The running sums of rows of 64."""
    ty, tile = (64, width, "f32"), f"tile<64x{width}xf32>"
    body = K.load("l", "a", "%zero, %zero", ty)
    body += f"  %s = scan %l dim=1 reverse=false identities=[0.0 : f32] : {tile} -> {tile}\n"
    body += "  (%x: tile<f32>, %y: tile<f32>) {\n    %z = addf %x, %y : tile<f32>\n    yield %z : tile<f32>\n  }\n"
    return K.entry({"a": ty, "c": ty}, body + K.store("s", "c", "%zero, %zero", ty))


def rounded(rows: int, columns: int, depth: int) -> str:
    """c = a x b of f32, which threads round to tf32."""
    a, b, c = (rows, depth, "f32"), (depth, columns, "f32"), (rows, columns, "f32")
    ty = f"tile<{rows}x{columns}xf32>"
    tf = {name: f"tile<{m}x{n}xtf32>" for name, (m, n, _) in (("l", a), ("r", b))}
    return K.entry(
        {"a": a, "b": b, "c": c},
        f"  %nothing = constant <f32: 0.0> : {ty}\n"
        f"  %sum = for %s in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %nothing) -> ({ty}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("r", "b", "%s, %zero", b)
        + "".join(
            f"    %{name}t = ftof %{name} : tile<{m}x{n}xf32> -> {tf[name]}\n"
            for name, (m, n, _) in (("l", a), ("r", b))
        )
        + f"    %next = mmaf %lt, %rt, %acc : {tf['l']}, {tf['r']}, {ty}\n"
        f"    continue %next : {ty}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c),
    )


def threads(text: str, arch: str = "sm_90a") -> int:
    """The threads of a block that hold tiles."""
    program = TileProgram(parse(text), arch)
    module = program.threads()
    (func,) = (op for op in module.walk() if isinstance(op, gpu_kernels.FuncOp))
    assert program.fallbacks == {}
    scheduled = program._lowered.scheduled("k").module  # pyright: ignore[reportPrivateUsage]
    for op in scheduled.walk():
        if isinstance(op, AgentSwitchOp):
            return 32 * op.warps[0]
    return func.attributes["gpu.known_block_size"].get_values()[0]  # pyright: ignore[reportAttributeAccessIssue]


FOUR = "optimization_hints = <sm_90 = {num_worker_warps_per_cta = 4}>"


@pytest.mark.parametrize(
    ("text", "arch", "wanted"),
    [
        (product(64, 64), "sm_90a", 128),
        (product(128, 128), "sm_90a", 128),
        (product(128, 256), "sm_90a", 256),
        (product(256, 128), "sm_80", 256),
        (with_residual(128, 128), "sm_90a", 256),
        (with_residual(64, 64), "sm_90a", 128),
        (sums_of_sums(128, 128), "sm_90a", 256),
        (sums_of_sums(64, 128), "sm_90a", 128),
        (sums_of_sums(64, 64), "sm_80", 128),
        (biased(64, 128), "sm_90a", 256),
        (biased(64, 64), "sm_90a", 128),
        (product(128, 256, FOUR), "sm_90a", 128),
        (product(128, 256, FOUR), "sm_80", 256),
        (rounded(64, 256, 64), "sm_80", 256),
        (rounded(64, 128, 64), "sm_80", 128),
        (elementwise(64), "sm_80", 128),
        (elementwise(512), "sm_80", 256),
        (scanned(128), "sm_80", 128),
        (scanned(256), "sm_80", 256),
        (elementwise(256), "sm_80", 128),
    ],
)
def test_warps_follow_from_what_threads_hold(text: str, arch: str, wanted: int) -> None:
    """128 registers of a thread at most for sums, for the widest tile, and for both that a scan holds; a hint comes first."""
    assert threads(text, arch) == wanted


def around(loop: str, text: str) -> str:
    """The text with its loop made another one: over blocks, or over every other part of the depth."""
    blocks = "  %gx, %gy, %gz = get_num_tile_blocks : tile<i32>\n"
    before, rest = text.split("  %nothing", 1)
    if loop == "split":
        return before + blocks + "  %nothing" + rest.replace("step %one", "step %gx", 1)
    head, store = rest.split("  %c_d = ", 1)
    of_all = "  for %o in (%zero to %two, step %gx) : tile<i32> {\n"
    store, end = store.split("\n", 1)
    inner = f"  %c_d = {store}\n    continue\n  }}\n{end}"
    head, made = head.split("  %sum = ", 1)
    return f"{before}{blocks}  %nothing{head}{of_all}  %sum = {made}{inner}"


def warps_remark(text: str, arch: str) -> str:
    """What is said of the number of warps."""
    (found,) = [r.message for r in GpuProgram(parse(text), arch).remarks() if r.kind == "warps"]
    return found


@pytest.mark.parametrize(
    ("loop", "arch", "wanted"),
    [
        ("plain", "sm_80", "4 warps: modelled on A100"),
        ("split", "sm_80", "4 warps: modelled on A100"),
        ("split", "sm_90a", "4 warps: modelled on H100"),
        ("blocks", "sm_90a", "8 warps: modelled on H100"),
        ("blocks", "sm_80", "8 warps: a persistent loop needs registers, too"),
        ("plain", "sm_120a", "4 warps: modelled on GeForce RTX 5090"),
    ],
)
def test_where_registers_leave_the_choice_the_model_is_asked(
    loop: str, arch: str, wanted: str
) -> None:
    """Sums that take all of the registers that they may, of 4 warps. A loop whose step is the grid is one over blocks only
    where sums begin anew in it."""
    text = product(128, 128) if loop == "plain" else around(loop, product(128, 128))
    found = warps_remark(text, arch)
    assert found.startswith(wanted)
    assert threads(text, arch) == 32 * int(found[0])
    if "modelled" in found:
        assert "clocks per iteration" in found and "; 8: " in found
    assert warps_remark(text, arch) == found


def test_eight_warps_compute_the_same() -> None:
    text = product(128, 256)
    given = K.arguments(text, 3)
    a, b = (matrix.astype(np.float64) for matrix in given[:2])
    TileProgram(parse(text), "sm_90a").launch("k", 1, given, LaunchOptions(seed=1))
    np.testing.assert_allclose(given[2][:128], a[:128, :96] @ b[:96], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loop", ["plain", "split"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_four_warps_with_all_sums_compute_the_same(loop: str, arch: str) -> None:
    text = product(128, 128) if loop == "plain" else around(loop, product(128, 128))
    given = K.arguments(text, 3)
    a, b = (matrix.astype(np.float64) for matrix in given[:2])
    TileProgram(parse(text), arch).launch("k", 1, given, LaunchOptions(seed=1))
    expected = a[:128, :96] @ b[:96, :128]
    np.testing.assert_allclose(given[2][:128, :128], expected, rtol=1e-3, atol=1e-3)


def nested_stores() -> str:
    """For both values of o: c(o) = the sum over ``steps`` of a(o, s) times b(s), in f16."""
    a, b, c = (64, 64, "f16"), (64, 64, "f16"), (64, 64, "f16")
    ty = "tile<64x64xf32>"
    return K.entry(
        {"a": a, "b": b, "c": c},
        f"  %nothing = constant <f32: 0.0> : {ty}\n"
        "  for %o in (%zero to %two, step %one) : tile<i32> {\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({ty}) {{\n"
        + K.load("l", "a", "%o, %s", a)
        + K.load("r", "b", "%s, %zero", b)
        + f"    %next = mmaf %l, %r, %acc : tile<64x64xf16>, tile<64x64xf16>, {ty}\n"
        f"    continue %next : {ty}\n  }}\n"
        f"  %half = ftof %sum : {ty} -> tile<64x64xf16>\n"
        + K.store("half", "c", "%o, %zero", c)
        + "    continue\n  }\n",
    )


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_a_ring_lends_its_memory_between_rounds(arch: str, steps: int) -> None:
    """What leaves the inner loop changes its layout where the ring lies, unless copies by TMA go on there;
    no order of warps sees a race."""
    text = nested_stores()
    program = TileProgram(parse(text), arch)
    for seed in range(4):
        given = K.arguments(text, steps)
        a, b = (matrix.astype(np.float64) for matrix in given[:2])
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        expected = a[:128, : 64 * steps] @ b[: 64 * steps, :64]
        np.testing.assert_allclose(given[2][:128, :64], expected, rtol=2e-2, atol=2e-2)
    assert program.fallbacks == {}
    (func,) = (op for op in program.threads().walk() if isinstance(op, gpu_kernels.FuncOp))
    shared = func.body.blocks[0].args[-1].type
    ring = 3 * 2 * 64 * 64 * 2
    size = shared.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
    assert size == ring if arch == "sm_80" else size > ring


def of_doubles(width: int, element: str) -> str:
    """c = a function of a, of its logarithm and of its root, which are all needed at the end."""
    ty, tile = (1, width, element), f"tile<1x{width}x{element}>"
    body = (
        K.load("l", "a", "%zero, %zero", ty)
        + f"  %m = mulf %l, %l : {tile}\n  %n = addf %m, %l : {tile}\n"
        f"  %log = log %n : {tile}\n  %exp = exp %m : {tile}\n  %tanh = tanh %log : {tile}\n"
        f"  %s = addf %log, %exp : {tile}\n  %t = addf %s, %tanh : {tile}\n"
        f"  %u = addf %t, %m : {tile}\n  %v = addf %u, %n : {tile}\n  %w = addf %v, %l : {tile}\n"
    )
    return K.entry({"a": ty, "c": ty}, body + K.store("w", "c", "%zero, %zero", ty))


@pytest.mark.parametrize(
    ("width", "element", "warps"), [(1024, "f64", 8), (512, "f64", 4), (1024, "f32", 4)]
)
def test_functions_of_f64_have_registers(width: int, element: str, warps: int) -> None:
    """Each is a long chain of instructions, beside which threads hold the other tiles: more warps hide it."""
    text = of_doubles(width, element)
    assert threads(text, "sm_90a") == 32 * warps
    remarks = GpuProgram(parse(text), "sm_90a").remarks()
    said = [found.message for found in remarks if found.kind == "warps"]
    assert bool(said) == (warps != 4) and all("around f64 functions" in line for line in said)


@pytest.mark.parametrize(
    ("rows", "arch", "wanted"), [(64, "sm_90a", 4), (128, "sm_90a", 8), (64, "sm_80", 8)]
)
def test_warpgroups_without_rows_of_their_own(rows: int, arch: str, wanted: int) -> None:
    """Of attention with 64 rows a second warpgroup would have columns of both products, between which the scores would go
    through shared memory: 144 accumulators of a thread are taken instead."""
    program = TileProgram(parse(Loop(rows, 32, 256).text()), arch)
    remarks = program._lowered.scheduled("k").remarks  # pyright: ignore[reportPrivateUsage]
    (warps,) = [remark.message for remark in remarks if remark.kind == "warps"]
    assert warps.startswith(f"{wanted} warps: ")
