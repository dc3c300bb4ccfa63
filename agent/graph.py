"""The state machine: retrieve → synthesize_prompt → generate → evaluate → reflect, around and around until terminate.

Every node may run again after a crash, so each asks the run store first and does only what is not recorded there. What a step is
for was decided and recorded by the ``reflect`` before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from agent import steps
from agent.runtime import Runtime
from agent.state import RunState, ShareState, StudioInput

RuntimeOf = Callable[[str], Runtime]
"""Run id → what the nodes of that run work with."""


class Begin(Protocol):
    """A first node that makes a run out of what a person typed in."""

    def __call__(self, state: StudioInput) -> RunState:
        """The state at step 0 of a new run."""
        ...


def build(runtime_of: RuntimeOf, begin: Begin | None = None) -> StateGraph[Any, Any, Any, Any]:
    """The uncompiled graph, which starts from a state with ``run_id`` and ``step``, or with ``begin`` from a :class:`StudioInput`."""

    def retrieve(state: RunState) -> RunState:
        return steps.retrieve(runtime_of(state["run_id"]), state["step"])

    def synthesize_prompt(state: RunState) -> RunState:
        return steps.synthesize_prompt(runtime_of(state["run_id"]), state["step"])

    def fan_out(state: RunState) -> list[Send] | Literal["evaluate"]:
        branches = [Send("generate", share) for share in steps.shares(runtime_of(state["run_id"]), state)]
        return branches or "evaluate"  # nothing to draw where a given kernel takes the whole budget

    def generate(state: ShareState) -> None:
        steps.generate(runtime_of(state["run_id"]), state)

    def evaluate(state: RunState) -> RunState:
        return steps.evaluate(runtime_of(state["run_id"]), state["step"])

    def reflect(state: RunState) -> RunState:
        return steps.reflect(runtime_of(state["run_id"]), state["step"])

    def onward(state: RunState) -> Literal["retrieve", "terminate"]:
        return "terminate" if state.get("ended") else "retrieve"

    def terminate(state: RunState) -> RunState:
        return steps.terminate(runtime_of(state["run_id"]), state["ended"])

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(RunState, input_schema=StudioInput if begin else RunState)
    graph.add_node("retrieve", retrieve)
    graph.add_node("synthesize_prompt", synthesize_prompt)
    graph.add_node("generate", generate, input_schema=ShareState)
    graph.add_node("evaluate", evaluate)
    graph.add_node("reflect", reflect)
    graph.add_node("terminate", terminate)
    if begin is None:
        graph.add_edge(START, "retrieve")
    else:
        graph.add_node("begin", begin, input_schema=StudioInput)
        graph.add_edge(START, "begin")
        graph.add_edge("begin", "retrieve")
    graph.add_edge("retrieve", "synthesize_prompt")
    graph.add_conditional_edges("synthesize_prompt", fan_out, ["generate", "evaluate"])
    graph.add_edge("generate", "evaluate")
    graph.add_edge("evaluate", "reflect")
    graph.add_conditional_edges("reflect", onward)
    graph.add_edge("terminate", END)
    return graph
