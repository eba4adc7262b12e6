"""The module-level part of LLVM IR beside functions: globals, declarations, kernel metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.diagnostics.display import encoded
from tilewright.gpu.architectures import Architecture
from tilewright.gpu.codegen.ir import I32, SHARED, Value, pointer
from tilewright.gpu.codegen.line_table import LineTable

#: The default alignment limit of shared arrays, in bytes: a swizzle repeats after 1024 bytes.
MAX_SHARED_ALIGNMENT = 1024
MIN_SHARED_ALIGNMENT = 16
DYNAMIC_SHARED = "dynamic_shared_memory"
#: The static shared memory limit, in bytes; beyond it the launch must pass the memory.
MAX_STATIC_SHARED = 48 << 10
#: Placeholder in the text for the bytes of dynamic shared memory that are the kernel's own.
OWN_BYTES = Value(I32, "<own bytes>")
_DECLARATION = (
    f"@{DYNAMIC_SHARED} = external addrspace(3) global [0 x i8], align {MAX_SHARED_ALIGNMENT}"
)


def _place(found: re.Match[str], places: dict[str, int]) -> str:
    """Replace a name of shared memory by its offset in dynamic shared memory."""
    if found[1] not in places:
        return found[0]
    return f"getelementptr (i8, ptr addrspace(3) @{DYNAMIC_SHARED}, i64 {places[found[1]]})"


@dataclass(slots=True)
class Unit:
    """An LLVM module under construction.

    ``approximate_math``: functions of `math` become single instructions where there are any, else calls of libdevice.
    ``symbols``: the functions and memory that kernels may refer to. ``line_table``: debug locations, if wanted.
    """

    arch: Architecture
    symbols: dict[str, Operation]
    approximate_math: bool = False
    line_table: LineTable | None = None
    declarations: dict[str, str] = field(default_factory=dict)
    globals: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    annotations: list[str] = field(default_factory=list)
    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    isa: int = 0
    uses_libdevice: bool = False
    uses_dynamic_shared: bool = False
    trades_registers: bool = False

    def __post_init__(self) -> None:
        self.isa = self.arch.isa

    def reserve_shared(self, name: str, size: int, align: int | None = None) -> Value:
        """Allocate ``size`` bytes of shared memory.

        The default alignment is the largest power of two up to the size, from 16 to 1024, as copies, matrix loads and
        swizzles need it.
        """
        chosen = align or min(
            max(1 << max(size, 1).bit_length() - 1, MIN_SHARED_ALIGNMENT), MAX_SHARED_ALIGNMENT
        )
        if name not in self.globals:
            self.globals[name] = (
                f"@{name} = internal addrspace(3) global [{size} x i8] undef, align {chosen}"
            )
            self.shared_bytes += -self.shared_bytes % chosen
            self.shared[name] = self.shared_bytes
            self.shared_bytes += size
        return Value(pointer(SHARED), f"@{name}")

    def dynamic_shared(self) -> Value:
        """The shared memory whose size the launch sets."""
        self.uses_dynamic_shared = True
        self.globals[DYNAMIC_SHARED] = _DECLARATION
        return Value(pointer(SHARED), f"@{DYNAMIC_SHARED}")

    def text_constant(self, text: str) -> str:
        """The name of constant memory with a text, and a zero behind it."""
        data = encoded(text) + b"\0"
        name = self.unique("text")
        quoted = "".join(f"\\{byte:02X}" for byte in data)
        self.globals[name] = (
            f'@{name} = internal addrspace(1) constant [{len(data)} x i8] c"{quoted}", align 1'
        )
        return name

    def unique(self, stem: str) -> str:
        """A name that no memory of the module has yet."""
        count = 0
        while f"{stem}_{count}" in self.globals:
            count += 1
        return f"{stem}_{count}"

    @property
    def given_shared_bytes(self) -> int:
        """The bytes of dynamic shared memory that are the kernel's own; 0 if its memory is static."""
        if self.shared_bytes <= MAX_STATIC_SHARED:
            return 0
        return self.shared_bytes + -self.shared_bytes % MAX_SHARED_ALIGNMENT

    def text(self) -> str:
        """The module as LLVM's text."""
        given = self.given_shared_bytes
        if not given:
            return self._text().replace(OWN_BYTES.ref, "0")
        places = {**self.shared, DYNAMIC_SHARED: given}
        for name in self.shared:
            del self.globals[name]
        self.globals.pop(DYNAMIC_SHARED, None)
        text = re.sub(r"@([\w.$]+)", lambda found: _place(found, places), self._text())
        return f"{text}{_DECLARATION}\n".replace(OWN_BYTES.ref, str(given))

    def _text(self) -> str:
        notes = [
            f"!nvvm.annotations = !{{{', '.join(f'!{i}' for i in range(len(self.annotations)))}}}",
            *(f"!{i} = {note}" for i, note in enumerate(self.annotations)),
        ]
        return "\n".join(
            [
                'target triple = "nvptx64-nvidia-cuda"',
                *self.globals.values(),
                *self.functions.values(),
                *self.declarations.values(),
                "attributes #0 = { convergent nounwind }",
                *(notes if self.annotations else ()),
                *(self.line_table.text() if self.line_table is not None else ()),
                "",
            ]
        )
