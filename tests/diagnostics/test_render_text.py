"""The text renderer: one golden text per shape of diagnostic."""

from __future__ import annotations

import os
import re
import time
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.diagnostics import (
    ByteSpan,
    Diagnostic,
    NamedLocation,
    Note,
    Severity,
    SourceFile,
    SourceLocation,
    Span,
    render,
)
from tilewright.diagnostics.display import display_width

KERNEL = SourceFile(
    "softmax.tileir",
    "\n" * 21
    + "    %x, %t = load_view_tko weak %inv[%i]\n"
    + "\n" * 8
    + "    store_view_tko weak %y, %outv[%j]\n",
)
BYTES = bytes(range(64))


def span_of(file: SourceFile, text: str) -> Span:
    start = file.text.index(text)
    return Span(file, start, start + len(text))


def error(message: str, location: SourceLocation | None = None, label: str = "") -> Diagnostic:
    return Diagnostic(Severity.ERROR, "some-code", message, location, label)


def shown(text: str, mark: tuple[int, int], label: str = "here", **options: int) -> str:
    """What is rendered between the headline and the summary."""
    file = SourceFile("f", text)
    lines = render([error("m", Span(file, *mark), label)], **options).split("\n")
    assert lines[0] == "error[some-code]: m"
    assert lines[-2:] == ["", "1 error"]
    return "\n".join(lines[1:-2])


def golden(text: str) -> str:
    return dedent(text).strip("\n")


def test_nothing_gives_nothing() -> None:
    assert render([]) == ""


def test_every_part_of_a_diagnostic() -> None:
    race = Diagnostic(
        Severity.ERROR,
        "race",
        "store to %out overlaps a load by another block, unordered",
        span_of(KERNEL, "store_view_tko"),
        "(2) block (3,0,0) writes out[96:128, 0:64]",
        (
            Note("(1) block (2,0,0) read out[64:128, 0:64] here", span_of(KERNEL, "load_view_tko")),
            Note("no token, atomic or scope orders (1) before (2)"),
            Note("kernel source: softmax.py:48"),
        ),
        "give each block a disjoint tile, or use an atomic with device scope",
    )
    unused = Diagnostic(Severity.WARNING, "unused", "nothing reads %t", span_of(KERNEL, "%t"))
    assert render([race, unused]) == golden("""
        error[race]: store to %out overlaps a load by another block, unordered
          --> softmax.tileir:31:5
           |
        31 |     store_view_tko weak %y, %outv[%j]
           |     ^^^^^^^^^^^^^^ (2) block (3,0,0) writes out[96:128, 0:64]
        note: (1) block (2,0,0) read out[64:128, 0:64] here
          --> softmax.tileir:22:14
           |
        22 |     %x, %t = load_view_tko weak %inv[%i]
           |              ^^^^^^^^^^^^^
           = no token, atomic or scope orders (1) before (2)
           = kernel source: softmax.py:48
        help: give each block a disjoint tile, or use an atomic with device scope

        warning[unused]: nothing reads %t
          --> softmax.tileir:22:9
           |
        22 |     %x, %t = load_view_tko weak %inv[%i]
           |         ^^

        1 error, 1 warning
        """)


def test_summary_counts_each_severity_worst_first() -> None:
    kinds = [Severity.NOTE, Severity.WARNING, Severity.ERROR, Severity.WARNING, Severity.ERROR]
    text = render([Diagnostic(kind, "c", "m") for kind in kinds])
    assert text.split("\n")[-1] == "2 errors, 2 warnings, 1 note"


def test_no_place_shows_label_and_notes_as_facts() -> None:
    diagnostic = Diagnostic(
        Severity.ERROR,
        "c",
        "first line\nsecond",
        None,
        "the label",
        (Note("a fact\nmore"),),
        "a\nb",
    )
    assert render([diagnostic]) == golden("""
        error[c]: first line
            second
          = the label
          = a fact
          |   more
        help: a
            b

        1 error
        """)


def test_context_lines_stop_at_the_ends_of_the_file() -> None:
    assert shown("one\ntwo\nthree", (4, 7), context_lines=5) == golden("""
         --> f:2:1
          |
        1 | one
        2 | two
          | ^^^ here
        3 | three
        """)


def test_span_of_two_lines_from_the_first_character_of_a_line() -> None:
    assert shown("a\n  b {\n  }\nc", (4, 11), context_lines=1) == golden("""
         --> f:2:3
          |
        1 |   a
        2 | /   b {
        3 | |   }
          | |___^ here
        4 |   c
        """)


def test_span_from_within_a_line_over_many_lines() -> None:
    text = "entry @k {\n" + "".join(f"  op{i}\n" for i in range(2, 12)) + "}"
    assert shown(text, (text.index("{"), len(text))) == golden("""
          --> f:1:10
           |
         1 |   entry @k {
           |  __________^
         2 | |   op2
         3 | |   op3
        ...
        11 | |   op11
        12 | | }
           | |_^ here
        """)


def test_span_ending_after_a_newline_stays_on_its_lines() -> None:
    assert shown("ab\ncd\nef", (1, 3)) == golden("""
         --> f:1:2
          |
        1 | ab
          |  ^ here
        """)
    assert shown("ab\ncd\nef", (0, 6)) == golden("""
         --> f:1:1
          |
        1 | / ab
        2 | | cd
          | |__^ here
        """)


@pytest.mark.parametrize("at", [6, 9])
def test_end_of_file_is_marked_after_the_last_character(at: int) -> None:
    # An offset beyond the text is held to its end.
    assert shown("ab\ncde", (at, at)).split("\n")[2:] == ["2 | cde", "  |    ^ here"]


def test_empty_lines_and_empty_files_can_be_marked() -> None:
    assert shown("ab\n\ncd", (3, 3)).split("\n")[2:] == ["2 |", "  | ^ here"]
    assert shown("ab\n", (3, 3)).split("\n")[2:] == ["2 |", "  | ^ here"]
    assert shown("", (0, 0)).split("\n") == [" --> f:1:1", "  |", "1 |", "  | ^ here"]


def test_crlf_line_ends_are_not_shown() -> None:
    text = "one\r\ntwo\r\nthree\r\n"
    assert "\r" not in shown(text, (5, 16), context_lines=1)
    assert shown(text, (5, 8)).split("\n")[2:] == ["2 | two", "  | ^^^ here"]
    # The line end itself, as an "expected an operand" would mark it.
    assert shown(text, (8, 10)).split("\n")[2:] == ["2 | two", "  |    ^ here"]


def test_tabs_move_the_carets_with_the_text() -> None:
    assert shown("\ta\tbc", (3, 5)).split("\n")[2:] == ["1 |     a    bc", "  |          ^^ here"]
    assert shown("\ta\tbc", (2, 3)).split("\n")[3] == "  |      ^^^^ here"


def test_wide_and_combining_characters_keep_the_carets_aligned() -> None:
    text = "日本 e\u0301 x"
    assert shown(text, (1, 2)).split("\n")[2:] == [f"1 | {text}", "  |   ^^ here"]
    assert shown(text, (3, 5)).split("\n")[3] == "  |      ^ here"
    assert shown(text, (4, 5)).split("\n")[3] == "  |      ^ here"
    assert shown(text, (6, 7)).split("\n")[3] == "  |        ^ here"


def test_a_label_too_wide_for_its_line_goes_below() -> None:
    label = "this label is thirty-three wide!!"
    # Forty columns, nine of them kept for the gutter.
    assert len(label) > 31
    assert shown("abcdef", (3, 4), label, width=40).split("\n")[2:] == [
        "1 | abcdef",
        "  |    ^",
        f"  | {label}",
    ]
    assert shown("abcdef", (3, 4), label, width=50).split("\n")[3:] == [f"  |    ^ {label}"]


@pytest.mark.parametrize(
    ("mark", "line", "underlined"),
    [
        ((0, 3), "012345678901234567890123456789012345678901234...", "012"),
        ((500, 503), "...901234567890123456789012345678901234567890123...", "012"),
        ((997, 1000), "...567890123456789012345678901234567890123456789", "789"),
    ],
)
def test_a_long_line_is_cut_around_the_mark(
    mark: tuple[int, int], line: str, underlined: str
) -> None:
    _, _, source, marks = shown("0123456789" * 100, mark, "", width=60).split("\n")
    assert source == f"1 | {line}"
    assert source[marks.index("^") : marks.rindex("^") + 1] == underlined


def test_a_mark_longer_than_the_screen_shows_its_beginning() -> None:
    _, _, source, marks = shown("a" * 300 + "b" * 300 + "c" * 300, (300, 600), "", width=60).split(
        "\n"
    )
    assert source.startswith("1 | ...aaaa")
    assert source.endswith("bbb...")
    assert source.index("b") == marks.index("^")
    assert source.rindex("b") == marks.rindex("^")


@pytest.mark.parametrize("filler", ["x", "\t", "日", "e\u0301", "\u0301", "\x1b"])
@pytest.mark.parametrize("position", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("length", [0, 1, 10, 3_000])
def test_source_lines_never_exceed_the_width(filler: str, position: float, length: int) -> None:
    text = filler * 4_000
    start = int(position * len(text))
    for line in shown(text, (start, start + length), width=60).split("\n"):
        assert display_width(line) <= 60


@given(
    st.text(alphabet="ab \t\r\n日\u0301\x1b\u202e", max_size=120),
    st.integers(0, 130),
    st.integers(0, 130),
    st.integers(0, 80),
    st.integers(0, 2),
)
def test_any_span_renders_within_the_width(
    text: str, start: int, end: int, width: int, context_lines: int
) -> None:
    lines = shown(text, (start, end), width=width, context_lines=context_lines).split("\n")
    assert all(display_width(line) <= max(width, 40) for line in lines)
    assert any("^" in line for line in lines)
    assert any(line.endswith("here") for line in lines)


@given(st.binary(max_size=80), st.integers(0, 90), st.integers(0, 90), st.integers(40, 100))
def test_any_byte_span_renders_within_the_width(
    data: bytes, start: int, end: int, width: int
) -> None:
    lines = hex_dump(ByteSpan("k", start, end), data, width=width).split("\n")
    assert all(display_width(line) <= width for line in lines)
    assert any("^" in line for line in lines) == (start <= len(data))
    assert any(line.endswith("here") for line in lines)


def test_a_huge_single_line_renders_fast_and_small() -> None:
    file = SourceFile("f", "abcdefghij" * 500_000)
    marks = [(0, 1), (2_500_000, 2_500_010), (10, 4_999_990), (5_000_000, 5_000_000)]
    for mark in marks:
        began = time.process_time()
        text = render([error("m", Span(file, *mark), "here")])
        assert time.process_time() - began < 0.2
        assert len(text) < 500


def test_a_span_over_a_huge_number_of_lines_is_small() -> None:
    file = SourceFile("f", "ab\n" * 300_000)
    text = render([error("m", Span(file, 0, len(file.text)), "here")])
    assert len(text.split("\n")) == 12
    assert "299999 | | ab" in text


def test_bytes_without_their_file_are_named_only() -> None:
    place = ByteSpan("k.tileirbc", 0x1F, 0x20, "function @k, op #3")
    assert render([error("unknown tag 31", place, "a type tag")]) == golden("""
        error[some-code]: unknown tag 31
         --> k.tileirbc: byte 0x1f (in function @k, op #3)
          = a type tag

        1 error
        """)


def hex_dump(place: ByteSpan, data: bytes = BYTES, **options: int) -> str:
    return "\n".join(
        render([error("m", place, "here")], binaries={"k": data}, **options).split("\n")[1:-2]
    )


def test_bytes_are_shown_as_a_hex_dump() -> None:
    assert hex_dump(ByteSpan("k", 0x1F, 0x20)) == golden("""
            --> k: byte 0x1f
             |
        0010 | 10 11 12 13 14 15 16 17  18 19 1a 1b 1c 1d 1e 1f   |................|
             |                                               ^^ here
        """)


def test_bytes_across_rows_with_context() -> None:
    assert hex_dump(ByteSpan("k", 0x1E, 0x22), context_lines=1) == golden("""
            --> k: bytes 0x1e to 0x21
             |
        0000 | 00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f   |................|
        0010 | 10 11 12 13 14 15 16 17  18 19 1a 1b 1c 1d 1e 1f   |................|
             |                                            ^^^^^
        0020 | 20 21 22 23 24 25 26 27  28 29 2a 2b 2c 2d 2e 2f   | !"#$%&'()*+,-./|
             | ^^^^^ here
        0030 | 30 31 32 33 34 35 36 37  38 39 3a 3b 3c 3d 3e 3f   |0123456789:;<=>?|
        """)


def test_bytes_on_a_narrow_screen() -> None:
    assert hex_dump(ByteSpan("k", 0x0C, 0x0D), width=60) == golden("""
            --> k: byte 0xc
             |
        0008 | 08 09 0a 0b  0c 0d 0e 0f   |........|
             |              ^^ here
        """)


@pytest.mark.parametrize(
    ("size", "row", "column"), [(64, "0030 | 30", 49), (10, "0000 | 00", 31), (0, "0000 |", 0)]
)
def test_the_end_of_a_binary_file_is_marked(size: int, row: str, column: int) -> None:
    lines = hex_dump(ByteSpan("k", size, size + 1), BYTES[:size]).split("\n")
    assert lines[0] == f"    --> k: byte 0x{size:x}"
    assert lines[2].startswith(row)
    assert lines[3] == "     | " + " " * column + "^^ here"


def test_many_bytes_are_cut_after_three_rows() -> None:
    lines = hex_dump(ByteSpan("k", 0, 1_000), bytes(1_000), context_lines=2).split("\n")
    assert len(lines) == 2 + 2 * 3 + 1
    assert lines[-1] == "..."


def test_bytes_beyond_the_given_data_are_named_only() -> None:
    assert hex_dump(ByteSpan("k", 100, 101)) == " --> k: byte 0x64\n  = here"


def test_named_place_shows_the_line_of_a_readable_file(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "kernel.py")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("import cuda.tile as ct\n\n    ct.store(out, (j,), y)\n")
    location = NamedLocation(path, 3, 5, "kernel softmax")
    assert render([error("m", location, "here")]).replace(path, "kernel.py") == golden("""
        error[some-code]: m
         --> kernel.py:3:5 (in kernel softmax)
          |
        3 |     ct.store(out, (j,), y)
          |     ^ here

        1 error
        """)
    unknown_column = render([error("m", NamedLocation(path, 3), "here")]).replace(path, "kernel.py")
    assert unknown_column == golden("""
        error[some-code]: m
         --> kernel.py:3
          |
        3 |     ct.store(out, (j,), y)
          = here

        1 error
        """)
    beyond = render([error("m", NamedLocation(path, 9, 1))]).replace(path, "kernel.py")
    assert beyond == "error[some-code]: m\n --> kernel.py:9:1\n\n1 error"


@pytest.mark.parametrize("name", ["no/such/file.py", "nul\0name", "\udcff", ".", os.devnull])
def test_named_place_without_a_readable_file_is_named_only(name: str) -> None:
    lines = render([error("m", NamedLocation(name, 3, 5))]).split("\n")
    assert len(lines) == 4
    assert lines[1].endswith(":3:5")
    lines[1].encode("utf-8")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_named_place_never_waits_for_a_pipe(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "pipe")
    os.mkfifo(path)
    assert len(render([error("m", NamedLocation(path, 1, 1))]).split("\n")) == 4


def test_place_of_unknown_line() -> None:
    assert render([error("m", NamedLocation("k.py", 0))]).split("\n")[1] == " --> k.py"


HOSTILE = "a\x1b[2Jb\x07c\x9bd\u202ee\u200bf\x7fg\ud800h"


def test_input_cannot_command_the_terminal() -> None:
    file = SourceFile(HOSTILE, HOSTILE)
    diagnostic = Diagnostic(
        Severity.ERROR, HOSTILE, HOSTILE, Span(file, 3, 4), HOSTILE, (Note(HOSTILE),), HOSTILE
    )
    text = render([diagnostic])
    assert not set(text) & set("\x1b\x07\x9b\u202e\u200b\x7f\ud800")
    assert text.count("a\u241b[2Jb\u2407c\ufffdd\ufffde\ufffdf\u2421g\ufffdh") == 7


def test_colour_changes_nothing_but_the_colour() -> None:
    file = SourceFile("f", "a\n  b {\n  日\n  }\n" + "x" * 500)
    diagnostics = [
        Diagnostic(
            Severity.ERROR,
            "c",
            "m\nmore",
            Span(file, 4, 14),
            "label",
            (Note("there", Span(file, 300, 301)), Note("fact\nmore")),
            "mend\nmore",
        ),
        Diagnostic(Severity.WARNING, "c", "m", ByteSpan("k", 3, 40), "label"),
        Diagnostic(Severity.NOTE, "c", "m"),
    ]
    for context_lines in (0, 2):
        plain = render(diagnostics, binaries={"k": BYTES}, width=70, context_lines=context_lines)
        colored = render(
            diagnostics, binaries={"k": BYTES}, width=70, context_lines=context_lines, color=True
        )
        without = re.sub(r"\x1b\[[0-9;]*m", "", colored)
        assert [line.rstrip() for line in without.split("\n")] == plain.split("\n")
        # Each sequence that sets a colour is taken back on the same line.
        for line in colored.split("\n"):
            assert line.count("\x1b[0m") * 2 == line.count("\x1b[")
    assert colored.startswith("\x1b[1;31merror[c]:\x1b[0m \x1b[1mm\x1b[0m\n")


def test_colour_does_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in render([error("m")])
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" in render([error("m")], color=True)
