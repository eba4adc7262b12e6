"""Damaged text: whatever happens to a program, the parser answers with diagnostics, and soon."""

from __future__ import annotations

import random
import time
from contextlib import suppress

import pytest
from tests.text.programs import PROGRAMS

from tilewright.diagnostics import TileIRError
from tilewright.text import parse, print_text
from tilewright.text.lexer import TOKEN

DAMAGED_TEXTS = 100
LIMIT_S = 10.0
JUNK = """{ } ( ) < > [ ] " @ % # ! ^ = : , -> - % %x #a !b ^bb 0 1.5 0x 99999999999999999999 true loc(
dense< tile< cuda_tile. "x" é \0 // #x= !y= i99999 f80 tensor<99999999x8xi8> array<i1: affine_map<(
vector< tuple< {-# fused[ callsite( loop for if entry module func.func scf.if arith.constant
identities operandSegmentSizes token yield return unit none index iter_values else""".split()  # noqa: SIM905 (it is long)


def sources() -> list[str]:
    """Each program in custom and in generic form, with locations."""
    texts = list(PROGRAMS.values())
    for text in PROGRAMS.values():
        module = parse(text, allow_unregistered=True)
        texts.append(print_text(module, locations=True))
        texts.append(print_text(module, locations=True, generic=True))
    return texts


def token_spans(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    at = 0
    while True:
        match = TOKEN.match(text, at)
        assert match is not None and match.lastindex is not None
        start, at = match.span(match.lastindex)
        if start == at:
            return spans
        spans.append((start, at))


def damage(text: str, spans: list[tuple[int, int]], rng: random.Random) -> str:
    """The text with one token deleted, inserted, replaced or moved, or cut short."""
    start, end = rng.choice(spans)
    other = slice(*rng.choice(spans))
    match rng.randrange(6):
        case 0:
            return text[:start] + text[end:]
        case 1:
            return f"{text[:start]}{rng.choice(JUNK)} {text[start:]}"
        case 2:
            return text[:start] + rng.choice(JUNK) + text[end:]
        case 3:
            return text[:start] + text[other] + text[end:]
        case 4:
            return text[:start] + " " + text[other] + " " + text[start:]
        case _:
            return text[:start]


@pytest.mark.parametrize("seed", range(4))
def test_damaged_text_gives_diagnostics_only(seed: int) -> None:
    rng = random.Random(seed)
    programs = [(text, token_spans(text)) for text in sources()]
    refused = 0
    for _ in range(DAMAGED_TEXTS):
        text, spans = rng.choice(programs)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            text = damage(text, spans, rng) or "}"
            spans = token_spans(text) or [(0, 1)]
        started = time.process_time()
        try:
            module = parse(text, allow_unregistered=rng.random() < 0.5)
        except TileIRError as error:
            refused += 1
            assert error.diagnostics
            assert all(d.location is not None for d in error.diagnostics), text
        else:
            for generic in (False, True):
                print_text(module, generic=generic)
        assert time.process_time() - started < LIMIT_S, text
    assert refused > DAMAGED_TEXTS // 4


def test_damaged_bytes() -> None:
    rng = random.Random(7)
    data = sources()[0].encode()
    for _ in range(200):
        damaged = bytearray(data)
        damaged[rng.randrange(len(data))] = rng.randrange(256)
        try:
            parse(bytes(damaged))
        except TileIRError as error:
            assert error.diagnostics


GROWING = {
    "values": lambda n: "".join(f"%v{i} = iota : tile<8xi32>\n" for i in range(n)),
    "regions": lambda n: "".join(f"%v{i} = iota : tile<8xi32>\nif %c {{ }}\n" for i in range(n)),
    "aliases": lambda n: (
        f"return {{a = #x{n - 1}}} }}\n"
        + "".join(f"#x{i} = {i}\n" for i in range(n))
        + "entry @e() {"
    ),
    "one line": lambda n: "%v = iota : tile<8xi32> " + "return " * n,
    "open brackets in attributes": lambda n: "return {a = [1, " * n,
    "extents": lambda n: f"%v = iota : tile<{'1x' * 20 * n}8xi32>",
    "extents of a view": lambda n: (
        f'"x.y"() : () -> partition_view<tile=({"1x" * 20 * n}8), tensor_view<{"?x" * 20 * n}f32>>'
    ),
    "extents of a builtin type": lambda n: f"return {{a = dense<0> : tensor<{'1x' * 10 * n}i8>}}",
    "strings": lambda n: 'print_tko "abc -> token\n' * n,
}


@pytest.mark.parametrize("name", GROWING)
def test_time_grows_with_the_size_of_the_text(name: str) -> None:
    def seconds(count: int) -> float:
        text = f"entry @k(%c: tile<i1>) {{\n{GROWING[name](count)}}}"
        started = time.process_time()
        with suppress(TileIRError):
            parse(text)
        return time.process_time() - started

    small = max(min(seconds(200) for _ in range(3)), 0.002)
    # Sixteen times the text: linear time gives 16, quadratic 256.
    assert min(seconds(3200) for _ in range(2)) < 100 * small
