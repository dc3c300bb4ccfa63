"""The baselines' side of timing, in the reference's process: eager and compiled calls, and what is done with their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from evaluators.errors import JudgeError
from evaluators.judge.batch import Batcher
from evaluators.judge.results import deliver


class Turns:
    """Batches of the baselines on one device.

    ``places`` makes tensors that take the results of a call. These are never the candidate's blocks: it must not find expected results
    there.
    """

    def __init__(self, batcher: Batcher, places: Callable[[], list[Any]]) -> None:
        self.batcher, self.make_places = batcher, places
        self.compiled: Any = None
        self.last: dict[int, Any] = {}
        self.places: dict[int, list[Any]] = {}

    def compile(self, model: Any, mode: str, arguments: Any) -> dict[str, Any]:
        """Compile the reference with torch.compile and run it; ``failed`` says why it could not."""
        begin = time.perf_counter()
        try:
            self.compiled = torch.compile(model, mode=None if mode == "default" else mode)
            with torch.no_grad():
                self.compiled(*arguments)
                self.compiled(*arguments)
            if self.batcher.cuda:
                torch.cuda.synchronize()
        except Exception as error:
            self.compiled = None
            return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        return {"seconds": time.perf_counter() - begin}

    def run(self, model: Any, arguments: Sequence[Any], message: dict[str, Any]) -> None:
        """A batch of calls over argument sets."""
        if model is None:
            raise JudgeError("the compiled baseline was asked for before it was made")
        self.last.clear()
        call = None if message["empty"] else model
        self.last = self.batcher.run(call, arguments, message["calls"], message["offset"])

    def collect(self, drop: bool) -> None:
        """Hand the last batch's results over as the candidate does; ``drop`` lets all of it go."""
        for number, result in self.last.items():
            if number not in self.places:
                self.places[number] = self.make_places()
            deliver(result, {"outputs": self.places[number]})
        if drop:
            self.last.clear()
            self.places.clear()
