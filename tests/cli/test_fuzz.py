"""Damaged files through the whole command: an answer, soon, and outputs whole or not at all."""

from __future__ import annotations

import random
import time
from functools import cache
from pathlib import Path

import pytest
from tests.bytecode.modules import sample_module
from tests.bytecode.test_fuzz import mutate
from tests.text.test_mutations import damage, token_spans

from tilewright.bytecode import write
from tilewright.cli.exits import Exit
from tilewright.dialects.versions import BYTECODE_VERSIONS
from tilewright.text import parse

from .conftest import Command, Ran

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 60
LONG_ROUNDS = 6000
#: Generous against busy machines; a run of any of these files takes milliseconds.
MOST_SECONDS = 20.0
#: A piece of a long file is damaged instead of the file.
MOST_CHARACTERS = 5000

COMMANDS = (
    ("check", "-"),
    ("check", "--format", "json", "--allow-unregistered", "-"),
    ("check", "--warn-hints", "-"),
    ("dis", "-g", "-"),
    ("dis", "--generic", "-"),
    ("dis", "--no-verify", "-"),
    ("opt", "-O3", "-"),
    ("opt", "-O2", "--generic", "--verify-each", "-"),
    ("as", "-", "-o", "{out}"),
    ("as", "-", "-o", "{out}", "--bytecode-version", "13.1"),
)


@cache
def texts() -> list[str]:
    folders = ("examples", "tests/verifier/cases", "tests/passes/cases")
    files = [path for folder in folders for path in sorted((ROOT / folder).glob("*.tileir"))]
    assert len(files) > 40
    return [path.read_text(encoding="utf-8") for path in files]


@cache
def binaries() -> list[bytes]:
    examples = sorted((ROOT / "examples").glob("*.tileir"))
    kernels = [parse(path.read_text(encoding="utf-8")) for path in examples]
    samples = [write(sample_module(version, 0), version) for version in BYTECODE_VERSIONS]
    return [*map(write, kernels), *samples]


def damaged(rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        return mutate(rng.choice(binaries()), rng)
    text = rng.choice(texts())
    start = rng.randrange(max(1, len(text) - MOST_CHARACTERS))
    text = text[start : start + MOST_CHARACTERS]
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        text = damage(text, token_spans(text) or [(0, 0)], rng) or "}"
    return text.encode("utf-8", "surrogatepass")


def check(ran: Ran, words: tuple[str, ...], target: Path) -> None:
    assert ran.status in (Exit.OK, Exit.FINDINGS), ran.err
    assert (ran.status == Exit.OK) == ("error[" not in ran.err + ran.text) or "json" in words
    if words[0] == "as":
        assert target.exists() == (ran.status == Exit.OK)
    elif words[0] != "check":
        assert ran.status == Exit.OK or not ran.out


def fuzz(command: Command, folder: Path, seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    refused = 0
    for number in range(rounds):
        data, words, target = damaged(rng), rng.choice(COMMANDS), folder / f"{number}.tileirbc"
        started = time.process_time()
        ran = command(*(word.format(out=target) for word in words), stdin=data)
        assert time.process_time() - started < MOST_SECONDS, data
        check(ran, words, target)
        refused += ran.status == Exit.FINDINGS
    assert rounds // 10 < refused < rounds


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files(command: Command, tmp_path: Path, seed: int) -> None:
    fuzz(command, tmp_path, seed, ROUNDS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_damaged_files(command: Command, tmp_path: Path, seed: int) -> None:
    fuzz(command, tmp_path, seed, LONG_ROUNDS)
