"""Byte for byte the text of NVIDIA's disassembler, for the exported corpus."""

from __future__ import annotations

import functools
import re

import pytest
from tests.corpus import VERSIONS, CorpusKernel, cutile_available, cutile_kernels
from tests.oracles import disassemble, requires_tileirdisasm
from tests.sampling import is_long
from xdsl.ir import Operation

from tilewright.bytecode import read
from tilewright.text import parse, print_text, same_module

pytestmark = [pytest.mark.oracle, requires_tileirdisasm]

KERNELS = cutile_kernels() if cutile_available() else ()
#: The one deliberate difference: of a literal of more than 100 elements the reference prints the
#: bytes in hexadecimal, we print the numbers.
_LONG_LITERAL = re.compile(r'<(\w+): (?:"0x[0-9A-F]+"|\[[^>]*\])>')


def without_long_literals(text: str) -> str:
    def shorten(match: re.Match[str]) -> str:
        return match.group() if match.end() - match.start() < 200 else f"<{match[1]}: long>"

    return _LONG_LITERAL.sub(shorten, text)


def some_versions(kernel: CorpusKernel) -> tuple[str, ...]:
    """The newest version and an older one, which goes round from kernel to kernel; all in a long run."""
    *older, newest = kernel.versions
    if is_long() or not older:
        return kernel.versions
    return (older[KERNELS.index(kernel) % len(older)], newest)


@pytest.mark.rotates(3, 1)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_corpus_text_is_the_reference_text(kernel: CorpusKernel) -> None:
    if kernel.refusal:
        pytest.skip("the reference tool refuses this kernel")

    @functools.cache  # Most versions have the same text.
    def parsed(text: str) -> Operation:
        return parse(text)

    for version in some_versions(kernel):
        data = kernel.export(version)
        module = read(data)
        for locations in (False, True) if version == VERSIONS[-1] else (True,):
            expected = disassemble(data, locations=locations)
            text = print_text(module, bare=True, locations=locations)
            assert without_long_literals(text) == without_long_literals(expected)
            for each in dict.fromkeys((expected, text)):
                again = parsed(each)
                again.properties["sym_name"] = module.properties["sym_name"]
                assert same_module(module, again) is None


def test_the_corpus_is_there() -> None:
    if not cutile_available():
        pytest.skip("cuda-tile is not installed")
    assert len(KERNELS) > 100
    oldest = [kernel for kernel in KERNELS if kernel.since == VERSIONS[0]]
    assert {version for kernel in oldest for version in some_versions(kernel)} == {*VERSIONS}
