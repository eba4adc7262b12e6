"""The lowering as a pass: its options, what it does to modules, and passes on the wrong level."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from tests.lowering.support import check, kernel
from xdsl.dialects import builtin
from xdsl.xdsl_opt_main import xDSLOptMain

from tilewright import cpu, machine
from tilewright.analysis.tileaa import Facts, Range
from tilewright.analysis.verifier import verify
from tilewright.diagnostics import Diagnostic, Span, TileIRError
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.lowering import TileAAOptions, lower_to_tileaa
from tilewright.lowering.tileaa.options import ARCHITECTURES
from tilewright.passes import NV_TILEAA, PASSES, parse_pipeline, run_pipeline
from tilewright.text import parse, print_text

NAME = "lower-cuda-tile-to-tileaa"
KERNEL = kernel('%t = print_tko "%f", %x : tile<f32> -> token', "%x: tile<f32>")


def problem(pipeline: str, module: ModuleOp | builtin.ModuleOp | None = None) -> Diagnostic:
    with pytest.raises(TileIRError) as caught:
        run_pipeline(module or parse(KERNEL), pipeline)
    (found,) = caught.value.diagnostics
    return found


def test_a_cuda_tile_module_becomes_a_builtin_module() -> None:
    module = parse(KERNEL)
    result = run_pipeline(module, f"cse,{NAME}", verify_each=True)
    assert isinstance(module, ModuleOp) and isinstance(result, builtin.ModuleOp)
    assert print_text(result) == print_text(lower_to_tileaa(parse(KERNEL)).module)


def test_a_builtin_module_is_changed_in_place() -> None:
    text = f"builtin.module {{\ncuda_tile.module @a {{\n{KERNEL}}}\ncuda_tile.module @b {{\n{KERNEL}}}\n}}\n"
    module = parse(text)
    assert isinstance(module, builtin.ModuleOp)
    check(module, lower_to_tileaa(module))
    result = run_pipeline(module, NAME, verify_each=True)
    assert result is module
    names = [op.sym_name.data for op in module.ops if isinstance(op, builtin.ModuleOp)]  # pyright: ignore[reportOptionalMemberAccess]
    assert names == ["a", "b"]
    assert print_text(module).count("nv_tileaa.print") == 2


def test_the_source_of_a_lowering_stays_as_it_is() -> None:
    module = parse(KERNEL)
    before = print_text(module)
    lower_to_tileaa(module)
    assert print_text(module) == before


def test_the_target_is_named_in_the_module() -> None:
    result = run_pipeline(parse(KERNEL), f"{NAME}{{target=sm_90 num-warps=8}}")
    text = print_text(result)
    assert "nv_tileaa.compute_capability = 90 : i32" in text
    assert "numWarps = 8" in text


def test_unknown_targets_list_the_known_ones() -> None:
    found = problem(f"{NAME}{{target=sm_91}}")
    assert found.code == "unknown-target" and "'sm_91'" in found.message
    assert all(name in found.help for name in ARCHITECTURES)
    assert isinstance(found.location, Span)
    with pytest.raises(TileIRError):
        TileAAOptions("default")


def test_a_block_has_warps() -> None:
    assert problem(f"{NAME}{{num-warps=0}}").code == "bad-warps"


@pytest.mark.parametrize("name", [n for n, cls in PASSES.items() if cls.LEVEL is not NV_TILEAA])
def test_passes_on_cuda_tile_refuse_what_is_lowered(name: str) -> None:
    module = run_pipeline(parse(KERNEL), NAME)
    found = problem(name, module)
    assert found.code == "no-tile-ir"
    assert name in found.message and "nv_tileaa" in found.message


@pytest.mark.parametrize("name", [n for n, cls in PASSES.items() if cls.LEVEL is NV_TILEAA])
def test_passes_on_nv_tileaa_refuse_what_is_not_lowered(name: str) -> None:
    found = problem(name)
    assert found.code == "no-nv-tileaa"
    assert name in found.message and NAME in found.help


def test_formats_that_the_target_lacks_are_refused() -> None:
    text = kernel("%e = ftof %x rounding<zero> : tile<f32> -> tile<f8E8M0FNU>", "%x: tile<f32>")
    with pytest.raises(TileIRError) as caught:
        run_pipeline(parse(text, "k.tileir"), f"{NAME}{{target=sm_90}}")
    (found,) = caught.value.diagnostics
    assert found.code == "aa-target" and isinstance(found.location, Span)
    verify(run_pipeline(parse(text), f"{NAME}{{target=sm_100}}"))


def test_stock_xdsl_opt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kernel.mlir"
    path.write_text(f"cuda_tile.module @m {{\n{KERNEL}}}\n", encoding="utf-8")
    out = StringIO()
    monkeypatch.setattr("sys.stdout", out)
    xDSLOptMain(args=[str(path), "-p", f"{NAME}{{target=sm_90}}"]).run()
    assert "nv_tileaa.print" in out.getvalue()
    assert "cuda_tile" not in out.getvalue()


def test_a_promised_grid_is_known_and_kept() -> None:
    """The promise bounds program ids, and a launch over another grid is refused."""
    source = """
    cuda_tile.module @m { entry @k(%p: tile<ptr<i32>>) {
      %x, %y, %z = get_tile_block_id : tile<i32>
      %at = offset %p, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %t = store_ptr_tko weak %at, %x : tile<ptr<i32>>, tile<i32> -> token
      return
    } }
    """
    module = run_pipeline(parse(source), "lower-cuda-tile-to-tileaa{grid=4}")
    text = print_text(module)
    assert "nv_tileaa.launch_grid = array<i64: 4, 1, 1>" in text
    again = parse(text)
    function = next(op for op in again.walk() if isinstance(op, FuncOp))
    (identity,) = [op for op in function.walk() if op.name == "nv_tileaa.get_program_id"][:1]
    assert Facts(function).ranges.of(identity.results[0]) == Range(0, 3)
    out = np.zeros(4, np.int32)
    for program in (machine.Program(again), cpu.Program(again)):
        program.launch("k", 4, [out])
        assert out.tolist() == [0, 1, 2, 3]
        with pytest.raises(TileIRError, match="was lowered for a grid of"):
            program.launch("k", 3, [out])


@pytest.mark.parametrize("grid", ["0", "1,2,3,4"])
def test_a_grid_that_is_none(grid: str) -> None:
    with pytest.raises(TileIRError, match="expected one to three extents"):
        parse_pipeline(f"lower-cuda-tile-to-tileaa{{grid={grid}}}")
