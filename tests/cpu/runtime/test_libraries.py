"""The runtime's own native functions: compiled once for a machine."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tilewright.cpu.runtime import libraries
from tilewright.cpu.runtime.libraries import library

IR = """
declare i32 @given()
define i32 @twice() {
  %once = call i32 @given()
  %result = mul i32 %once, 2
  ret i32 %result
}
"""
GIVEN = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 21)


def _twice() -> int:
    address = ctypes.cast(GIVEN, ctypes.c_void_p).value or 0
    found = library(IR, ["twice"], {"given": address})
    return ctypes.CFUNCTYPE(ctypes.c_int32)(found.address("twice"))()


def test_code_comes_from_the_disk(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _twice() == 42
    assert len(list(own_cache.rglob("*.bin"))) == 1

    def compiled(*_: object) -> bytes:
        raise AssertionError("it was compiled again")

    monkeypatch.setattr(libraries, "compile_ir", compiled)
    assert _twice() == 42


def test_a_damaged_entry_is_replaced(own_cache: Path) -> None:
    assert _twice() == 42
    (entry,) = own_cache.rglob("*.bin")
    good = entry.read_bytes()
    entry.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert _twice() == 42
    assert entry.read_bytes() == good


def test_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "")
    assert _twice() == 42
