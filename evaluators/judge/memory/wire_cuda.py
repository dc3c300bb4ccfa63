"""Tensors that cross processes in device memory: one driver allocation each, passed as an IPC handle.

The driver's own calls are used, not PyTorch's allocator, because an IPC handle opens the whole allocation it points into: each block
is therefore an allocation of its own, in multiples of the driver's 2 MiB granule, and holds one tensor.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

_GRANULE = 2 << 20


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * 64),)


class IpcError(Exception):
    """The driver refused to allocate, export or open a block."""


def _library() -> tuple[Any, str]:
    if torch.version.hip:
        return ctypes.CDLL("libamdhip64.so"), "hip"
    return ctypes.CDLL("libcuda.so.1"), "cu"


def _call(stem: str, *args: Any) -> None:
    library, family = _library()
    names = {
        "alloc": {"cu": "cuMemAlloc_v2", "hip": "hipMalloc"},
        "export": {"cu": "cuIpcGetMemHandle", "hip": "hipIpcGetMemHandle"},
        "open": {"cu": "cuIpcOpenMemHandle_v2", "hip": "hipIpcOpenMemHandle"},
        "free": {"cu": "cuMemFree_v2", "hip": "hipFree"},
    }
    name = names[stem][family]
    code = getattr(library, name)(*args)
    if code:
        raise IpcError(f"{name} failed with code {code}")


class _Area:
    """A device block as seen through the CUDA array interface."""

    def __init__(self, pointer: int, nbytes: int) -> None:
        self.pointer = pointer
        self.__cuda_array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (pointer, False), "version": 3, "strides": None,
        }  # fmt: skip


def _tensor(pointer: int, nbytes: int) -> Any:
    if not nbytes:
        return torch.empty(0, dtype=torch.uint8, device="cuda")
    tensor = torch.as_tensor(_Area(pointer, nbytes), device="cuda")
    if tensor.data_ptr() != pointer:
        raise IpcError("PyTorch copied a device block instead of sharing it")
    return tensor


def allocate(nbytes: int) -> tuple[Any, str]:
    """A new device block as a uint8 tensor, and its handle in hexadecimal. The block lives as long as the process."""
    torch.zeros(1, device="cuda")  # makes the primary context current on this thread
    size = -(-max(nbytes, 1) // _GRANULE) * _GRANULE
    pointer = ctypes.c_uint64()
    _call("alloc", ctypes.byref(pointer), ctypes.c_size_t(size))
    handle = _Handle()
    try:
        _call("export", ctypes.byref(handle), ctypes.c_uint64(pointer.value))
    except IpcError:
        _call("free", pointer)
        raise
    return _tensor(pointer.value, nbytes), bytes(handle).hex()


def attach(handle: str, nbytes: int) -> Any:
    """The block behind a handle from another process, as a uint8 tensor."""
    torch.zeros(1, device="cuda")
    pointer = ctypes.c_uint64()
    _call("open", ctypes.byref(pointer), _Handle.from_buffer_copy(bytes.fromhex(handle)), ctypes.c_uint(1))
    return _tensor(pointer.value, nbytes)
