"""Many sets of the same tensors in one block: how they lie there, for the process that fills them and for the one that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evaluators.judge.memory import wire
from evaluators.judge.memory.fence import ALIGNMENT

_PAGE = 4096


@dataclass(frozen=True)
class Layout:
    """Where the tensors of each set lie: ``pitch`` bytes from set to set, ``begins`` bytes from a set's begin to each tensor, and how
    each lies (:func:`evaluators.judge.memory.wire.describe`)."""

    pitch: int
    begins: tuple[int, ...]
    about: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, about: Sequence[dict[str, Any]], sizes: Sequence[int]) -> Layout:
        """The layout of tensors described by ``about``, of ``sizes`` bytes each."""
        begins: list[int] = []
        end = 0
        for size in sizes:
            begins.append(end)
            end += -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        if (
            end % _PAGE == 0
        ):  # sets that all begin at the same place of a page would fight for the same lines of a cache
            end += 3 * ALIGNMENT
        return cls(max(end, ALIGNMENT), tuple(begins), tuple(about))

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Layout:
        return cls(plain["pitch"], tuple(plain["begins"]), tuple(plain["about"]))

    def to_json(self) -> dict[str, Any]:
        return {"pitch": self.pitch, "begins": list(self.begins), "about": list(self.about)}

    def views(self, block: Any, number: int) -> list[Any]:
        """The tensors of set ``number`` over a uint8 block."""
        return [self._at(block, number, i) for i in range(len(self.about))]

    def rows(self, block: Any, index: int, sets: int, extent: int) -> Any:
        """Tensor ``index`` of the first ``sets`` sets as one matrix: a row of ``extent`` elements for each set."""
        dtype = getattr(torch, self.about[index]["dtype"])
        begin, step = self.begins[index] // dtype.itemsize, self.pitch // dtype.itemsize
        return torch.empty(0, dtype=dtype, device=block.device).set_(
            block.untyped_storage(), begin, (sets, extent), (step, 1)
        )

    def _at(self, block: Any, number: int, index: int) -> Any:
        about = self.about[index]
        dtype = getattr(torch, about["dtype"])
        begin = number * self.pitch + self.begins[index]
        return torch.empty(0, dtype=dtype, device=block.device).set_(
            block.untyped_storage(), begin // dtype.itemsize, about["shape"], about["stride"]
        )


def arguments(tree: Any, layout: Layout, block: Any, sets: int) -> list[Any]:
    """Argument lists of all sets in a block."""
    return [wire.rebuild(tree, layout.views(block, k)) for k in range(sets)]
