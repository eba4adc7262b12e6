"""Reading: the worked example, what is tolerated, and what is refused and how."""

from __future__ import annotations

import struct

import pytest
from tests import oracles
from tests.bytecode import files
from tests.bytecode.files import (
    EXAMPLE,
    F32,
    I1,
    I32,
    RETURN,
    ROW,
    SIGNATURE,
    STRING,
    TILE_I32,
    TOKEN,
    TYPES,
    join,
    kernel,
    split,
    table,
    varint,
)

from tilewright.bytecode import is_bytecode, read, write
from tilewright.bytecode.format import MAX_REGION_DEPTH
from tilewright.diagnostics import ByteSpan, Diagnostic, TileIRError, find_code
from tilewright.dialects.cuda_tile.constants import FloatBitsAttr, TileConstantAttr
from tilewright.dialects.cuda_tile.debug_info import CallSiteAttr, DILocAttr
from tilewright.dialects.cuda_tile.ops.integer import AddIOp
from tilewright.dialects.cuda_tile.ops.misc import PrintTkoOp
from tilewright.text import same_module


def refusal(data: bytes) -> Diagnostic:
    """The one error that reading gives."""
    with pytest.raises(TileIRError) as caught:
        read(data, "bad.tileirbc")
    (found,) = caught.value.diagnostics
    assert isinstance(found.location, ByteSpan)
    assert found.location.file_name == "bad.tileirbc"
    assert 0 <= found.location.offset <= found.location.end <= len(data)
    code = find_code(found.code)
    assert code is not None and code.summary
    return found


def refused(data: bytes, code: str, *words: str) -> Diagnostic:
    found = refusal(data)
    assert found.code == code, found.brief()
    for word in words:
        assert word in found.message, found.message
    return found


def constant_of(blob: bytes, ty: int, types: tuple[bytes, ...] = TYPES) -> bytes:
    """A kernel with one constant."""
    body = b"\x10" + varint(ty) + b"\x00" + RETURN
    return kernel(body, types=types, constants=[blob])


def test_the_worked_example() -> None:
    assert is_bytecode(EXAMPLE)
    module = read(EXAMPLE)
    entry = module.entry("k")
    add, _ = entry.block.ops
    assert isinstance(add, AddIOp)
    assert add.properties["overflow"].data == "no_signed_wrap"  # pyright: ignore
    assert list(add.operands) == [entry.block.args[0]] * 2


def test_the_helpers_make_the_worked_example() -> None:
    assert join(split(EXAMPLE)) == EXAMPLE


@pytest.mark.parametrize("size", range(len(EXAMPLE)))
def test_every_truncation_is_refused(size: int) -> None:
    refusal(EXAMPLE[:size])


class TestEnvelope:
    @pytest.mark.parametrize("data", [b"", b"\x7f", b"cuda_tile.module @k {}", b"\x00" * 100])
    def test_other_files(self, data: bytes) -> None:
        assert not is_bytecode(data)
        refused(data, "bytecode-magic")

    @pytest.mark.parametrize("version", [(13, 0), (13, 6), (14, 1), (0, 0), (250, 1)])
    def test_unknown_versions(self, version: tuple[int, int]) -> None:
        found = refused(
            join(split(EXAMPLE), version), "bytecode-version", "13.1 to 13.5", f"{version[1]}"
        )
        assert isinstance(found.location, ByteSpan)
        assert (found.location.offset, found.location.end) == (8, 10)

    @pytest.mark.parametrize(("tag", "word"), [(1, "preview"), (2, "0x0002"), (0x8000, "0x8000")])
    def test_tags(self, tag: int, word: str) -> None:
        refused(join(split(EXAMPLE), tag=tag), "bytecode-preview", word)

    def test_sections_in_any_order(self) -> None:
        for order in (list(reversed(split(EXAMPLE))), sorted(split(EXAMPLE))):
            assert read(join(order)).entry("k")

    def test_padding_may_hold_anything(self) -> None:
        assert read(EXAMPLE.replace(b"\xcb", b"\x00")).entry("k")

    def test_larger_alignment(self) -> None:
        out = files.MAGIC + b"\x0d\x01\x00\x00"
        for number, payload in split(EXAMPLE):
            out += files.section(number, payload, len(out), 64)
        assert read(out + b"\x00").entry("k")

    @pytest.mark.parametrize("alignment", [0, 2, 12])
    def test_wrong_alignment(self, alignment: int) -> None:
        out = files.MAGIC + b"\x0d\x01\x00\x00"
        for number, payload in split(EXAMPLE):
            wrong = alignment if number == files.TYPE else None
            out += files.section(number, payload, len(out), wrong)
        refused(out + b"\x00", "bytecode-section", "alignment of the type section")

    def test_alignment_zero(self) -> None:
        refused(
            files.MAGIC + b"\x0d\x01\x00\x00\x82\x00\x00\x00", "bytecode-section", "power of two"
        )

    def test_enormous_alignment(self) -> None:
        head = files.MAGIC + b"\x0d\x01\x00\x00\x82\x00" + varint(2**62)
        refused(head + bytes(50), "bytecode-truncated")

    @pytest.mark.parametrize("number", [8, 9, 127])
    def test_unknown_section(self, number: int) -> None:
        refused(join([*split(EXAMPLE), (number, b"")]), "bytecode-section", str(number))

    def test_duplicate_section(self) -> None:
        sections = split(EXAMPLE)
        refused(join([*sections, sections[-1]]), "bytecode-section", "string", "twice")

    @pytest.mark.parametrize("number", [STRING, files.FUNCTION])
    def test_missing_section(self, number: int) -> None:
        sections = [(n, payload) for n, payload in split(EXAMPLE) if n != number]
        refused(join(sections), "bytecode-section", "there is no")

    def test_end_marker(self) -> None:
        refused(EXAMPLE[:-1], "bytecode-truncated")
        refused(EXAMPLE + b"\x00", "bytecode-section", "1 bytes follow")
        refused(EXAMPLE[:-1] + b"\x80", "bytecode-section", "end marker")

    def test_section_longer_than_the_file(self) -> None:
        refused(EXAMPLE[:-11] + b"\x81\x7f\x04\xcb", "bytecode-truncated")

    def test_producer_is_read_at_every_version(self) -> None:
        data = kernel(RETURN, texts=(b"k", b"tool"), extra=[(files.PRODUCER, b"\x01trailing")])
        assert read(data).producer_name == "tool"


class TestTables:
    @pytest.mark.parametrize("number", [STRING, files.TYPE, files.FUNCTION])
    def test_huge_counts(self, number: int) -> None:
        sections = [
            (n, varint(2**40) + payload[1:] if n == number else payload)
            for n, payload in split(EXAMPLE)
        ]
        refused(join(sections), "bytecode-truncated", "count of 1099511627776")

    def test_offsets_that_decrease(self) -> None:
        payload = b"\x02\xcb\xcb\xcb" + struct.pack("<II", 2, 1) + b"kkk"
        sections = [(n, payload if n == STRING else p) for n, p in split(EXAMPLE)]
        refused(join(sections), "bytecode-truncated", "offset of strings 1", "2 .. 3")

    def test_offsets_beyond_the_end(self) -> None:
        payload = b"\x01\xcb\xcb\xcb" + struct.pack("<I", 9) + b"k"
        sections = [(n, payload if n == STRING else p) for n, p in split(EXAMPLE)]
        refused(join(sections), "bytecode-truncated", "got 9")

    @pytest.mark.parametrize("name", [b"", b"\xff\xfe"])
    def test_kernel_names(self, name: bytes) -> None:
        refused(kernel(RETURN, texts=(name,)), "bytecode-bad-string")

    def test_missing_string(self) -> None:
        refused(kernel(RETURN, texts=()), "bytecode-bad-index", "string 0", "there are 0")

    def test_strings_of_operations_may_hold_any_bytes(self) -> None:
        body = b"\x55\x00\x01\x00" + RETURN
        printed = next(iter(read(kernel(body, texts=(b"k", b"\xff%%"))).entry().block.ops))
        assert isinstance(printed, PrintTkoOp)
        assert printed.format.encode("utf-8", "surrogateescape") == b"\xff%%"


class TestTypes:
    def using(self, ty: bytes, version: tuple[int, int] = (13, 1), *more: bytes) -> bytes:
        """A kernel whose make_token has that type."""
        types = (*TYPES, ty, *more)
        return kernel(b"\x44" + varint(len(TYPES)) + RETURN, version, types=types)

    @pytest.mark.parametrize("tag", [14 + 100, 23, 127, 129, 131, 2**40])
    def test_unknown_tags(self, tag: int) -> None:
        refused(self.using(varint(tag)), "bytecode-bad-type", f"tag {tag}")

    @pytest.mark.parametrize(
        ("tag", "since"), [(18, (13, 2)), (19, (13, 3)), (22, (13, 3)), (130, (13, 4))]
    )
    def test_types_that_are_too_new(self, tag: int, since: tuple[int, int]) -> None:
        older = (13, since[1] - 1)
        refused(
            self.using(varint(tag), older),
            "bytecode-bad-type",
            f"needs bytecode version 13.{since[1]}",
        )
        assert read(self.using(varint(tag), since))

    @pytest.mark.parametrize("tag", [20, 21])
    def test_views_that_are_too_new(self, tag: int) -> None:
        refused(self.using(varint(tag) + bytes(40), (13, 2)), "bytecode-bad-type", "13.3")

    def test_a_type_that_contains_itself(self) -> None:
        itself = len(TYPES)
        refused(
            self.using(b"\x0d" + varint(itself) + b"\x00"), "bytecode-bad-type", "contains itself"
        )

    def test_a_ring_of_types(self) -> None:
        first = len(TYPES)
        ring = b"\x0d" + varint(first + 1) + b"\x00", b"\x0c" + varint(first)
        refused(self.using(ring[0], (13, 1), ring[1]), "bytecode-bad-type", "contains itself")

    def test_a_long_chain_of_types(self) -> None:
        first = len(TYPES)
        chain = [b"\x0d" + varint(first + i + 1) + b"\x00" for i in range(5000)]
        refused(self.using(chain[0], (13, 1), *chain[1:], b"\x03"), "bytecode-too-deep")

    def test_function_types_do_not_nest(self) -> None:
        first = len(TYPES)
        doubling = [b"\x10\x02" + varint(first + i + 1) * 2 + b"\x00" for i in range(3)]
        data = self.using(doubling[0], (13, 1), *doubling[1:], b"\x10\x00\x00")
        refused(data, "bytecode-bad-type", "function type")

    def test_trailing_bytes(self) -> None:
        refused(self.using(b"\x11\x00"), "bytecode-bad-type", "followed by 1 bytes")

    @pytest.mark.parametrize(
        ("dims", "words"),
        [
            ((3,), "powers of two"),
            ((0,), "positive"),
            ((2**24, 2), "16777216"),
            ((-4,), "positive"),
        ],
    )
    def test_tile_shapes(self, dims: tuple[int, ...], words: str) -> None:
        ty = b"\x0d\x00" + varint(len(dims)) + struct.pack(f"<{len(dims)}q", *dims)
        refused(self.using(ty), "bytecode-bad-type", words)

    def test_a_tile_of_enormous_rank_and_size(self) -> None:
        rank = 50_000
        ty = b"\x0d\x00" + varint(rank) + struct.pack("<q", 2**62) * rank
        refused(self.using(ty), "bytecode-bad-type", "16777216")

    def test_a_tile_of_a_token(self) -> None:
        refused(self.using(b"\x0d" + varint(TOKEN) + b"\x00"), "bytecode-bad-type", "element type")

    def test_flags_of_pointers(self) -> None:
        refused(self.using(b"\x0c\x02\x03", (13, 4)), "bytecode-bad-flags")
        refused(
            self.using(b"\x0c\x01\x03\x02", (13, 4)),
            "bytecode-bad-enum",
            "needs bytecode version 13.5",
        )
        refused(self.using(b"\x0c\x01\x03\x03", (13, 5)), "bytecode-bad-enum", "0 .. 2")
        assert read(self.using(b"\x0c\x01\x03\x02", (13, 5)))

    @pytest.mark.parametrize("present", [1, 2, 0xFF])
    def test_old_partition_views_mark_their_padding_by_a_byte(self, present: int) -> None:
        view = (
            b"\x0e" + varint(F32) + b"\x01" + struct.pack("<q", 8) + b"\x01" + struct.pack("<q", 1)
        )
        head = b"\x0f\x01" + struct.pack("<i", 4) + varint(len(TYPES) + 1) + b"\x01" + bytes(4)
        data = self.using(head + bytes([present]) + b"\x02", (13, 2), view)
        (made, _) = read(data).entry().block.ops
        assert made.results[0].type.padding == "nan"  # pyright: ignore


class TestBodies:
    @pytest.mark.parametrize("opcode", [0x19, 0x24, 0x34, 0x6E, 0x7F, 0x3000, 2**32 + 3])
    def test_unknown_opcodes(self, opcode: int) -> None:
        code = "bytecode-preview" if opcode >= 0x4000 else "bytecode-unknown-opcode"
        refused(kernel(varint(opcode) + RETURN), code, f"{opcode:#x}")

    def test_an_opcode_that_is_too_new_is_named(self) -> None:
        found = refused(
            kernel(b"\x6e" + RETURN), "bytecode-unknown-opcode", "atan2 needs version 13.2"
        )
        assert isinstance(found.location, ByteSpan)
        assert found.location.what == "function @k, op #0 (?)"

    @pytest.mark.parametrize("opcode", [0x16, 0x31, 0x4B])
    def test_declarations_do_not_stand_in_bodies(self, opcode: int) -> None:
        refused(kernel(varint(opcode) + RETURN, (13, 5)), "bytecode-unknown-opcode")

    def test_preview_calls(self) -> None:
        refused(kernel(varint(0x4002) + RETURN), "bytecode-preview", "0x4002")

    def test_where_an_error_stands(self) -> None:
        body = b"\x03\x01\x00\x00\x00" + b"\x03\x01\x00\x00\x07" + RETURN
        found = refused(kernel(body), "bytecode-bad-index", "value 7", "there are 2")
        assert isinstance(found.location, ByteSpan)
        assert found.location.what == "function @k, op #1 (addi)"
        assert kernel(body)[found.location.offset : found.location.end] == b"\x07"

    def test_values_of_a_region_are_not_visible_outside(self) -> None:
        region = b"\x01\x01\x00\x02" + b"\x44\x05" + b"\x6d\x00\x00"
        body = b"\x32\x00\x00\x02" + region + b"\x00" + b"\x3c\x01\x05\x02\x01\x01" + RETURN
        refused(kernel(body), "bytecode-bad-index", "value 1", "there is 1")

    def test_type_index(self) -> None:
        refused(kernel(b"\x44\x63" + RETURN), "bytecode-bad-index", "type 99")

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"\x5c\x01\x01\x00", "expected 0 results, got 1"),
            (b"\x3c\x02\x05\x05\x00" + RETURN, "expected 1 results, got 2"),
            (b"\x29\x00\x02\x00\x00\x01" + RETURN, "expected at least 3 operands, got 2"),
            (b"\x41\x00\x00\x02" + RETURN, "expected 1 regions, got 2"),
        ],
    )
    def test_counts(self, body: bytes, words: str) -> None:
        refused(kernel(body), "bytecode-bad-count", words)

    def test_an_optional_operand_by_count(self) -> None:
        wait = b"\x78\x05\x02\x00\x00" + RETURN
        refused(kernel(wait, (13, 4)), "bytecode-bad-count", "0 to 1 operands, got 2")

    def test_unknown_flags(self) -> None:
        exp2 = b"\x18\x01\x02\x00" + RETURN
        refused(kernel(exp2), "bytecode-bad-flags", "within 0x1, got 0x2")

    def test_enumerations(self) -> None:
        refused(
            kernel(b"\x03\x01\x04\x00\x00" + RETURN),
            "bytecode-bad-enum",
            "IntegerOverflow",
            "got 4",
        )
        ftof = b"\x2a\x01\x07\x00" + RETURN
        refused(kernel(ftof, (13, 3)), "bytecode-bad-enum", "nearest_away", "13.4")
        assert read(kernel(ftof, (13, 4)))

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"", "an empty block"),
            (b"\x44\x05", "cuda_tile.make_token"),
            (b"\x41\x00\x00\x01\x01\x00\x00" + RETURN, "an empty block"),
            (b"\x41\x00\x00\x01\x00" + RETURN, "one block, got 0"),
            (b"\x41\x00\x00\x01\x02" + RETURN, "one block, got 2"),
            (b"\x32\x00\x00\x02\x00\x00" + RETURN, "one block, got 0"),
        ],
    )
    def test_blocks(self, body: bytes, words: str) -> None:
        refused(kernel(body), "bytecode-bad-block", words)

    def test_an_if_without_else(self) -> None:
        body = b"\x32\x00\x00\x02\x01\x00\x01\x6d\x00\x00\x00" + RETURN
        choice = next(iter(read(kernel(body)).entry().block.ops))
        assert [len(region.blocks) for region in choice.regions] == [1, 0]

    def test_deep_nesting(self) -> None:
        def nested(depth: int) -> bytes:
            outer, innermost = b"\x41\x00\x00\x01\x01\x00\x02", b"\x41\x00\x00\x01\x01\x00\x01"
            return kernel(outer * (depth - 1) + innermost + RETURN * (depth + 1))

        assert read(nested(MAX_REGION_DEPTH))
        refused(nested(MAX_REGION_DEPTH + 1), "bytecode-too-deep", str(MAX_REGION_DEPTH))
        refused(nested(50_000), "bytecode-too-deep", str(MAX_REGION_DEPTH))

    def test_huge_counts(self) -> None:
        refused(kernel(b"\x3c" + varint(2**32) + RETURN), "bytecode-truncated", "results")
        refused(kernel(b"\x5c\x00" + varint(2**63)), "bytecode-truncated", "operands")

    def test_a_body_that_is_too_long(self) -> None:
        sections = split(kernel(RETURN))
        sections[0] = (sections[0][0], sections[0][1].replace(b"\x03" + RETURN, b"\x7f" + RETURN))
        refused(join(sections), "bytecode-truncated")

    def test_bytes_after_the_last_function_are_ignored(self) -> None:
        sections = split(kernel(RETURN))
        sections[0] = (sections[0][0], sections[0][1] + b"anything")
        assert read(join(sections)).entry("k")

    def test_print_of_13_1_has_a_token_that_takes_no_number(self) -> None:
        body = b"\x55\x00\x01\x00" + b"\x03\x01\x00\x00\x00" + b"\x03\x01\x00\x01\x01" + RETURN
        printed, first, second, _ = read(kernel(body, texts=(b"k", b"x"))).entry().block.ops
        assert printed.results[0].type.name == "cuda_tile.token"
        assert second.operands[0] is first.results[0]


class TestFunctions:
    @pytest.mark.parametrize("version", [(13, 1), (13, 4), (13, 5)])
    @pytest.mark.parametrize(
        ("flags", "code"),
        [
            (0x00, "bytecode-preview"),
            (0x03, "bytecode-bad-function"),
            (0x0A, "bytecode-bad-flags"),
            (0x82, "bytecode-bad-flags"),
        ],
    )
    def test_flags(self, version: tuple[int, int], flags: int, code: str) -> None:
        refused(kernel(RETURN, version, header=bytes([flags]) + b"\x00\x0b\x00\x06\x00"), code)

    def test_signature_with_results(self) -> None:
        types = (*TYPES, b"\x10\x00\x01\x01")
        refused(
            kernel(RETURN, types=types, signature=len(TYPES)),
            "bytecode-bad-function",
            "without results",
        )

    def test_signature_that_is_no_function(self) -> None:
        refused(kernel(RETURN, signature=TILE_I32), "bytecode-bad-function", "tile<i32>")

    def test_hints(self) -> None:
        hints = b"\x0b\x01\x01\x0a\x01\x02\x01" + varint(I32) + b"\x04"
        texts = (b"k", b"sm_90", b"occupancy")
        for version, header in (
            ((13, 1), b"\x06\x00" + hints),
            ((13, 5), b"\x02\x00" + hints + b"\x06\x00"),
        ):
            entry = read(kernel(RETURN, version, header=header, texts=texts)).entry()
            assert entry.hints is not None
            found = entry.hints.lookup("sm_90", "occupancy")
            assert found is not None and found.value.data == 4  # pyright: ignore

    def test_hints_must_carry_the_tag_of_hints(self) -> None:
        refused(kernel(RETURN, header=b"\x06\x00\x0a\x00"), "bytecode-bad-attribute", "hints")

    def test_hints_must_be_dictionaries(self) -> None:
        header = b"\x06\x00\x0b\x01\x01\x03\x01"
        refused(
            kernel(RETURN, header=header, texts=(b"k", b"sm_90")), "bytecode-bad-attribute", "sm_90"
        )

    def test_empty_hints_are_no_hints(self) -> None:
        assert read(kernel(RETURN, (13, 5))).entry().hints is None
        assert read(kernel(RETURN, header=b"\x06\x00\x0b\x00")).entry().hints is None

    def test_argument_attributes(self) -> None:
        texts = (b"k", b"cuda_tile.x")
        one = b"\x0a\x01\x01\x03\x01"
        for attributes in (b"\x06\x01" + one, one):
            header = b"\x02\x00\x0b\x00" + attributes
            entry = read(kernel(RETURN, (13, 5), header=header, texts=texts)).entry()
            assert len(entry.properties["arg_attrs"].data) == 1  # pyright: ignore
        for attributes, code in (
            (b"\x06\x02" + one * 2, "bytecode-bad-function"),
            (b"\x03\x01", "bytecode-bad-attribute"),
        ):
            header = b"\x02\x00\x0b\x00" + attributes
            refused(kernel(RETURN, (13, 5), header=header, texts=texts), code)


class TestGlobals:
    def with_global(self, fields: bytes, version: tuple[int, int] = (13, 1)) -> bytes:
        payload = b"\x01" + fields
        return kernel(
            RETURN,
            version,
            texts=(b"k", b"g"),
            constants=[bytes(4)],
            extra=[(files.GLOBAL, payload)],
        )

    def test_old_globals_are_public_and_mutable(self) -> None:
        (found,) = read(self.with_global(b"\x01" + varint(ROW) + b"\x00\x10")).globals
        assert (found.symbol, found.is_private, found.is_constant) == ("g", False, False)
        assert found.alignment_value == 16

    def test_new_globals(self) -> None:
        (found,) = read(
            self.with_global(b"\x01" + varint(ROW) + b"\x00\x00\x01\x01", (13, 3))
        ).globals
        assert (found.is_private, found.is_constant) == (True, True)

    def test_visibility(self) -> None:
        refused(
            self.with_global(b"\x01\x06\x00\x00\x02\x00", (13, 3)),
            "bytecode-bad-enum",
            "SymbolVisibility",
        )

    def test_rank(self) -> None:
        found = refused(self.with_global(b"\x01\x01\x00\x00"), "bytecode-bad-function", "rank 1")
        assert isinstance(found.location, ByteSpan)
        assert found.location.what == "global @g"

    def test_missing_constant(self) -> None:
        refused(self.with_global(b"\x01\x06\x05\x00"), "bytecode-bad-index", "constant 5")


class TestConstants:
    def read_one(self, blob: bytes, ty: int, types: tuple[bytes, ...] = TYPES) -> TileConstantAttr:
        found = next(iter(read(constant_of(blob, ty, types)).entry().block.ops)).properties["value"]
        assert isinstance(found, TileConstantAttr)
        return found

    def test_splat_and_full(self) -> None:
        assert self.read_one(struct.pack("<i", -5), ROW).values() == [-5]
        assert self.read_one(struct.pack("<4i", 1, 2, 3, -4), ROW).values() == [1, 2, 3, -4]
        assert self.read_one(struct.pack("<4i", 7, 7, 7, 7), ROW).values() == [7]

    @pytest.mark.parametrize(
        ("blob", "count", "bits"),
        [
            (b"\x00", 4, [0]),
            (b"\xff", 4, [1]),
            (b"\x01", 4, [1, 0, 0, 0]),
            (b"\x0a", 4, [0, 1, 0, 1]),
            (b"\x0f", 4, [1]),
            (b"\x01", 1, [1]),
            (b"\xff", 16, [1]),
            (b"\x01", 16, [1]),
            (b"\x02", 16, [0]),
            (b"\x02", 1, [0]),
            (b"\x01\x80", 16, [1, *[0] * 14, 1]),
        ],
    )
    def test_bits(self, blob: bytes, count: int, bits: list[int]) -> None:
        ty = b"\x0d" + varint(I1) + b"\x01" + struct.pack("<q", count)
        assert self.read_one(blob, len(TYPES), (*TYPES, ty)).bits() == bits

    @pytest.mark.parametrize("size", [0, 1, 3, 5, 8, 12, 17])
    def test_sizes(self, size: int) -> None:
        refused(constant_of(bytes(size), ROW), "bytecode-bad-constant", "4 or 16 bytes")

    def test_a_packed_form_of_the_wrong_size(self) -> None:
        ty = b"\x0d" + varint(I1) + b"\x01" + struct.pack("<q", 16)
        refused(
            constant_of(b"\x01" * 3, len(TYPES), (*TYPES, ty)), "bytecode-bad-constant", "2 bytes"
        )

    def test_a_pattern_that_is_too_wide(self) -> None:
        ty = b"\x08", b"\x0d" + varint(len(TYPES)) + b"\x00"
        data = constant_of(b"\x00\x00\x08", len(TYPES) + 1, (*TYPES, *ty))
        refused(data, "bytecode-bad-constant", "19")

    @pytest.mark.parametrize("ty", [TOKEN, SIGNATURE, I32])
    def test_types_without_constants(self, ty: int) -> None:
        refused(constant_of(bytes(4), ty), "bytecode-bad-constant", "expected a tile of numbers")

    def test_the_bytes_of_a_huge_constant_are_shared(self) -> None:
        """Each use costs a few bytes, not two megabytes."""
        ty = b"\x0d" + varint(I1) + b"\x01" + struct.pack("<q", 2**20)
        blob = b"\x01" + bytes(2**17 - 1)
        body = (b"\x10" + varint(len(TYPES)) + b"\x00") * 200 + RETURN
        ops = read(kernel(body, types=(*TYPES, ty), constants=[blob])).entry().block.ops
        found = {id(op.properties["value"]) for op in ops if op.properties}
        assert len(found) == 1


def reduce_with(identities: bytes, version: tuple[int, int] = (13, 1)) -> bytes:
    """A reduce over one operand with these identities."""
    types = (*TYPES, b"\x09")
    region = b"\x01\x01\x00\x01\x6d\x00\x00"
    body = b"\x58\x01\x01\x00" + identities + b"\x01\x00" + region + RETURN
    return kernel(body, version, types=types)


F64 = len(TYPES)


class TestAttributes:
    def first_identity(self, identities: bytes) -> object:
        op = next(iter(read(reduce_with(identities)).entry().block.ops))
        return op.properties["identities"].data[0]  # pyright: ignore

    def test_negative_infinity_as_correct_writers_write_it(self) -> None:
        bits = 0xFFF0000000000000
        zigzag = ((bits - 2**64) << 1 ^ -1) & (2**64 - 1)
        found = self.first_identity(b"\x01\x02" + varint(F64) + varint(zigzag))
        assert isinstance(found, FloatBitsAttr)
        assert found.bits_value == bits

    def test_a_zigzag_of_65_bits_loses_its_sign_and_warns(self) -> None:
        data = reduce_with(b"\x01\x02" + varint(F64) + varint(0xFFF0000000000000 << 1))
        warnings: list[Diagnostic] = []
        op = next(iter(read(data, "f", warnings=warnings).entry().block.ops))
        assert op.properties["identities"].data[0].bits_value == 0x7FF0000000000000  # pyright: ignore
        (warning,) = warnings
        assert warning.code == "bytecode-dropped-bits"
        assert isinstance(warning.location, ByteSpan)
        assert warning.location.what == "function @k, op #0 (reduce)"

    @pytest.mark.parametrize(
        ("identity", "code", "words"),
        [
            (b"\x07\x00\x00", "bytecode-bad-attribute", "tag 7"),
            (b"\x0d\x00\x00", "bytecode-bad-attribute", "tag 13"),
            (b"\x01" + varint(F32) + b"\x00", "bytecode-bad-attribute", "integer type"),
            (b"\x02" + varint(I32) + b"\x00", "bytecode-bad-attribute", "float type"),
            (b"\x01" + varint(I32) + varint(2**32), "bytecode-bad-attribute", "32 bits"),
            (b"\x02" + varint(F32) + varint(2**33), "bytecode-bad-attribute", "32 bits"),
            (b"\x00", "bytecode-bad-attribute", "tag 0"),
            (b"\x08\x03\x00", "bytecode-bad-attribute", "power of 2"),
            (b"\x08\x04\x04", "bytecode-bad-flags", "0 .. 3"),
            (b"\x08\x04\x01\x00", "bytecode-bad-attribute", "both or none"),
            (b"\x0c\x03\x02\x01", "bytecode-bad-attribute", "lower bound"),
            (b"\x09\x01" + struct.pack("<q", -(2**63)), "bytecode-bad-attribute", "not allowed"),
            (b"\x06\x01" * 40 + b"\x03\x00", "bytecode-too-deep", "32"),
        ],
    )
    def test_refused(self, identity: bytes, code: str, words: str) -> None:
        refused(reduce_with(b"\x01" + identity), code, words)

    def test_dictionary_keys(self) -> None:
        entry = b"\x00\x03\x00"
        refused(reduce_with(b"\x01\x0a\x02" + entry * 2), "bytecode-bad-attribute", "twice")
        header = b"\x06\x00\x0b\x01\x01\x0a\x00"
        refused(kernel(RETURN, header=header, texts=(b"k", b"")), "bytecode-bad-attribute", "empty")

    def test_an_assumption_that_is_none(self) -> None:
        assume = b"\x06\x01\x03\x01\x00" + RETURN
        refused(kernel(assume), "bytecode-bad-attribute", "assume predicate")

    @pytest.mark.parametrize("extreme", [-(2**31), 2**31 - 1])
    def test_permutations(self, extreme: int) -> None:
        permute = b"\x53\x01\x01" + struct.pack("<i", extreme) + b"\x00" + RETURN
        refused(kernel(permute), "bytecode-bad-attribute", str(extreme))


def debug_section(
    entries: list[bytes], references: list[int], starts: tuple[int, ...] = (0,)
) -> bytes:
    out = files.pad(varint(len(starts)), 4) + struct.pack(f"<{len(starts)}I", *starts)
    out = files.pad(out + varint(len(references)), 8)
    out += struct.pack(f"<{len(references)}Q", *references)
    out = files.pad(out + varint(len(entries)), 4)
    offset = 0
    for entry in entries:
        out += struct.pack("<I", offset)
        offset += len(entry)
    return out + b"".join(entries)


#: file, unit, subprogram, location, block, location in the block, call site
ENTRIES = [
    b"\x02\x01\x02",
    b"\x01\x01",
    b"\x05\x01\x03\x00\x00\x02\x04",
    b"\x04\x03\x03\x03\x00",
    b"\x03\x03\x01\x05\x02",
    b"\x04\x05\x03\x06\x07",
    b"\x06\x06\x04",
]


class TestDebugInfo:
    def data(
        self,
        entries: list[bytes] = ENTRIES,
        references: tuple[int, ...] = (4, 6, 7, 0),
        version: tuple[int, int] = (13, 1),
        starts: tuple[int, ...] = (0,),
    ) -> bytes:
        header = b"\x02\x01" + (b"\x0b\x00\x06\x00" if version >= (13, 5) else b"")
        return kernel(
            b"\x44\x05" * 2 + RETURN,
            version,
            header=header,
            texts=(b"k", b"k.py", b"/src", b"/src/k.py"),
            extra=[(files.DEBUG, debug_section(entries, list(references), starts))],
        )

    def test_locations(self) -> None:
        entry = read(self.data()).entry()
        first, second, last = entry.block.ops
        assert isinstance(entry.location, DILocAttr)
        assert entry.location.position == ("/src/k.py", 3, 0)
        assert isinstance(first.location, DILocAttr)
        assert first.location.position == ("/src/k.py", 6, 7)
        assert isinstance(second.location, CallSiteAttr)
        assert second.location.caller == entry.location
        assert last.location.name == "unknown_loc"

    def test_unknown_tags_are_unknown_locations(self) -> None:
        entries = [*ENTRIES, b"\x63anything"]
        entry = read(self.data(entries, (8, 8, 0, 0))).entry()
        assert entry.location.name == "unknown_loc"

    @pytest.mark.parametrize(
        ("entry", "code", "words"),
        [
            (
                b"\x04\x01\x03\x03\x00",
                "bytecode-bad-debug-info",
                "expected a subprogram or lexical",
            ),
            (b"\x04\x63\x03\x03\x00", "bytecode-bad-index", "debug entry 99"),
            (b"\x04\x03\x09\x03\x00", "bytecode-bad-index", "string 9"),
            (b"\x06\x08\x04", "bytecode-bad-debug-info", "contains itself"),
            (b"\x06\x01\x04", "bytecode-bad-debug-info", "expected a location for the callee"),
            (b"\x03\x03\x01\x05\x02", "bytecode-bad-debug-info", "expected a location, got"),
            (b"\x04\x03", "bytecode-truncated", "1 more byte"),
        ],
    )
    def test_refused(self, entry: bytes, code: str, words: str) -> None:
        refused(self.data([*ENTRIES, entry], (8, 0, 0, 0)), code, words)

    def test_broken_entries_that_nothing_uses_are_harmless(self) -> None:
        assert read(self.data([*ENTRIES, b"\x04\x63"])).entry("k")

    def test_too_few_references(self) -> None:
        refused(self.data(references=(4, 6)), "bytecode-bad-index", "2 references")
        refused(self.data(starts=(9,)), "bytecode-bad-index")
        refused(self.data(starts=()), "bytecode-bad-index", "no list 1")

    def test_deep_chains(self) -> None:
        """Code is inlined to any depth, and NVIDIA's reader takes any."""
        chain = [b"\x06" + varint(i) + b"\x04" for i in range(7, 5000)]
        entries = [*ENTRIES, *chain]
        module = read(self.data(entries, (4, len(entries), 0, 0)))
        location, links = module.entry().block.ops.first.location, 0
        while isinstance(location, CallSiteAttr):
            location, links = location.callee, links + 1
        assert links == len(chain) + 1
        again = read(write(module))
        assert same_module(module, again, locations=True) is None

    @oracles.requires_tileirdisasm
    @pytest.mark.oracle
    def test_deep_chains_are_legal(self) -> None:
        chain = [b"\x06" + varint(i) + b"\x04" for i in range(7, 1000)]
        entries = [*ENTRIES, *chain]
        module = read(self.data(entries, (4, len(entries), 0, 0)))
        links = oracles.disassemble(write(module), locations=True).count("callsite(")
        assert links == len(chain) + 1

    def test_call_sites_that_double(self) -> None:
        doubling = [b"\x06" + varint(i) * 2 for i in range(7, 47)]
        entries = [*ENTRIES, *doubling]
        refused(self.data(entries, (4, len(entries), 0, 0)), "bytecode-too-deep", "1000000 parts")

    def test_declarations_of_13_5_are_read_with_a_warning(self) -> None:
        entries = [*ENTRIES]
        for flags, expected in ((b"\x00", 0), (b"\x01", 1)):
            entries[2] = ENTRIES[2] + flags
            warnings: list[Diagnostic] = []
            assert read(self.data(entries, version=(13, 5)), "f", warnings=warnings)
            assert [w.code for w in warnings] == ["bytecode-dropped-debug-info"] * expected
        entries[2] = ENTRIES[2] + b"\x02"
        refused(self.data(entries, version=(13, 5)), "bytecode-bad-debug-info", "flags")


def test_tables_made_by_hand() -> None:
    assert table([b"ab", b"c"]) == b"\x02\xcb\xcb\xcb" + struct.pack("<II", 0, 2) + b"abc"
