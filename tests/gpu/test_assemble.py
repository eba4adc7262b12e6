"""Every operation, type and shape assembles for every architecture that has it, and becomes the
instruction that is meant for it; the others refuse it by name.
"""

from __future__ import annotations

import functools
import re

import pytest
from tests.gpu.kernels import Kernel, all_kernels
from tests.gpu.support import machine_codes, ptx_of, requires_nvdisasm

from tilewright.diagnostics import TileIRError
from tilewright.gpu.architectures import ARCHITECTURES, needs

#: The architectures whose machine code is looked at; the rest differ in what they may say.
CHECKED = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
KERNELS = all_kernels()


def _has(kernel: Kernel, arch: str) -> bool:
    known = ARCHITECTURES[arch]
    return needs(kernel.op).is_in(known) and known.number >= kernel.since


def _sample() -> list[tuple[Kernel, str]]:
    """Some kernels of each operation, each for one architecture that has it, which take turns."""
    found = []
    seen: dict[str, int] = {}
    for kernel in KERNELS:
        if kernel.long:
            continue
        turn = seen[kernel.op] = seen.get(kernel.op, -1) + 1
        having = [arch for arch in CHECKED if _has(kernel, arch)]
        if kernel.op.startswith("nvgpu.mma") or turn % 5 == 0:
            found.append((kernel, having[turn // 5 % len(having)]))
    return found


SAMPLE = _sample()
REST = [
    (kernel, arch)
    for kernel in KERNELS
    for arch in CHECKED
    if _has(kernel, arch) and (kernel, arch) not in SAMPLE
]


def _name(case: object) -> str:
    return case.name if isinstance(case, Kernel) else str(case)


@functools.cache
def _sample_codes(arch: str) -> dict[str, str]:
    """The machine code of the kernels that the sample has for an architecture."""
    kernels = [kernel for kernel, one in SAMPLE if one == arch]
    codes = machine_codes([kernel.text for kernel in kernels], arch)
    return dict(zip(map(_name, kernels), codes, strict=True))


@requires_nvdisasm
@pytest.mark.oracle
@pytest.mark.parametrize(("kernel", "arch"), SAMPLE, ids=_name)
def test_it_becomes_the_instruction(kernel: Kernel, arch: str) -> None:
    assert re.search(kernel.shown(arch), _sample_codes(arch)[_name(kernel)])


@requires_nvdisasm
@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize("arch", CHECKED)
def test_all_become_the_instruction(arch: str) -> None:
    kernels = [kernel for kernel, one in REST if one == arch]
    codes = machine_codes([kernel.text for kernel in kernels], arch)
    pairs = zip(kernels, codes, strict=True)
    assert [k.name for k, code in pairs if not re.search(k.shown(arch), code)] == []


#: One kernel of each operation.
ONE_EACH = list({k.op: k for k in KERNELS if not k.long and k.since == 80}.values())


@pytest.mark.parametrize("kernel", ONE_EACH, ids=_name)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_what_an_architecture_lacks_is_refused_by_name(kernel: Kernel, arch: str) -> None:
    feature = needs(kernel.op)
    if feature.is_in(ARCHITECTURES[arch]):
        assert f".target {arch}" in ptx_of(kernel.text, arch)
        return
    with pytest.raises(TileIRError) as caught:
        ptx_of(kernel.text, arch)
    (found,) = caught.value.diagnostics
    assert found.code == "gpu-architecture"
    assert f"'{kernel.op}' needs" in found.message or feature == needs(found.message.split("'")[1])
    assert f"first architecture with support is {feature.first}" in found.message
    assert found.line


@pytest.mark.parametrize("total", ["f16", "f32"])
def test_products_of_f8_are_refused_before_ada(total: str) -> None:
    (kernel,) = (k for k in KERNELS if k.name == f"mma.sync-m16n8k32-f8E5M2-{total}")
    with pytest.raises(TileIRError, match=r"f8 products.* is sm_89") as caught:
        ptx_of(kernel.text, "sm_86")
    assert caught.value.diagnostics[0].code == "gpu-architecture"
    version = {"f16": "8.7", "f32": "8.4"}[total]
    assert f".version {version}" in ptx_of(kernel.text, "sm_89")


def test_a_younger_ptx_is_asked_for_where_an_operation_needs_it() -> None:
    (fence,) = (k for k in KERNELS if k.op == "nvgpu.tma.fence.descriptor")
    (load, *_) = (k for k in KERNELS if k.op == "nvgpu.tma.async.load")
    assert ".version 8.3" in ptx_of(fence.text, "sm_90")
    assert ".version 8.0" in ptx_of(load.text, "sm_90")
