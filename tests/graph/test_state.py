"""The state is small plain values that any checkpoint serializer takes, and Studio's graph is the same machine."""

from __future__ import annotations

import importlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agent.graph import build
from agent.state import RunState

ROOT = Path(__file__).parents[2]
NODES = ["retrieve", "synthesize_prompt", "generate", "evaluate", "reflect", "terminate"]

STRICT_RUN = """
import sqlite3, sys, warnings
warnings.simplefilter("error")
from pathlib import Path
from tests.graph.test_run import World
folder = Path(sys.argv[1])
world = World(folder)
assert world.run(evaluations=6).recommendation == "kernel"
print("done")
"""


def test_a_whole_run_passes_under_strict_serialization(tmp_path: Path) -> None:
    """With LANGGRAPH_STRICT_MSGPACK any value that is not plain would be refused, and a warning is an error."""
    done = subprocess.run(
        [sys.executable, "-c", STRICT_RUN, str(tmp_path)],
        cwd=ROOT, env={"LANGGRAPH_STRICT_MSGPACK": "true", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
    # Position and ids only: a checkpoint stays far below the size of one kernel's source.
    with sqlite3.connect(tmp_path / "runs" / "toy-1" / "checkpoint.db") as connection:
        (largest,) = connection.execute("SELECT max(length(checkpoint)) FROM checkpoints").fetchone()
    assert largest < 4096


def test_every_field_of_the_state_round_trips() -> None:
    serializer = JsonPlusSerializer()
    state: RunState = {
        "run_id": "r", "step": 3, "phase": "debug", "parents": ["r.2.0"], "diagnosis": "spill", "passages": ["c"], "prompt_ref": "",
        "candidates": ["r.3.0"], "evaluations": 7, "best": "r.2.0", "best_fitness": 1.25, "reflection": "text", "ended": "",
        "recommendation": "",
    }  # fmt: skip
    assert set(state) == set(RunState.__annotations__)
    assert serializer.loads_typed(serializer.dumps_typed(state)) == state


def test_studio_serves_the_same_machine_without_a_checkpointer() -> None:
    path, _, name = json.loads((ROOT / "langgraph.json").read_text())["graphs"]["kernelevolve"].partition(":")
    studio = importlib.import_module(path.removeprefix("./").removesuffix(".py").replace("/", "."))
    graph = getattr(studio, name)
    assert graph.checkpointer is None
    own = build(lambda _run_id: None).compile()  # type: ignore[arg-type, return-value]
    assert [n for n in graph.get_graph().nodes if n in NODES] == NODES
    edges = {(e.source, e.target) for e in graph.get_graph().edges}
    assert {(e.source, e.target) for e in own.get_graph().edges} - edges == {("__start__", "retrieve")}
    assert set(graph.get_input_jsonschema()["properties"]) == {"spec", "target", "settings"}
