"""Guards around what a candidate allocates while its results are checked: a write outside of a tensor is seen, a read meets NaN or a fault.

Two runs guard in two ways. In one a tensor lies between two pages of NaN, whose bytes are looked at afterwards: what is wrong can be
said. In the other it ends at a page that may not be touched, so that steps farther away, and reads whose values are of no
consequence, fault.
"""

from __future__ import annotations

import mmap
from typing import Any

import torch

from evaluators.judge.memory import fence

_SMALL = 0x2A
"""The other byte of zones: as a number small and finite, so that an addition changes it (NaN plus anything stays as it is)."""
_EMPTY = frozenset("empty empty_strided empty_like new_empty new_empty_strided".split())
_FRESH = _EMPTY | frozenset(
    "zeros zeros_like new_zeros ones ones_like full full_like new_full clone _to_copy".split()
)  # fmt: skip


class Guard:
    """The guards of one run. ``poison`` fills what is not initialised, and decides how is guarded."""

    def __init__(self, poison: int) -> None:
        self.poison = poison
        self.fenced = poison != fence.SLACK
        self.zone = _SMALL if self.fenced else fence.SLACK
        self.held: list[tuple[Any, int, int, int, int]] = []

    def around(self, operator: str, made: Any) -> Any:
        """A fresh CPU tensor moved between guards; anything else as it is."""
        if operator not in _FRESH or type(made) is not torch.Tensor or made.device.type != "cpu":
            return made
        if made.layout != torch.strided or not made.numel() or made.storage_offset():
            return made
        size = made.untyped_storage().nbytes()
        inner = torch.empty(0, dtype=made.dtype)
        inner.set_(self._place(size).untyped_storage(), 0, made.shape, made.stride())
        if operator not in _EMPTY:
            inner.copy_(made)
        return inner

    def _place(self, size: int) -> Any:
        """``size`` bytes between guards, as a tensor whose storage is just these."""
        whole = fence.pages(size)
        side = fence.WIDTH if self.fenced else fence.PAGE
        area = mmap.mmap(-1, whole + 2 * side, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        begin = side + (fence.spare(size) if self.fenced else 0)
        first = side if self.fenced else 0
        last = side + whole + (0 if self.fenced else side)
        area[first:begin] = bytes([self.zone]) * (begin - first)
        area[begin + size : last] = bytes([self.zone]) * (last - begin - size)
        inner = torch.frombuffer(area, dtype=torch.uint8, offset=begin, count=size)
        inner.fill_(self.poison)
        if self.fenced:
            fence.forbid(area, 0)
            fence.forbid(area, side + whole)
        self.held.append((area, first, begin, size, last))
        return inner

    def damage(self) -> str:
        """What was written outside of tensors, in words; empty where nothing was."""
        for area, first, begin, size, last in self.held:
            for name, start, stop in (("before", first, begin), ("after", begin + size, last)):
                zone = area[start:stop]
                if zone == bytes([self.zone]) * len(zone):
                    continue
                wrong = [i for i, byte in enumerate(zone) if byte != self.zone]
                gap = stop - start - wrong[-1] if name == "before" else wrong[0] + 1
                return (
                    f"writes outside of a tensor it allocated: {len(wrong)} byte(s) {name} one of {size} bytes are changed, the "
                    f"nearest {gap} byte(s) away; bound the loop or mask the store"
                )
        return ""


def released(tensor: Any) -> None:
    """Give a guarded tensor memory that can grow, which guarded memory cannot."""
    if tensor.untyped_storage().resizable():
        return
    plain = tensor.clone()
    tensor.set_(plain.untyped_storage(), 0, tensor.shape, plain.stride())
