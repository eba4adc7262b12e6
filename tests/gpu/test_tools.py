"""Where NVIDIA's tools are looked for, and what of them a driver takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.gpu.test_launch import vector_add

from tilewright.gpu import tools
from tilewright.gpu.launch import image_of


def test_tools_of_triton_come_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton keeps ptxas and libdevice beside each other, without a toolkit around them."""
    brought = tmp_path / "triton" / "backends" / "nvidia"
    files = {end: brought / end for end in ("bin/ptxas", "bin/nvdisasm")}
    files["nvvm/libdevice/libdevice.10.bc"] = brought / "lib" / "libdevice.10.bc"
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"tool")
    places = {"triton": [tmp_path / "triton"], "nvidia": [tmp_path / "nvidia"]}
    monkeypatch.setattr(tools, "_places", places.__getitem__)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert tools._folders()[-1] == brought
    if not Path("/usr/local/cuda").exists():
        assert {end: tools.find(end) for end in files} == files
    own = tmp_path / "nvidia" / "cu13" / "bin" / "ptxas"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"tool")
    assert tools.find("bin/ptxas") == own


@pytest.mark.parametrize(
    ("ptxas", "isa", "driver", "is_ptx"),
    [
        (13050, 80, 13000, False),
        (13050, 80, 12080, True),  # a younger generation than the driver
        (12080, 80, 13050, False),
        (12040, 87, 13050, True),  # it does not know the PTX
        (None, 80, 13050, True),
    ],
)
def test_what_the_driver_gets(
    monkeypatch: pytest.MonkeyPatch, ptxas: int | None, isa: int, driver: int, is_ptx: bool
) -> None:
    monkeypatch.setattr(tools, "ptxas_version", lambda: ptxas)
    monkeypatch.setattr("tilewright.gpu.launch._assembled", lambda *args: b"machine code")
    kernel = replace(vector_add(), isa=isa)
    assert (image_of(kernel, driver) == kernel.ptx.encode() + b"\0") == is_ptx
