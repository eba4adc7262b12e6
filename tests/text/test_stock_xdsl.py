"""xDSL's own parser, printer and rewriters work on the dialect as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.printer import Printer
from xdsl.universe import Universe
from xdsl.xdsl_opt_main import xDSLOptMain

from tilewright.analysis.verifier import verify
from tilewright.bytecode import read, write
from tilewright.dialects import cuda_tile
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.dialects.cuda_tile.ops.core import ConstantOp
from tilewright.dialects.cuda_tile.ops.integer import AddIOp, MulIOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.passes import run_pipeline
from tilewright.text import parse, print_text, same_module

cuda_tile.load()


def stock_parse(text: str) -> ModuleOp:
    """What a stock tool reads, which finds the dialect through the entry point."""
    context = Context()
    for name, load in Universe.get_multiverse().all_dialects.items():
        if name in ("builtin", "cuda_tile"):
            context.register_dialect(name, load)
    module = Parser(context, text).parse_module()
    module.verify()
    (found,) = module.ops
    assert isinstance(found, ModuleOp)
    return found


def stock_print(module: ModuleOp, *, generic: bool) -> str:
    out = StringIO()
    printer = Printer(out, print_generic_format=generic)
    printer.print_op(BuiltinModuleOp([module.clone()]))
    return out.getvalue()


@pytest.mark.parametrize("mnemonic", OPERATIONS)
def test_examples(mnemonic: str) -> None:
    for example in OPERATIONS[mnemonic].EXAMPLES:
        module = parse(wrap(example))
        assert isinstance(module, ModuleOp)
        assert same_module(module, stock_parse(print_text(module))) is None
        assert same_module(module, stock_parse(print_text(module, generic=True))) is None
        for generic in (False, True):
            assert same_module(module, parse(stock_print(module, generic=generic))) is None


#: What the generic form must carry exactly: names, bit patterns, hints, any text in strings.
EXACT = """cuda_tile.module @"we ird" {
  global @"gé" <f32: [1.0, 0x7FC00001]> : tile<2xf32>
  entry @"k k"(%n: tile<i32>) optimization_hints=<sm_90 = {occupancy = 2}> {
    %t = print_tko "a\\22b\\0A%d", %n : tile<i32> -> token
    %u = print_tko "größer %d", %n : tile<i32> -> token
    %v = assume bounded<0, ?>, %n : tile<i32>
    %c = constant <i1: [true, false]> : tile<2xi1>
    %d = constant <f8E8M0FNU: 0xFF> : tile<f8E8M0FNU>
    %e = constant <i64: -9223372036854775808> : tile<i64>
  }
}
"""


def test_xdsl_opt_reads_the_generic_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it prints is read back; passes run, here by the tool itself, as a user calls it."""
    module = parse(EXACT)
    source = tmp_path / "exact.mlir"
    source.write_text(print_text(module, generic=True), encoding="utf-8")
    for arguments in (["--print-op-generic"], []):
        xDSLOptMain(args=[*arguments, str(source)]).run()
        assert same_module(module, parse(capsys.readouterr().out)) is None
    command = [sys.executable, "-m", "xdsl.tools.xdsl_opt", "-p", "cuda-tile-canonicalize"]
    done = subprocess.run(
        [*command, str(source)], capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    run_pipeline(module, "canonicalize")
    assert same_module(module, parse(done.stdout)) is None


NVGPU = sorted((Path(__file__).resolve().parents[2] / "examples" / "nvgpu").glob("*.mlir"))


@pytest.mark.parametrize("path", NVGPU, ids=lambda path: path.stem)
def test_xdsl_opt_reads_the_generic_form_of_threads(
    path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As docs/nvgpu.md says: without the rules of xDSL's own `gpu`, `memref` and `llvm`."""
    module = parse(path.read_text(encoding="utf-8"))
    source = tmp_path / path.name
    source.write_text(print_text(module, generic=True), encoding="utf-8")
    words = ["--allow-unregistered-dialect", "--disable-verify", "--print-op-generic", str(source)]
    # It turns rules of attributes off for the whole process, for good.
    with monkeypatch.context() as patched:
        patched.setattr(Attribute, "__post_init__", Attribute.__post_init__)
        xDSLOptMain(args=words).run()
    # xDSL writes down a default of its `llvm.call_intrinsic`.
    printed = re.sub(", fastmathFlags = #llvm.fastmath<none>", "", capsys.readouterr().out)
    again = parse(printed)
    verify(again)
    assert same_module(module, again) is None


KERNEL = """entry @double(%n: tile<i32>) {
  %two = constant <i32: 2> : tile<i32>
  %0 = muli %n, %two overflow<no_signed_wrap> : tile<i32>
  %1 = muli %0, %n : tile<i32>
  print_tko "%d", %1 : tile<i32> -> token
}
"""


class DoubleByAddition(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulIOp, rewriter: PatternRewriter) -> None:
        factor = op.rhs.owner
        if isinstance(factor, ConstantOp) and factor.constant.bits() == [2]:
            total = AddIOp.create(
                operands=[op.lhs, op.lhs],
                result_types=[op.result.type],
                properties={"overflow": op.properties["overflow"]},
            )
            rewriter.replace(op, total)


def test_rewriting_with_patterns() -> None:
    module = parse(KERNEL)
    assert isinstance(module, ModuleOp)
    assert PatternRewriteWalker(DoubleByAddition()).rewrite_module(BuiltinModuleOp([module]))
    module.detach()
    verify(module)
    assert "%0 = addi %n, %n overflow<no_signed_wrap> : tile<i32>" in print_text(module)
    assert same_module(module, read(write(module))) is None
