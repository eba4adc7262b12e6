"""What DLPack's capsules hold, as structures of C."""

from __future__ import annotations

import ctypes


class Tensor(ctypes.Structure):
    """``DLTensor``, with which the tensors of capsules named ``dltensor`` begin."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class VersionedTensor(ctypes.Structure):
    """``DLManagedTensorVersioned``, which capsules named ``dltensor_versioned`` hold."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


#: Whether a capsule holds something under a name.
is_named = ctypes.pythonapi.PyCapsule_IsValid
is_named.restype, is_named.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
#: The address that a capsule holds under a name; a ``ValueError`` if it has another name.
address_in = ctypes.pythonapi.PyCapsule_GetPointer
address_in.restype, address_in.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
