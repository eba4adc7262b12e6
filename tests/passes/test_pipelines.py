"""The text of pipelines, what is wrong with it, hooks, and stock xDSL tools."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from xdsl.dialects import builtin
from xdsl.universe import Universe
from xdsl.xdsl_opt_main import xDSLOptMain

from tilewright.diagnostics import Span, TileIRError
from tilewright.dialects.cuda_tile.ops.integer import AddIOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.passes import (
    CUDA_TILE,
    PASSES,
    PIPELINES,
    PassTiming,
    parse_pipeline,
    passes_within,
    run_pipeline,
)
from tilewright.passes.base import TilePass
from tilewright.passes.dce import DeadCodeElimination
from tilewright.passes.loop_split import LoopSplit
from tilewright.text import parse, print_text

KERNEL = """entry @k(%x: tile<i32>) {
  %a = addi %x, %x : tile<i32>
  %b = addi %x, %x : tile<i32>
  %t = print_tko "%d %d", %a, %b : tile<i32>, tile<i32> -> token
  return
}
"""


def names(text: str) -> list[str]:
    return [str(each) for each in parse_pipeline(text)]


def test_levels() -> None:
    assert PIPELINES["O0"] == ()
    assert names("O1") == ["canonicalize", "cse"]
    assert names("O2") == ["canonicalize", "cse", "licm"]
    assert names("O3") == ["canonicalize", "cse", "licm", "loop-split", "canonicalize"]


def test_passes_have_their_names() -> None:
    assert all(cls.name == name and cls.__doc__ for name, cls in PASSES.items())
    members = {member for members in PIPELINES.values() for member in members}
    assert set(PASSES) >= {member.partition("{")[0] for member in members}


@pytest.mark.parametrize("name", PASSES)
def test_text_form_is_read_back(name: str) -> None:
    (single,) = parse_pipeline(name)
    assert parse_pipeline(str(single)) == [single]
    assert parse_pipeline(str(single.spec(include_default=True))) == [single]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("O0", []),
        ("fuse-fma,O1", ["fuse-fma", "canonicalize", "cse"]),
        (" cse , dce ", ["cse", "dce"]),
        ("loop-split{split-threshold=2}", ["loop-split{split_threshold=2}"]),
        ("loop-split{ split_threshold = 3 },dce", ["loop-split{split_threshold=3}", "dce"]),
        ("cse{}", ["cse"]),
    ],
)
def test_text(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "code", "place", "message"),
    [
        ("canonicalise", "unknown-pass", "canonicalise", "no pass or pipeline 'canonicalise'"),
        ("cse,licn", "unknown-pass", "licn", "'licn'"),
        ("O4", "unknown-pass", "O4", "'O4'"),
        ("cse{x=1}", "bad-pass-option", "x=1", "no option 'x'"),
        ("loop-split{threshold=1}", "bad-pass-option", "threshold=1", "no option 'threshold'"),
        (
            "loop-split{split-threshold=a}",
            "bad-pass-option",
            "split-threshold=a",
            "invalid options",
        ),
        (
            "loop-split{split-threshold=1,2}",
            "bad-pass-option",
            "split-threshold=1,2",
            "invalid options",
        ),
        ("loop-split{split-threshold}", "bad-pass-option", "split-threshold", "invalid options"),
        ("loop-split{split-threshold=-1}", "bad-pass-option", "split-threshold=-1", "negative"),
        (
            "loop-split{split-threshold=1 split-threshold=2}",
            "bad-pass-option",
            "split-threshold=2",
            "twice",
        ),
        ("O2{x=1}", "bad-pass-option", "x=1", "no pass of the pipeline 'O2' has"),
        ("cse dce", "bad-pipeline", "dce", "expected ','"),
        ("cse,,dce", "bad-pipeline", ",", "expected the name of a pass"),
        ("cse{", "bad-pipeline", "", "expected the name of an option"),
        ("cse{a=}", "bad-pipeline", "}", "expected a value"),
        ("cse;dce", "bad-pipeline", ";", "expected ','"),
    ],
)
def test_bad_text(text: str, code: str, place: str, message: str) -> None:
    with pytest.raises(TileIRError) as caught:
        parse_pipeline(text)
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert message in found.message
    assert isinstance(found.location, Span)
    assert found.location.text == place


def test_did_you_mean() -> None:
    with pytest.raises(TileIRError) as caught:
        parse_pipeline("canonicalise,loop-split{split-treshold=1}")
    helps = [d.help for d in caught.value.diagnostics]
    assert helps == ["did you mean 'canonicalize'?", "did you mean 'split-threshold'?"]


def test_hooks_and_timings() -> None:
    seen: list[str] = []
    timings: list[PassTiming] = []
    run_pipeline(
        parse(KERNEL),
        "O1",
        verify_each=True,
        before_pass=lambda each, module: seen.append(f"before {each.name}"),
        after_pass=lambda each, module: seen.append(f"after {each.name}"),
        timings=timings,
    )
    assert seen == ["before canonicalize", "after canonicalize", "before cse", "after cse"]
    assert [timing.name for timing in timings] == ["canonicalize", "cse"]
    assert all(timing.seconds > 0 for timing in timings)


def test_stop_after() -> None:
    module = parse(KERNEL)
    run_pipeline(module, "O3", after_pass=lambda each, _: each.name == "canonicalize")
    assert sum(isinstance(op, AddIOp) for op in module.walk()) == 2


def test_passes_given_as_objects() -> None:
    module = parse(KERNEL)
    run_pipeline(module, [LoopSplit(split_threshold=0), *parse_pipeline("cse")])
    assert sum(isinstance(op, AddIOp) for op in module.walk()) == 1


@pytest.mark.parametrize("name", passes_within(CUDA_TILE))
def test_module_without_tile_ir(name: str) -> None:
    with pytest.raises(TileIRError) as caught:
        run_pipeline(builtin.ModuleOp([]), name)
    (found,) = caught.value.diagnostics
    assert found.code == "no-tile-ir"
    assert name in found.message


@pytest.mark.parametrize("name", passes_within(CUDA_TILE))
def test_empty_module(name: str) -> None:
    module = ModuleOp.make()
    run_pipeline(module, name)
    assert not list(module.block.ops)


def test_a_pass_that_breaks_the_module_is_a_bug() -> None:
    class Breaking(TilePass):
        name = "breaking"

        def rewrite(self, root: object) -> None:
            adds = [op for op in module.walk() if isinstance(op, AddIOp)]
            adds[0].operands = (adds[1].result, adds[1].result)

    module = parse(KERNEL)
    with pytest.raises(TileIRError) as caught:
        run_pipeline(module, [Breaking()], verify_each=True)
    (found,) = caught.value.diagnostics
    assert found.code == "pass-broke-module"
    assert "'breaking'" in found.message
    assert found.notes


def test_invalid_input_is_not_blamed_on_a_pass() -> None:
    module = parse(KERNEL)
    adds = [op for op in module.walk() if isinstance(op, AddIOp)]
    adds[0].operands = (adds[1].result, adds[1].result)
    with pytest.raises(TileIRError) as caught:
        run_pipeline(module, [DeadCodeElimination()], verify_each=True)
    assert "pass-broke-module" not in {d.code for d in caught.value.diagnostics}


def test_unknown_operations_stay_where_they_are_allowed() -> None:
    text = KERNEL.replace("  return", '  "other.op"(%a) : (tile<i32>) -> ()\n  return')
    text = text.replace("(tile<i32>) -> ()", "(!cuda_tile.tile<i32>) -> ()")
    module = parse(text, allow_unregistered=True)
    run_pipeline(module, "O3,dce", verify_each=True, allow_unregistered=True)
    assert print_text(module).count("other.op") == 1
    with pytest.raises(TileIRError):
        run_pipeline(module, "dce", verify_each=True)


def test_universe_lists_all_passes_without_collision() -> None:
    everything = Universe.get_multiverse()
    assert {n for n in everything.all_passes if n.startswith("cuda-tile-")} == {
        f"cuda-tile-{name}" for name in passes_within(CUDA_TILE)
    }
    assert set(everything.all_passes) >= {n for n, cls in PASSES.items() if cls.RESULT is not None}


def test_stock_xdsl_opt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kernel.mlir"
    path.write_text(f"cuda_tile.module @m {{\n{KERNEL}}}\n", encoding="utf-8")
    out = StringIO()
    monkeypatch.setattr("sys.stdout", out)
    pipeline = "cuda-tile-loop-split{split-threshold=2},cuda-tile-cse"
    xDSLOptMain(args=[str(path), "-p", pipeline]).run()
    assert out.getvalue().count("addi") == 1


def test_pass_runs_below_a_builtin_module() -> None:
    text = f"builtin.module {{\ncuda_tile.module @a {{\n{KERNEL}}}\ncuda_tile.module @b {{\n{KERNEL}}}\n}}\n"
    module = parse(text)
    assert isinstance(module, builtin.ModuleOp)
    run_pipeline(module, "cse")
    assert print_text(module).count("addi") == 2
