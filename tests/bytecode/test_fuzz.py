"""Broken files: whatever the bytes, reading ends soon, with a module or a diagnostic."""

from __future__ import annotations

import contextlib
import gc
import random
import time
import tracemalloc
from functools import cache

import pytest
from tests.bytecode.files import EXAMPLE, join, split
from tests.bytecode.modules import sample_module, simple_module

from tilewright.bytecode import read, write
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.dialects.versions import BYTECODE_VERSIONS, Version, format_version

ROUNDS = 100
#: Generous against slow machines; a read of any of these files takes milliseconds.
MOST_SECONDS = 5.0
INTERESTING = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF)


@cache
def small_file(version: Version, seed: int) -> bytes:
    return write(sample_module(version, seed), version)


def seeds() -> list[tuple[str, bytes]]:
    found = [("example", EXAMPLE), ("empty", write(ModuleOp.make())), ("k", write(simple_module()))]
    for version in BYTECODE_VERSIONS:
        for seed in (0, 1):
            name = f"{format_version(version)}-{seed}"
            found.append((name, small_file(version, seed)))
    return found


def mutate(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out)) if out else 0
        kind = rng.randrange(6)
        if kind == 0 and out:
            out[at] = rng.randrange(256)
        elif kind == 1 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2 and out:
            out[at] = rng.choice(INTERESTING)
        elif kind == 3:
            del out[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            out[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            start = rng.randrange(len(out) + 1)
            out[at:at] = out[start : start + rng.randrange(1, 9)]
    return bytes(out)


def check(data: bytes) -> bool:
    """Whether the bytes are a module after all; then it can be written and read again."""
    version = (data[8], data[9]) if len(data) > 9 else (0, 0)
    try:
        module = read(data)
    except TileIRError as error:
        assert error.diagnostics
        return False
    again = write(module, version)
    assert write(read(again), version) == again
    return True


@pytest.mark.parametrize(("name", "data"), seeds(), ids=lambda v: v if isinstance(v, str) else "")
def test_mutated_files(name: str, data: bytes) -> None:
    rng = random.Random(name)
    for _ in range(ROUNDS):
        broken = mutate(data, rng)
        started = time.process_time()
        check(broken)
        assert time.process_time() - started < MOST_SECONDS


@pytest.mark.parametrize(("name", "data"), seeds(), ids=lambda v: v if isinstance(v, str) else "")
def test_mutated_sections_in_a_whole_envelope(name: str, data: bytes) -> None:
    """The envelope stays sound, so that mutations reach what is inside."""
    rng = random.Random(name)
    sections = split(data)
    version = (data[8], data[9])
    readable = 0
    for _ in range(ROUNDS):
        chosen = rng.randrange(len(sections))
        broken = [
            (number, mutate(payload, rng) if index == chosen else payload)
            for index, (number, payload) in enumerate(sections)
        ]
        readable += check(join(broken, version))
    assert readable < ROUNDS


@pytest.mark.parametrize("version", BYTECODE_VERSIONS, ids=format_version)
def test_every_truncation(version: Version) -> None:
    data = small_file(version, 0)
    rng = random.Random(0)
    sizes = sorted({*range(64), *(rng.randrange(len(data)) for _ in range(200))})
    for size in sizes:
        with pytest.raises(TileIRError):
            read(data[:size])


def test_memory_stays_in_proportion() -> None:
    """Counts in broken files allocate nothing that the file does not pay for."""
    data = small_file((13, 5), 0)
    sections = split(data)
    rng = random.Random(5)
    read(data)
    tracemalloc.start()
    try:
        sound = peak_of_reading(data)
        for _ in range(ROUNDS // 10):
            chosen = rng.randrange(len(sections))
            broken = [
                (number, mutate(payload, rng) if index == chosen else payload)
                for index, (number, payload) in enumerate(sections)
            ]
            assert peak_of_reading(join(broken, (13, 5))) < 2 * sound + 2**18
    finally:
        tracemalloc.stop()


def peak_of_reading(data: bytes) -> int:
    """The most bytes that reading holds at a time, above what is held already."""
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    with contextlib.suppress(TileIRError):
        read(data)
    return tracemalloc.get_traced_memory()[1] - before
