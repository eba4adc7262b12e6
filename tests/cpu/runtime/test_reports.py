"""Prints and assertions of compiled kernels, as the runtime receives them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.runtime.hand_written import REPORT, Launch, native

from tilewright.cpu.abi import AssertSite, PrintSite, Site
from tilewright.cpu.runtime.pool import POOL, ChunkFeedback
from tilewright.cpu.runtime.reports import Reports
from tilewright.diagnostics import ByteSpan, TileIRError
from tilewright.launching.assertions import OperationSource

SOURCE = OperationSource(ByteSpan("k.tileirbc", 3, 9), ("kernel.py", 12, 4))


def report(site: Site, payload: np.ndarray, count: int, blocks: int = 1, print_to=None) -> Reports:
    launch = Launch(native(REPORT), blocks, payload, count)
    with Reports([site], launch.state, print_to) as reports:
        POOL.run(launch.state, 0, 2, ChunkFeedback())
    return reports


def payload_of(*arrays: np.ndarray) -> np.ndarray:
    parts = [a.tobytes() + bytes(-a.nbytes % 8) for a in arrays]
    return np.frombuffer(b"".join(parts), np.uint8).copy()


def test_tiles_are_printed_as_on_the_reference_machine() -> None:
    data = payload_of(
        np.array([1, -2], np.int8),
        np.array([[0.5, 2.0]], np.float16),
        np.array(7, np.int64),
        np.array([1, 0, 1], np.uint8),
    )
    operands = (("i8", (2,)), ("f16", (1, 2)), ("i64", ()), ("i1", (3,)))
    site = PrintSite("a=%d b=%.2f c=%d d=%d\n", operands, SOURCE)
    reports = report(site, data, data.nbytes)
    assert "".join(reports.printed) == "a=[1, -2] b=[[0.50, 2.00]] c=7 d=[1, 0, 1]\n"


def test_narrow_floats_pointers_and_indices() -> None:
    data = payload_of(
        np.array([0x3F80, 0xC000], np.uint16), np.array(0xABC, np.uint64), np.array([5], np.int64)
    )
    site = PrintSite("%.1f %p %d", (("bf16", (2,)), ("ptr", ()), ("index", (1,))), SOURCE)
    assert report(site, data, data.nbytes).printed == ["[1.0, -2.0] 0xabc [5]"]


def test_print_to_gets_each_text_at_once() -> None:
    got: list[str] = []
    data = payload_of(np.array(3, np.int32))
    reports = report(PrintSite("%d;", (("i32", ()),), SOURCE), data, 8, 50, got.append)
    assert got == reports.printed == ["3;"] * 50


def test_what_print_to_raises_ends_the_launch() -> None:
    def refuse(text: str) -> None:
        raise BrokenPipeError(text)

    data = payload_of(np.array(3, np.int32))
    reports = report(PrintSite("%d", (("i32", ()),), SOURCE), data, 8, 1000, refuse)
    assert isinstance(reports.error, BrokenPipeError)


def test_failures_tell_element_and_block() -> None:
    positions = np.array([1, 6], np.int64)
    reports = report(AssertSite("too large", (2, 4), SOURCE), positions, 2, blocks=3)
    found = {(failure.block, failure.index) for failure in reports.failures}
    assert found == {((x, 0, 0), index) for x in range(3) for index in ((0, 1), (1, 2))}
    assert {failure.message for failure in reports.failures} == {"too large"}
    assert {failure.source for failure in reports.failures} == {SOURCE}


def test_a_scalar_assertion_has_no_index() -> None:
    reports = report(AssertSite("no", (), SOURCE), np.array([0], np.int64), 1)
    assert [failure.index for failure in reports.failures] == [()]


def test_a_failed_check_ends_the_launch() -> None:
    site = AssertSite("the load reaches outside of its array", (4,), SOURCE, "invalid-address")
    reports = report(site, np.array([2], np.int64), 1, blocks=1000)
    assert not reports.failures
    assert isinstance(reports.error, TileIRError)
    (found,) = reports.error.diagnostics
    assert found.code == "invalid-address"
    assert found.location == SOURCE.location
    assert "kernel.py" in str(found.notes[0].location)


@pytest.mark.parametrize("count", [0, 1])
def test_launches_do_not_mix(count: int) -> None:
    texts = []
    for number in (1, 2):
        data = payload_of(np.array(number + count, np.int32))
        texts += report(PrintSite("%d", (("i32", ()),), SOURCE), data, 8).printed
    assert texts == [str(1 + count), str(2 + count)]
