"""Reads arrays from NumPy files without trusting their headers."""

from __future__ import annotations

import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import numpy as np
from numpy.lib import format as npy

from tilewright.cli.session import UNREADABLE_INPUT, UsageError, reason
from tilewright.numerics.arrays import Array

_MAGIC = b"\x93NUMPY"
#: The exceptions that NumPy and the modules below it raise for malformed files.
_BROKEN = (
    *(ValueError, TypeError, ArithmeticError, LookupError, AttributeError, SyntaxError, EOFError),
    *(MemoryError, RuntimeError, struct.error, tokenize.TokenError, zlib.error, zipfile.BadZipFile),
)


def read_array(path: str, key: str | None = None, *, unknown: str) -> Array:
    """Return the array of an ``.npy`` file, or the named one of an ``.npz`` archive.

    Raises ``UsageError``, with the code ``unknown`` for a name that an archive lacks, and for files that cannot be
    read, are malformed, or claim more elements than they have. Memory is never allocated for missing data.
    """
    with _told(path):
        if key is None:
            _check_size(path)
        loaded = np.load(path, allow_pickle=False)
        if key is None:
            return np.asarray(loaded)
        with loaded:
            if key not in loaded.files:
                known = ", ".join(loaded.files)
                message = f"'{path}' has no array '{key}'; arrays: {known}"
                raise UsageError.because(message, code=unknown)
            return np.asarray(loaded[key])


def array_size(path: str) -> tuple[list[int], int]:
    """Return extents and bytes of the array in an ``.npy`` file, reading only the header.

    Raises ``UsageError`` like ``read_array``.
    """
    with _told(path):
        _check_size(path)
        held = np.load(path, mmap_mode="r", allow_pickle=False)
        return [int(extent) for extent in held.shape], int(held.nbytes)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn any error about a file into a ``UsageError``."""
    try:
        yield
    except OSError as error:
        raise UsageError.because(
            f"cannot read '{path}': {reason(error)}", code=UNREADABLE_INPUT
        ) from error
    except UsageError:
        raise
    except _BROKEN as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise UsageError.because(
            f"'{path}' is no NumPy file that can be read: {why}", code=UNREADABLE_INPUT
        ) from error


def _check_size(path: str) -> None:
    """Check that a file has the elements that its header claims. Raises ValueError if not."""
    with open(path, "rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            return
        stream.seek(0)
        version = npy.read_magic(stream)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        read = readers.get(version)
        if read is None:
            return
        shape, _, dtype = read(stream)
        if any(type(extent) is not int or extent < 0 for extent in shape):
            raise ValueError(f"its header has the shape {shape}")
        promised, there = prod(shape) * dtype.itemsize, _bytes_left(stream.fileno(), stream.tell())
        if promised > there:
            raise ValueError(f"its header promises {promised} bytes, and there are {there}")


def _bytes_left(descriptor: int, start: int) -> int:
    return max(os.fstat(descriptor).st_size - start, 0)
