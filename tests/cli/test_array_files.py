"""Files of NumPy that are not what they say: a message and exit status 2, whatever is wrong."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.cli.conftest import Command

KERNEL = "cuda_tile.module @m { entry @k(%x: tile<ptr<f32>>) { return } }"


def _npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin1")
    size = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + text + data


def _said(descr: str, shape: str) -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


HUGE = 10**15
BROKEN = {
    "empty": b"",
    "magic only": b"\x93NUMPY",
    "no length": b"\x93NUMPY\x01\x00",
    "cut header": b"\x93NUMPY\x01\x00\xff\xff{",
    "unknown version": _npy(_said("'<f4'", "(4,)"), bytes(16), b"\x09\x00"),
    "no dictionary": _npy("[1, 2]"),
    "not Python": _npy("{'descr': <<<"),
    "open brackets": _npy("(" * 9000),
    "huge": _npy(_said("'<f4'", f"({HUGE},)")),
    "huge product": _npy(_said("'<f4'", f"({HUGE}, {HUGE})")),
    "huge digits": _npy(_said("'<f4'", f"({'9' * 4000},)")),
    "huge item": _npy(_said("'<V2147483647'", "(1000000,)")),
    "negative": _npy(_said("'<f4'", "(-4,)"), bytes(16)),
    "half": _npy(_said("'<f4'", "(4,)"), bytes(10)),
    "no tuple": _npy(_said("'<f4'", "4"), bytes(16)),
    "floats as shape": _npy(_said("'<f4'", "(4.0,)"), bytes(16)),
    "no dtype": _npy(_said("'nonsense'", "(4,)"), bytes(16)),
    "odd dtype": _npy(_said("['<f4', 5]", "(4,)"), bytes(16)),
    "objects": _npy(_said("'|O'", "(4,)"), bytes(16)),
    "nothing in it": _npy(_said("'<V0'", "(4,)")),
    "many dimensions": _npy(_said("'<f4'", f"({'1, ' * 100})"), bytes(4)),
    "nul": _npy("\0" * 100),
    "latin": _npy("{'d\xe9scr': 1}"),
    "second version": _npy(_said("'<f4'", f"({HUGE},)"), b"", b"\x02\x00"),
    "third version": _npy(_said("'<f4'", f"({HUGE},)"), b"", b"\x03\x00"),
}


@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_header(command: Command, tmp_path: Path, name: str, machine: str) -> None:
    (tmp_path / "k.tileir").write_text(KERNEL)
    (tmp_path / "x.npy").write_bytes(BROKEN[name])
    ran = command("run", tmp_path / "k.tileir", "--machine", machine, "--arg", tmp_path / "x.npy")
    assert ran.status == 2, ran.err
    assert "error[" in ran.err


@pytest.mark.parametrize("name", [*BROKEN, "no zip", "cut zip"])
def test_a_broken_archive(command: Command, tmp_path: Path, name: str) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("a.npy", BROKEN.get(name, b""))
    data = {"no zip": b"PK\x03\x04 and no more", "cut zip": held.getvalue()[:-30]}
    (tmp_path / "k.tileir").write_text(KERNEL)
    (tmp_path / "x.npz").write_bytes(data.get(name, held.getvalue()))
    ran = command("run", tmp_path / "k.tileir", "--arg", f"{tmp_path / 'x.npz'}:a")
    assert ran.status == 2, ran.err


def test_bytes_changed_at_random(command: Command, tmp_path: Path) -> None:
    (tmp_path / "k.tileir").write_text(KERNEL)
    rng, whole = Random(4), io.BytesIO()
    np.save(whole, np.zeros((3, 5), np.float32))
    for _ in range(300):
        data = bytearray(whole.getvalue())
        for _ in range(rng.choice([1, 1, 2, 8])):
            data[rng.randrange(min(len(data), 128))] = rng.choice(
                [0, 32, 48, 57, 255, rng.randrange(256)]
            )
        (tmp_path / "x.npy").write_bytes(bytes(data))
        ran = command("run", tmp_path / "k.tileir", "--arg", tmp_path / "x.npy")
        assert ran.status in (0, 1, 2), (bytes(data), ran.err)


def test_grids_beyond_counting(command: Command, tmp_path: Path) -> None:
    (tmp_path / "k.tileir").write_text("cuda_tile.module @m { entry @k() { return } }")
    for machine in ("cpu", "sim:sm_90a"):
        ran = command(
            *("run", tmp_path / "k.tileir", "--machine", machine),
            *("--grid", "16777215,16777215,16777215"),
        )
        assert ran.status in (1, 2) and "grid" in ran.err


def test_a_cache_in_the_home_of_nobody(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "~nosuchuser/x")
    (tmp_path / "k.tileir").write_text("cuda_tile.module @m { entry @k() { return } }")
    assert command("run", tmp_path / "k.tileir", "--machine", "cpu").status == 0
    ran = command("cache")
    assert ran.status == 2 and "the cache is disabled" in ran.err
