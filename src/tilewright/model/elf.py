"""Reads cubins: the kernels of an ELF file, and the resources that each needs.

A cubin is an ELF file of machine 190 (CUDA). Read are code (``.text.NAME``), static shared memory (``.nv.shared.NAME``)
and attributes (``.nv.info.NAME`` and, for the whole file, ``.nv.info``), whose numbers NVIDIA's disassembler prints by
name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.diagnostics import TileIRError
from tilewright.model.codes import NOT_A_CUBIN

_MACHINE_CUDA = 190
#: From Hopper on the shared memory section starts with memory that is reserved for the system.
_SYSTEM_SHARED, _SYSTEM_SHARED_SINCE = 1024, 90
_TEXT, _INFO, _SHARED = ".text.", ".nv.info", ".nv.shared."
#: The numbers of attributes in `.nv.info`.
_REGISTERS, _FRAME, _PARAM_BANK, _PARAM, _PARAM_V2 = 0x2F, 0x11, 0x0A, 0x17, 0x45
_REQUIRED_THREADS, _MAX_THREADS, _CLUSTER, _BARRIERS = 0x10, 0x05, 0x3D, 0x4C
_WITH_PAYLOAD = 4
#: The field of a code section's flags with the number of barriers, in older files.
_BARRIER_SHIFT, _BARRIER_MASK = 20, 0x7F


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its offset from the first one in constant bank 0, and its size, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A kernel as the file describes it.

    ``registers`` per thread; static ``shared_bytes`` per block; ``frame_bytes`` of local memory per thread; ``threads``
    and ``cluster``: the extents that the kernel is compiled for, if it specifies them (``exact_threads``: exactly,
    rather than at most); ``parameters_at``: their offset in bank 0.
    """

    name: str
    code: bytes
    registers: int
    shared_bytes: int
    frame_bytes: int
    barriers: int
    threads: tuple[int, int, int] | None
    exact_threads: bool
    cluster: tuple[int, int, int] | None
    parameters_at: int
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class CubinFile:
    """A cubin; ``compute`` is the compute capability times ten, 90 for `sm_90a`."""

    compute: int
    kernels: tuple[KernelFile, ...]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    index: int
    flags: int
    info: int
    size: int
    data: bytes


def read_cubin_file(data: bytes) -> CubinFile:
    """The kernels of a cubin, and the resources that each needs.

    Raises ``TileIRError`` (``model-not-a-cubin``) for anything else than a 64-bit ELF file for NVIDIA GPUs, and for a
    truncated one.
    """
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise _bad(f"it is truncated or has an offset out of range ({error})") from error


def _bad(why: str) -> TileIRError:
    return TileIRError.single(NOT_A_CUBIN, f"not a readable cubin: {why}")


def _read(data: bytes) -> CubinFile:
    if data[:4] != b"\x7fELF" or data[4] != 2:
        raise _bad("it is not a 64-bit ELF file")
    machine = struct.unpack_from("<H", data, 18)[0]
    if machine != _MACHINE_CUDA:
        raise _bad(f"it is ELF for machine {machine}, not an NVIDIA GPU ({_MACHINE_CUDA})")
    flags = struct.unpack_from("<I", data, 48)[0]
    sections = {section.name: section for section in _sections(data)}
    names = [name.removeprefix(_TEXT) for name in sections if name.startswith(_TEXT)]
    shared = _of_file(sections.get(_INFO), _symbols(sections))
    # ABI 7 and older has the architecture in the low byte, later ones in the second.
    compute = flags >> 8 & 0xFF if data[8] >= 8 else flags & 0xFF
    system = _SYSTEM_SHARED if compute >= _SYSTEM_SHARED_SINCE else 0
    kernels = [
        _kernel(name, sections, shared, system) for name in names if f"{_INFO}.{name}" in sections
    ]
    return CubinFile(compute, tuple(kernels))


def _sections(data: bytes) -> Iterator[_Section]:
    start = struct.unpack_from("<Q", data, 40)[0]
    entry, count, names_at = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * entry) for i in range(count)]
    names = heads[names_at]
    for index, head in enumerate(heads):
        name_at, kind, flags, _, offset, size, _, info, _, _ = head
        at = names[4] + name_at
        name = data[at : data.index(b"\0", at)].decode()
        content = b"" if kind == 8 else data[offset : offset + size]
        if kind != 8 and len(content) < size:
            raise _bad(f"section {name} extends past the end of the file")
        yield _Section(name, index, flags, info, size, content)


def _symbols(sections: dict[str, _Section]) -> list[str]:
    """The names of symbols, by number."""
    table, text = sections.get(".symtab"), sections.get(".strtab")
    if table is None or text is None:
        return []
    starts = [struct.unpack_from("<I", table.data, at)[0] for at in range(0, table.size, 24)]
    return [text.data[at : text.data.index(b"\0", at)].decode() for at in starts]


def _attributes(section: _Section | None) -> Iterator[tuple[int, bytes]]:
    """The number and content of each attribute."""
    data = section.data if section is not None else b""
    at = 0
    while at + 4 <= len(data):
        form, number, short = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _WITH_PAYLOAD:
            yield number, data[at : at + short]
            at += short
        else:
            yield number, struct.pack("<H", short)


def _of_file(section: _Section | None, symbols: list[str]) -> dict[tuple[int, str], int]:
    """Kernel attributes in the section of the file: (attribute, kernel) to number."""
    found: dict[tuple[int, str], int] = {}
    for number, content in _attributes(section):
        if len(content) == 8:
            symbol, value = struct.unpack("<II", content)
            if symbol < len(symbols):
                found[number, symbols[symbol]] = value
    return found


def _kernel(
    name: str, sections: dict[str, _Section], shared: dict[tuple[int, str], int], system: int
) -> KernelFile:
    text = sections[_TEXT + name]
    held: dict[int, bytes] = {}
    parameters: dict[int, Parameter] = {}
    for number, content in _attributes(sections[f"{_INFO}.{name}"]):
        held[number] = content
        if number == _PARAM:
            _, ordinal, offset, packed = struct.unpack_from("<IHHI", content)
            parameters[ordinal] = Parameter(offset, packed >> 18)
        elif number == _PARAM_V2:
            _, ordinal, offset, size = struct.unpack_from("<IHHH", content)
            parameters[ordinal] = Parameter(offset, size)
    bank = struct.unpack_from("<IHH", held[_PARAM_BANK]) if _PARAM_BANK in held else (0, 0, 0)
    threads = _extents(held.get(_REQUIRED_THREADS)) or _extents(held.get(_MAX_THREADS))
    memory = sections.get(_SHARED + name)
    barriers = held.get(_BARRIERS, b"\0")[0] or text.flags >> _BARRIER_SHIFT & _BARRIER_MASK
    return KernelFile(
        name,
        text.data,
        shared.get((_REGISTERS, name), text.info >> 24),
        max(memory.size - system, 0) if memory is not None else 0,
        shared.get((_FRAME, name), 0),
        barriers,
        threads,
        _REQUIRED_THREADS in held,
        _extents(held.get(_CLUSTER)),
        bank[1],
        tuple(parameters[ordinal] for ordinal in sorted(parameters)),
    )


def _extents(content: bytes | None) -> tuple[int, int, int] | None:
    if content is None or len(content) < 12:
        return None
    x, y, z = struct.unpack_from("<III", content)
    return x, y, z
