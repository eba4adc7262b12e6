"""NVIDIA's cuTile front end, loaded when first needed, and what Tilewright uses of it.

Everything that depends on the inside of the ``cuda-tile`` package stands here, so that a new version
of it is a matter of this file.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from tilewright.cutile.errors import RefusedError

PACKAGE = "cuda-tile"
#: Systems that no wheel is made for, by ``sys.platform``.
_WITHOUT_WHEELS = {"darwin": "macOS", "emscripten": "Pyodide"}
# Where the header of bytecode says that foreign functions are called.
_TAG, _PREVIEW = 10, 1
#: The first and the last release that this was tested with, as (major, minor).
OLDEST, NEWEST = (1, 6), (1, 7)
_TRIED = f"{PACKAGE} {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
_INSTALL = f"pip install '{PACKAGE}>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}'"

#: The GPU that programs which ask are told to run on. Kernels are compiled for none in particular,
#: so that cuTile accepts every element type. Results do not depend on it.
COMPUTE_CAPABILITY = (10, 0)


class FrontEndError(ImportError):
    """cuTile cannot be used: it is missing, or of a version that does not work."""


class UntriedVersionWarning(UserWarning):
    """cuTile is of a newer version than those that this Tilewright was tried with."""


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """The parts of cuTile that launches need.

    ``signature`` is the module of parameter constraints, ``dtypes`` the module of element types, ``release`` the first two numbers of
    the version.
    """

    kernel_type: type
    signature: ModuleType
    dtypes: ModuleType
    compile_module: ModuleType
    calling_convention: Any
    classify_constant: Callable[[object, object], object]
    release: tuple[int, ...]

    @property
    def bytecode_version(self) -> Any:
        """The newest version of Tile IR bytecode that cuTile writes."""
        dev = import_module("cuda.tile._cext").dev_features_enabled()
        return list(self.compile_module._all_bytecode_versions(dev))[-1]

    def compile(self, kernel: Any, constraints: Sequence[object]) -> tuple[bytes, str]:
        """The bytecode of a kernel for arguments of that kind, and the name of its entry.

        What cuTile refuses it refuses with its own exceptions. A :class:`RefusedError` for code that
        calls what is not Tile IR, and for a kernel whose source nobody has.
        """
        from cuda.tile._cext import default_tile_context

        signature = self.signature.KernelSignature(constraints, self.calling_convention)
        with warnings.catch_warnings():
            # A hint that this version of the bytecode cannot hold changes no result.
            warnings.filterwarnings("ignore", message=".*is ignored: requires tileiras.*")
            try:
                result = self.compile_module.compile_tile(
                    kernel._annotated_function,
                    (signature,),
                    None,
                    kernel._compiler_options,
                    default_tile_context,
                    bytecode_version=self.bytecode_version,
                    return_bytecode=True,
                    return_cubin=False,
                )
            except OSError as error:
                if "could not get source code" not in str(error):
                    raise
                raise RefusedError(_NO_SOURCE) from None
        if getattr(result, "library_lifecycle_providers", ()):  # since 1.7
            raise RefusedError("the kernel calls NVSHMEM, which is for several GPUs")
        bytecode = bytes(result.bytecode)
        if bytecode[_TAG] & _PREVIEW:
            raise RefusedError("the kernel calls functions that are not in Tile IR")
        return bytecode, result.kernel_signatures[0].symbol

    def compiler_error(self, message: str, position: tuple[str, int, int, str] | None) -> Exception:
        """What cuTile raises where the compiler that it hands bytecode to refuses it.

        ``position``: file, line, column (from 1) and function, where they are known.
        """
        exceptions = import_module("cuda.tile._exception")
        loc = exceptions.Loc.unknown()
        if position is not None:
            file, line, column, function = position
            described = exceptions.FunctionDesc(function, file, line, column)
            loc = exceptions.Loc(line, column - 1, file, function=described)
        version = self.bytecode_version.as_string()
        return exceptions.TileCompilerExecutionError(1, message, loc, "", f"Tile IR {version}")


#: Of a kernel, or of a function that it calls.
_NO_SOURCE = (
    "cuTile reads the source of kernels, and there is none: code that was given to `exec`, or to Python's "
    "interactive session before Python 3.13; write it to a file, or use IPython or a notebook"
)


def refusal(error: BaseException) -> tuple[str, tuple[str, int, int, str] | None] | None:
    """What cuTile's compiler says of a kernel that it refuses, and where: file, line, column (from 1)
    and function. None for any other exception."""
    kinds = import_module("cuda.tile._exception")
    if not isinstance(error, kinds.TileError):
        return None
    message = str(getattr(error, "message", "") or error).strip().partition("\n")[0]
    loc: Any = getattr(error, "loc", None)
    if loc is None or loc.is_unknown() or loc.filename is None:
        return message, None
    name = getattr(loc.function, "name", None) or ""
    return message, (loc.filename, loc.line, loc.col + 1, name)


@cache
def front_end() -> FrontEnd:
    """The installed cuTile; a :class:`FrontEndError` of one line where it cannot be used."""
    check_version()
    _import_torch()
    try:
        extension = import_module("cuda.tile._cext")
        return FrontEnd(
            kernel_type=import_module("cuda.tile").kernel,
            signature=import_module("cuda.tile.compilation._signature"),
            dtypes=import_module("cuda.tile._datatype"),
            compile_module=import_module("cuda.tile._compile"),
            calling_convention=extension.CallingConvention.cutile_python_v2(),
            classify_constant=extension.classify_constant,
            release=_release(metadata.version(PACKAGE)),
        )
    except (ImportError, AttributeError) as error:
        raise does_not_work(error) from error


def _import_torch() -> None:
    """Import torch, where it is installed, before cuTile's extension does: what interrupts it there,
    such as Ctrl-C, is lost. A torch that does not work is left to the program that wants it."""
    if find_spec("torch") is not None:
        with suppress(Exception):
            import_module("torch")


def does_not_work(error: Exception) -> FrontEndError:
    """The error for a cuTile that lacks something which the tried versions have."""
    return FrontEndError(
        f"{PACKAGE} {metadata.version(PACKAGE)} is installed but does not work: {error}; "
        f"tried with {_TRIED}: {_INSTALL}"
    )


def check_version() -> None:
    """A :class:`FrontEndError` where no ``cuda-tile`` that may work is installed.

    A newer one than those tried may work, and is used with a warning.
    """
    try:
        installed = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        raise FrontEndError(_missing()) from None
    release = _release(installed)
    if release < OLDEST:
        raise FrontEndError(
            f"{PACKAGE} {installed} is too old; this Tilewright was tried with {_TRIED}: {_INSTALL}"
        )
    if release > NEWEST:
        warnings.warn(
            f"{PACKAGE} {installed} is newer than what this Tilewright was tried with, {_TRIED}; "
            f"if it does not work: {_INSTALL}",
            UntriedVersionWarning,
            stacklevel=2,
        )


def _missing() -> str:
    if sys.platform in _WITHOUT_WHEELS:
        system = _WITHOUT_WHEELS[sys.platform]
        return f"cuTile is not installed, and NVIDIA has no {PACKAGE} for {system}"
    return f"cuTile is not installed; Tilewright was tried with {_TRIED}: {_INSTALL}"


def _release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version; 0 where there is none."""
    parts = [*version.split("."), "0"][:2]
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in parts)
