"""Names in generated code.

Names in a module are any text. What reads generated code knows identifiers: LLVM's text ends a name at
a quote and knows none with NUL, PTX has letters, digits, _ and $; and some names mean something to
them. So names go into generated code by way of ``object_name`` only.
"""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_LONGEST = 200
_ENCODED = "tw$"
#: Functions that compilers of C call of themselves, and what our own code for GPUs declares; names that
#: begin with __ are the compiler's, too.
_KNOWN = frozenset(
    {"malloc", "free", "memcpy", "memmove", "memset", "printf", "vprintf", "abort"}
    | {"dynamic_shared_memory"}
)


def object_name(name: str) -> str:
    """The identifier that stands for a name in generated code.

    Identifiers of letters, digits, _ and $ stand for themselves, if they are not too long and mean
    nothing to a compiler. All other names are spelled in hexadecimal where they must be, and no two
    names alike: longer ones than any assembler may like end in a hash.
    """
    if (
        _PLAIN.fullmatch(name)
        and len(name) <= _LONGEST
        and not name.startswith((_ENCODED, "__"))
        and name not in _KNOWN
    ):
        return name
    data = name.encode("utf-8", "surrogatepass")
    spelled = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"${byte:02x}" for byte in data
    )
    if len(spelled) > _LONGEST:
        spelled = f"{spelled[: _LONGEST // 2]}$${hashlib.sha256(data).hexdigest()}"
    return _ENCODED + spelled
