"""Remarks on kernels of cuTile programs name the lines of the program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

PROGRAM = """
import numpy as np
import cuda.tile as ct

@ct.kernel
def product(a, b, c):
    total = ct.zeros((64, 64), ct.float32)
    for k in range(a.shape[1] // 64):
        left = ct.load(a, (ct.bid(0), k), (64, 64))
        right = ct.load(b, (k, ct.bid(1)), (64, 64))
        total = ct.mma(left, right, total)
    ct.store(c, (ct.bid(0), ct.bid(1)), total)

a = np.ones((64, 128), np.float16)
b = np.ones((128, 64), np.float16)
c = np.zeros((64, 64), np.float32)
ct.launch(0, (1, 1), product, (a, b, c))
"""


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("sm_90a", "program.py:11: remark[product]: wgmma"),
        ("sm_80", "program.py:11: remark[product]: mma.sync"),
    ],
)
def test_places(command: Command, tmp_path: Path, target: str, wanted: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    ran = command("compile", "--target", target, "--emit", "tileas", "--remarks", path)
    assert ran.status == 0, ran.err
    remarks = [line for line in ran.err.splitlines() if "remark[" in line]
    assert any(wanted in line for line in remarks), ran.err
    assert not [line for line in remarks if "bytecode" in line]


def test_data(command: Command, tmp_path: Path) -> None:
    path, written = tmp_path / "program.py", tmp_path / "remarks.json"
    path.write_text(PROGRAM)
    ran = command("compile", "--target", "sm_80", "--remarks-json", written, path)
    assert "mma.sync" in ran.text
    (kernel,) = json.loads(written.read_text())["kernels"]
    (product,) = (remark for remark in kernel["remarks"] if remark["kind"] == "product")
    assert kernel["kernel"] == "product"
    assert (Path(product["file"]).name, product["line"]) == ("program.py", 11)
