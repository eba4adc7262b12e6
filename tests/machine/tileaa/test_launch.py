"""Launching kernels of nv_tileaa: arguments, globals, refusals, work that is taken over."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.machine.tileaa.support import checked, f32, i32, kernel_text, launch, one

import tilewright
from tilewright import LaunchOptions, TileIRError
from tilewright.machine import Program

PTR = "!nv_tileaa.ptr<f32, 1>"
COPY = f"""
module {{
  nv_tileaa.global @seen {{value = array<i32: 5>}} : !nv_tileaa.memref<1xi32, 1>
  nv_tileaa.global @two {{value = array<f32: 1.0, 2.0>}} : !nv_tileaa.memref<2xf32, strides = [3], 1>
  nv_tileaa.func @copy(%from: {PTR}, %to: {PTR}, %factor: f32, %v: tile<2xi32>) attributes {{kernel}} {{
    %x = nv_tileaa.load %from : {PTR} -> f32
    %y = nv_tileaa.mulf %x, %factor : f32
    nv_tileaa.store %to, %y : {PTR}, f32
    %p = nv_tileaa.get_global @seen : !nv_tileaa.ptr<i32, 1>
    %one = arith.constant 1 : i32
    %n = nv_tileaa.atomic_rmw %p, %one {{rmw_mode = add}} : !nv_tileaa.ptr<i32, 1>, i32 -> i32
    nv_tileaa.print %v {{format = "%d"}} : tile<2xi32>
    nv_tileaa.return
  }}
  nv_tileaa.func @host() {{
    nv_tileaa.return
  }}
}}
"""


def refused(
    *args: object, text: str = COPY, entry: str | None = None, **options: object
) -> list[str]:
    with pytest.raises(TileIRError) as caught:
        Program(checked(text)).launch(entry, 1, args, options=LaunchOptions(**options))  # pyright: ignore[reportArgumentType]
    return [f"{d.code}: {d.message}" for d in caught.value.diagnostics]


def test_a_program_keeps_its_globals():
    program = Program(checked(COPY))
    source, target = f32(3.0), f32(0.0)
    for _ in range(2):
        result = program.launch("copy", 3, (source, target, 2.0, i32(7, 8)))
    assert target.tolist() == [6.0]
    assert program.global_array("seen").tolist() == [5 + 6]
    assert program.global_array("two").tolist() == [1.0, 0.0, 0.0, 2.0]
    assert result.text == "[7, 8]" * 3
    assert tilewright.run is not None and len(result.outputs) == 3


def test_bad_arguments_are_all_told():
    found = refused(f32(1.0), np.zeros(1), "x", i32(1, 2, 3))
    assert found == [
        f"bad-argument: argument 1 is an array of float64, but '{PTR}' takes float32",
        "bad-argument: argument 2 for 'f32' must be a real number, got str",
        "bad-argument: argument 3 must be an array of int32 or uint32 of shape (2,), got an array "
        "of int32 of shape (3,)",
    ]
    assert refused(f32(1.0)) == ["bad-argument: kernel 'copy' takes 4 arguments, got 1"]


def test_what_may_be_written_is_checked():
    array = f32(1.0, 2.0)
    found = refused(array, array[:1], 1.0, i32(1, 2))
    assert found == ["overlapping-arguments: argument 0 and argument 1 overlap in memory"]
    frozen = f32(1.0)
    frozen.flags.writeable = False
    found = refused(f32(1.0), frozen, 1.0, i32(1, 2))
    assert found == [
        "read-only-memory: argument 1 is a read-only array, but the kernel writes to it"
    ]
    Program(checked(COPY)).launch(None, 1, (frozen, f32(0.0), 1.0, i32(1, 2)))


def test_kernels_of_cuda_tile_do_not_load_the_level():
    script = (
        "import sys, tilewright\n"
        "tilewright.run(tilewright.parse('entry @k() { return }'), 'k')\n"
        "assert 'tilewright.dialects.nv_tileaa.ops' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_call_may_write_anything():
    body = f"nv_tileaa.call @f(%ptr_a) : {PTR} -> ()"
    symbols = f"nv_tileaa.func @f(%p: {PTR}) {{\n  nv_tileaa.return\n}}"
    array = f32(1.0, 2.0)
    text = kernel_text(body, {"a": array, "b": array}, {}, symbols)
    with pytest.raises(TileIRError, match="overlap in memory"):
        launch(text, array, array)
    launch(text, array, array, allow_overlap=True)


def test_kernels_are_named():
    assert refused(entry="host") == [
        "unknown-entry: expected a kernel 'host' in the module; kernels: copy"
    ]
    lone = "module {\n  nv_tileaa.func @host() {\n    nv_tileaa.return\n  }\n}"
    assert refused(text=lone) == ["unknown-entry: expected one kernel in the module; kernels: none"]


@pytest.mark.parametrize(
    "ty", ["!nv_tileaa.mem_token", "!nv_tileaa.memref<2xf32, 1>", f"tile<2x{PTR}>"]
)
def test_parameters_that_nothing_can_be_passed_for(ty: str):
    text = (
        f"module {{\n  nv_tileaa.func @k(%a: {ty}) attributes {{kernel}} {{\n"
        "    nv_tileaa.return\n  }\n}"
    )
    (found,) = refused(0, text=text)
    assert found.startswith(
        "bad-argument: argument 0 cannot be passed: arguments cannot have the type"
    )


def test_the_sanitizer_and_traces_refuse():
    module = checked(COPY)
    arguments = (f32(1.0), f32(0.0), 1.0, i32(1, 2))
    with pytest.raises(TileIRError, match="the sanitizer cannot look into kernels of that level"):
        tilewright.sanitize(module, "copy", 1, arguments)
    from tilewright.machine.inspect import Trace, run_with

    with pytest.raises(TileIRError, match="cannot look into kernels of that level"):
        run_with(module, "copy", 1, arguments, options=LaunchOptions(trace=Trace()))


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "says"),
        [
            ('%x = nv_tileaa.plugin %n {code = "c"} : i32 -> i32', "runs 'c', which"),
            ('nv_tileaa.inject_ir {language = "l", code = "c"}', "plugins={'c': ...}"),
            (
                '%x = nv_tileaa.extern_elementwise %n {symbol = "s"} : i32',
                "give a function on NumPy arrays for it, with plugins={'s': ...}",
            ),
            (
                '%x = nv_tileaa.elementwise_inline_asm %n {asm_string = "a", constraints = ""} '
                ": i32",
                "plugins={'a': ...}",
            ),
            (
                '%x = nv_tileaa.call_elementwise_intrinsic %n {intrinsic = "i"} : i32',
                "plugins={'i': ...}",
            ),
        ],
    )
    def test_code_from_elsewhere_needs_a_function(self, body: str, says: str):
        with pytest.raises(TileIRError) as caught:
            launch(kernel_text(body, {"n": one(1, np.int32)}, {}), one(1, np.int32))
        (found,) = caught.value.diagnostics
        assert found.code == "machine-unsupported" and says in found.message

    def test_recursion(self):
        symbols = "nv_tileaa.func @f() {\n  nv_tileaa.call @f() : () -> ()\n  nv_tileaa.return\n}"
        with pytest.raises(TileIRError, match="function 'f' is recursive"):
            launch(kernel_text("nv_tileaa.call @f() : () -> ()", {}, {}, symbols))

    def test_windows_of_a_convolution(self):
        body = """
%v = nv_tileaa.conv_tile %mem_a
  {conv_params = #nv_tileaa.conv_params<filter = [1], stride = [1], padding_low = [0],
     padding_high = [0], dilation = [1]>, filterSizes = array<i64: 1>, dimGroups = [[0], [1]],
   channel = 1} : !nv_tileaa.memref<2x2xf32, strides = [2, 1], 1>
    -> !nv_tileaa.tiled_view<2x2xf32, source = !nv_tileaa.memref<2x2xf32, strides = [2, 1], 1>>
"""
        array = np.zeros((2, 2), np.float32)
        with pytest.raises(TileIRError, match="the elements of the activation in the window"):
            launch(kernel_text(body, {"a": array}, {}), array)

    @pytest.mark.parametrize(
        ("params", "acc", "says"),
        [
            ("filter = [2]", "1x8x1", "expected a filter of taps"),
            ("filter = [1]", "1x4x1", "the filter fits"),
        ],
    )
    def test_convolutions_that_do_not_fit(self, params: str, acc: str, says: str):
        body = f"""
%r = nv_tileaa.conv_dot %x, %w, %c
  {{conv_params = #nv_tileaa.conv_params<{params}, stride = [1], padding_low = [0],
     padding_high = [0], dilation = [1]>, activation_layout = nwc}}
  : tile<1x8x1xf32>, tile<1x1x1xf32>, tile<{acc}xf32> -> tile<{acc}xf32>
"""
        arrays = {
            "x": np.zeros((1, 8, 1), np.float32),
            "w": np.zeros((1, 1, 1), np.float32),
            "c": np.zeros([int(n) for n in acc.split("x")], np.float32),
        }
        with pytest.raises(TileIRError, match=says):
            launch(kernel_text(body, arrays, {}), *arrays.values())


class TestPlugins:
    BODY = '%r = nv_tileaa.plugin %a {code = "f"} : tile<2xi32> -> tile<2xi32>'

    def run(self, function: object) -> np.ndarray:
        given, result = i32(1, 2), i32(0, 0)
        text = kernel_text(self.BODY, {"a": given}, {"r": result})
        launch(text, given, result, plugins={"f": function})  # pyright: ignore[reportArgumentType]
        return result

    def test_numbers_are_cast(self):
        assert self.run(lambda a: a.astype(np.int64) + 1).tolist() == [2, 3]

    def test_operands_are_read_only(self):
        with pytest.raises(ValueError, match="read-only"):
            self.run(lambda a: a.fill(0))

    @pytest.mark.parametrize(
        ("function", "says"),
        [
            (lambda a: a.astype(np.float32), "got float32 of shape"),
            (lambda a: a[:1], r"of shape \(2,\), got int32 of shape \(1,\)"),
            (lambda a: (a, a), "gave 2 results, not 1"),
        ],
    )
    def test_results_that_do_not_fit(self, function: object, says: str):
        with pytest.raises(TileIRError, match=says):
            self.run(function)


def test_views_are_known_by_value_where_they_come_through_a_call():
    source = "!nv_tileaa.memref<8xf32, strides = [1], 1>"
    view = f"!nv_tileaa.tiled_view<4xf32, source = {source}>"
    symbols = f"""
nv_tileaa.func @second(%v: {view}, %m: tile<4xi1>) -> (tile<4xf32>, tile<4xf32>, index) {{
  %one = arith.constant 1 : index
  %x = nv_tileaa.tiled_load %v[%one] : {view}, index -> tile<4xf32>
  %y = nv_tileaa.tiled_load %v[%one], %m : {view}, index, tile<4xi1> -> tile<4xf32>
  %n = nv_tileaa.get_dim_size %v {{axis = 0 : i32}} : {view} -> index
  nv_tileaa.return %x, %y, %n : tile<4xf32>, tile<4xf32>, index
}}
"""
    body = f"""
%v = nv_tileaa.block_tile %mem_a {{tileSizes = array<i64: 4>, dimGroups = [[0]],
  padding_value = nan}} : {source} -> {view}
%w = nv_tileaa.block_tile %mem_a {{tileSizes = array<i64: 4>, dimGroups = [[0]],
  traversalStrides = array<i64: 6>}} : {source} -> {view}
%r, %s, %k = nv_tileaa.call @second(%v, %m) : {view}, tile<4xi1> -> tile<4xf32>, tile<4xf32>, index
%t, %u, %l = nv_tileaa.call @second(%w, %m) : {view}, tile<4xi1> -> tile<4xf32>, tile<4xf32>, index
%sum = arith.addi %k, %l : index
%n = arith.index_cast %sum : index to i32
"""
    given, mask = np.arange(8, dtype=np.float32), np.array([1, 0, 0, 1], np.bool_)
    results = {name: f32(9, 9, 9, 9) for name in "rstu"} | {"n": one(0, np.int32)}
    text = kernel_text(body, {"a": given, "m": mask}, results, symbols)
    launch(text, given, mask, *results.values())
    assert results["r"].tolist() == [4, 5, 6, 7]
    assert results["s"].tolist() == [4, 0, 0, 7]
    assert results["t"].tolist() == [6, 7, 0, 0]
    assert results["u"].tolist() == [6, 0, 0, 0]
    assert results["n"] == 2 + 2


WORKERS = """
%one = arith.constant 1 : i32
%x = nv_tileaa.get_program_id {axis = 0 : i32} : i32
%all = nv_tileaa.get_num_programs {axis = 0 : i32} : i32
%i = arith.index_castui %x : i32 to index
%old = nv_tileaa.atomic_rmw %mem_a[%i], %one {rmw_mode = add}
  : !nv_tileaa.memref<16xi32, strides = [1], 1>, i32, index -> i32
%yes = arith.constant true
%done = scf.while (%go = %yes) : (i1) -> (i1) {
  %work = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
  %ok = nv_tileaa.is_valid_program_id %work : !nv_tileaa.program_id -> i1
  scf.if %ok {
    %y = nv_tileaa.get_program_id %work {axis = 0 : i32} : !nv_tileaa.program_id -> i32
    %j = arith.index_castui %y : i32 to index
    %n = nv_tileaa.atomic_rmw %mem_a[%j], %one {rmw_mode = add}
      : !nv_tileaa.memref<16xi32, strides = [1], 1>, i32, index -> i32
    %k = nv_tileaa.atomic_rmw %ptr_b, %one {rmw_mode = add} : !nv_tileaa.ptr<i32, 1>, i32 -> i32
  }
  scf.condition(%ok) %ok : i1
} do {
^bb0(%more: i1):
  scf.yield %more : i1
}
"""


@pytest.mark.parametrize("seed", range(6))
def test_persistent_blocks_do_all_work_once(seed: int):
    done, taken = np.zeros(16, np.int32), one(0, np.int32)
    progress: list[tuple[int, int]] = []
    text = kernel_text(WORKERS, {"a": done, "b": taken}, {})
    launch(
        text,
        done,
        taken,
        grid=16,
        seed=seed,
        progress=lambda finished, count: progress.append((finished, count)),
    )
    assert done.tolist() == [1] * 16
    assert taken > 0
    assert sorted(progress) == [(n + 1, 16) for n in range(16)]


def test_work_that_was_not_obtained_is_nowhere():
    body = """
%work = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
%r = nv_tileaa.get_program_id %work {axis = 0 : i32} : !nv_tileaa.program_id -> i32
"""
    with pytest.raises(TileIRError) as caught:
        launch(kernel_text(body, {}, {"r": one(0, np.int32)}), one(0, np.int32))
    assert caught.value.diagnostics[0].code == "invalid-program-id"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            "%i = arith.constant 4 : index\n"
            "%r = nv_tileaa.extract %a[%i] : tile<4xf32>, index -> f32",
            "slice-outside",
        ),
        (
            "%i = arith.constant -1 : i32\n"
            "%r = nv_tileaa.extract_slice %a[%i] : tile<4xf32>, i32 -> tile<2xf32>",
            "slice-outside",
        ),
        (
            "%i = arith.constant 1 : i32\n%j = arith.constant 4 : i32\n"
            "%r = nv_tileaa.make_range %i, %j : i32, i32 -> tile<4xi32>",
            "range-extent",
        ),
        (
            "%i = arith.constant 4 : index\n"
            "%r = nv_tileaa.tiled_load %mem_a[%i] "
            ": !nv_tileaa.memref<4xf32, strides = [1], 1>, index -> tile<2xf32>",
            "outside-index-space",
        ),
        (
            "%i = arith.constant 3 : index\n"
            "%r = nv_tileaa.tiled_load %mem_a[%i] {in_bounds = array<i1: true>} "
            ": !nv_tileaa.memref<4xf32, strides = [1], 1>, index -> tile<2xf32>",
            "inbounds-broken",
        ),
        (
            "%i = arith.constant dense<[0, 4]> : tile<2xindex>\n"
            "%r = nv_tileaa.gather_load %mem_a[%i] "
            ": !nv_tileaa.memref<4xf32, strides = [1], 1>, tile<2xindex> -> tile<2xf32>",
            "outside-index-space",
        ),
        (
            "%z = arith.constant 0 : i32\n%n = arith.constant 1 : i32\n"
            "%r = arith.divsi %n, %z : i32",
            "undefined-division",
        ),
    ],
)
def test_faults(body: str, code: str):
    given = f32(1, 2, 3, 4)
    with pytest.raises(TileIRError) as caught:
        launch(kernel_text(body, {"a": given}, {}), given)
    (found,) = caught.value.diagnostics
    assert found.code == code and found.line is not None
