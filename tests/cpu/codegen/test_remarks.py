"""What the CPU machine says of its decisions, as data and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilewright.cli.main import main
from tilewright.cpu.compile import compile_kernel
from tilewright.text import parse

_VIEW = "!nv_tileaa.tiled_view<64xf32, source = !nv_tileaa.memref<?xf32, strides = [1], 1>>"
_POINTERS = "tile<64x!nv_tileaa.ptr<f32, 1>>"


def _module(body: str) -> Any:
    return parse(
        f"""
    module attributes {{nv_tileaa.compute_capability = 100 : i32}} {{
      nv_tileaa.func @k(%x: !nv_tileaa.ptr<f32, 1>, %y: !nv_tileaa.ptr<f32, 1>, %n: tile<64xi32>) attributes {{kernel}} {{
        %ps = nv_tileaa.splat %x : !nv_tileaa.ptr<f32, 1> -> {_POINTERS}
        %at = nv_tileaa.addptr %ps, %n : {_POINTERS}, tile<64xi32> -> {_POINTERS}
        %range = nv_tileaa.make_range {{start = 0, end = 64}} : tile<64xi32>
        %next = nv_tileaa.addptr %ps, %range : {_POINTERS}, tile<64xi32> -> {_POINTERS}
        %f = nv_tileaa.load %next : {_POINTERS} -> tile<64xf32>
        %qs = nv_tileaa.splat %y : !nv_tileaa.ptr<f32, 1> -> {_POINTERS}
        %to = nv_tileaa.addptr %qs, %range : {_POINTERS}, tile<64xi32> -> {_POINTERS}
        {body}
        nv_tileaa.return
      }}
    }}
    """
    )


BODIES = {
    "gather": f"""
        %v = nv_tileaa.load %at : {_POINTERS} -> tile<64xf32>
        nv_tileaa.store %to, %v : {_POINTERS}, tile<64xf32> -> ()
    """,
    "power": f"""
        %e = arith.constant dense<1.25> : tile<64xf32>
        %v = math.powf %f, %e : tile<64xf32>
        nv_tileaa.store %to, %v : {_POINTERS}, tile<64xf32> -> ()
    """,
    "buffer": f"""
        nv_tileaa.store %at, %f : {_POINTERS}, tile<64xf32> -> ()
        nv_tileaa.store %to, %f : {_POINTERS}, tile<64xf32> -> ()
    """,
    "reduction": """
        %s = nv_tileaa.reduce %f {axis = 0 : i32, identities = [0.0 : f32]} : tile<64xf32> -> f32 {
        ^bb0(%a: f32, %b: f32):
          %r = nv_tileaa.subf %b, %a : f32
          nv_tileaa.yield %r : f32
        }
        nv_tileaa.store %y, %s : !nv_tileaa.ptr<f32, 1>, f32 -> ()
    """,
    "atomic": f"""
        %o = nv_tileaa.atomic_rmw %at, %f {{rmw_mode = addf, mem_semantic = relaxed, mem_scope = gpu}}
          : {_POINTERS}, tile<64xf32> -> tile<64xf32>
    """,
}


@pytest.mark.parametrize("kind", BODIES)
def test_kinds(kind: str) -> None:
    kinds = {remark.kind for remark in compile_kernel(_module(BODIES[kind])).remarks}
    assert kind in kinds


def test_nothing_is_said_of_what_is_as_it_should_be() -> None:
    body = f"""
        %v = nv_tileaa.addf %f, %f : tile<64xf32>
        nv_tileaa.store %to, %v : {_POINTERS}, tile<64xf32> -> ()
    """
    assert compile_kernel(_module(body)).remarks == ()


def test_the_command_line_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[3] / "examples" / "softmax.tileir"
    arguments = ["compile", str(example), "--target", "cpu", "-o", str(tmp_path / "out.s")]
    assert main([*arguments, "--remarks"]) == 0
    assert "softmax.tileir:22:13: remark[buffer]: a tile is kept" in capsys.readouterr().err
    assert main(arguments) == 0
    assert "remark" not in capsys.readouterr().err
