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

    ``arguments`` gives a case's inputs as the candidate sees them; ``places`` makes tensors that take the case's results. These are
    never the candidate's blocks: it must not find expected results there.
    """

    def __init__(self, batcher: Batcher, arguments: Callable[[int], Any], places: Callable[[int], list[Any]]) -> None:
        self.batcher, self.arguments, self.make_places = batcher, arguments, places
        self.compiled: Any = None
        self.last: dict[int, Any] = {}
        self.places: dict[int, list[Any]] = {}

    def compile(self, model: Any, mode: str, case: int) -> dict[str, Any]:
        """Compile the reference with torch.compile and run it; ``failed`` says why it could not."""
        begin = time.perf_counter()
        try:
            self.compiled = torch.compile(model, mode=None if mode == "default" else mode)
            arguments = self.arguments(case)
            with torch.no_grad():
                self.compiled(*arguments)
                self.compiled(*arguments)
            if self.batcher.cuda:
                torch.cuda.synchronize()
        except Exception as error:
            self.compiled = None
            return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        return {"seconds": time.perf_counter() - begin}

    def run(self, model: Any, order: Sequence[int], message: dict[str, Any]) -> None:
        """A batch of calls over the cases in ``order``; with ``results`` other than ``later`` they are described, as a candidate's are."""
        if model is None:
            raise JudgeError("the compiled baseline was asked for before it was made")
        call = None if message["empty"] else model
        arguments = [self.arguments(c) for c in order]
        self.last.clear()
        last = self.batcher.run(call, arguments, message["calls"], message["offset"])
        self.last = {order[number]: result for number, result in last.items()}
        if call is not None and message["results"] != "later":  # the candidate's clock holds the same
            for result in self.last.values():
                deliver(result, {"outputs": ()}, copy=False)

    def collect(self, drop: bool) -> None:
        """Hand the last batch's results over as the candidate does; ``drop`` lets all of it go."""
        for number, result in self.last.items():
            if number not in self.places:
                self.places[number] = self.make_places(number)
            deliver(result, {"outputs": self.places[number]})
        if drop:
            self.last.clear()
            self.places.clear()
