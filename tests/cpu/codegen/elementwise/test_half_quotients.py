"""Quotients and roots of f16 are computed in f32 also where the processor has slow instructions for them; what they give is
in ``test_elementwise``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu.compile import compile_kernel
from tilewright.cpu.runtime import engine
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa

_SLOW = cpu_target().has("avx512fp16")


def _quotient(k: Builder, x: Value) -> Value:
    return k.divf(k.constant(1.0, x.type), x)


@pytest.mark.skipif(
    not _SLOW, reason="this processor has no avx512fp16, of which the test reads the code"
)
@pytest.mark.parametrize("make", [_quotient, lambda k, x: k.sqrt(x)])
def test_they_are_computed_in_f32(make: Callable[[Builder, Value], Value]) -> None:
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f16"), "y": ptr("f16")}) as k:
        number, _, _ = k.get_tile_block_id()
        x, y = (
            k.partition(k.make_tensor_view(base, shape=[4096], strides=[1]), tile=(1024,))
            for base in (k.args.x, k.args.y)
        )
        k.store_view_tko(make(k, k.load_view_tko(x, [number])[0]), y, [number])
    target = cpu_target()
    compiled = compile_kernel(lower_to_tileaa(module.build()).module)
    parsed = engine.parse_ir(compiled.llvm_ir, target)
    engine.optimize(parsed, target)
    found = engine.emit_assembly(parsed, target)
    assert "vdivph" not in found and "vsqrtph" not in found
    assert "vdivps" in found or "vsqrtps" in found
