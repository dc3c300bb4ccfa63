"""Trace a spec's reference to the loop IR: torch.export on meta tensors, core ATen decompositions, lowering, fusion."""

from __future__ import annotations

import warnings
from typing import Any

from evaluators.errors import TraceError
from evaluators.ir.kernel import Buffer, Program
from evaluators.ir.lower import buffer_of, dtype_name, lower_node
from evaluators.ir.values import KIND_OF, Lowering, Value
from evaluators.spec.kernel_spec import KernelSpec

KEEP = (
    "bucketize",
    "segment_reduce",
    "embedding",
    "scaled_dot_product_attention",
    "lstm",
    "gru",
    "rnn_tanh",
    "rnn_relu",
)
"""Operators whose decomposition would hide or unroll what they compute."""

LARGEST_CONSTANT = 4096
"""Elements of a constant tensor that may be written into a candidate's source."""


def trace(spec: KernelSpec) -> Program:
    """The spec's reference as a Program, specialised for its shapes and dtypes.

    Raises TraceError where the reference cannot be exported (data-dependent control flow, buffer updates, unsupported Python).
    """
    from evaluators.spec.inputs import make_inputs
    from evaluators.spec.model import build_model

    if spec.direction != "forward":
        raise TraceError(
            f"{spec.name}: the loop IR has no gradients; use the llm or manual proposer for {spec.direction}"
        )
    model = build_model(spec, "meta")
    inputs = make_inputs(spec, seed=0, device="meta")
    return trace_module(model, tuple(inputs), spec.name)


def trace_module(model: Any, inputs: tuple[Any, ...], name: str) -> Program:
    """Trace a module on example inputs (values are not read; meta tensors will do)."""
    import torch
    from torch.export import export
    from torch.export.graph_signature import InputKind, OutputKind

    table = torch.export.default_decompositions()
    for key in list(table):
        if any(key.name().removeprefix("aten::").split(".")[0] in (k, f"_{k}") for k in KEEP):
            table.pop(key)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            exported = export(model, inputs, strict=False).run_decompositions(table)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TraceError(f"{name}: the reference cannot be traced ({first}); use the llm or manual proposer") from error

    low = Lowering()
    env: dict[str, Any] = {}
    flat = list(torch.utils._pytree.tree_leaves(inputs))
    position = 0
    for item in exported.graph_signature.input_specs:
        node_name = item.arg.name
        if item.kind is InputKind.USER_INPUT:
            example = flat[position]
            if isinstance(example, torch.Tensor):
                env[node_name] = _add(low, f"x{position}", example, "input", position)
            else:
                env[node_name] = example
            position += 1
        elif item.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            held = exported.state_dict.get(item.target, exported.constants.get(item.target))
            env[node_name] = _add(low, f"p{len(low.buffers)}", held, "param", item.target)
        elif item.kind is InputKind.CONSTANT_TENSOR:
            held = exported.constants[item.target]
            if held.numel() > LARGEST_CONSTANT or held.device.type == "meta":
                raise TraceError(
                    f"{name}: constant tensor {item.target} is too large to specialise on; make it a buffer"
                )
            env[node_name] = _add(low, f"q{len(low.buffers)}", held, "constant", held.tolist())
        else:
            raise TraceError(f"{name}: unsupported graph input {item.kind.name}")
    for out in exported.graph_signature.output_specs:
        if out.kind is not OutputKind.USER_OUTPUT:
            raise TraceError(
                f"{name}: the reference updates {out.target or 'an input'} in place, which generated kernels do not; "
                "use mode: eval, or the llm or manual proposer"
            )

    returned: tuple[Any, ...] = ()
    for node in exported.graph.nodes:
        if node.op == "call_function":
            args = torch.fx.node.map_arg(node.args, lambda n: env[n.name])
            kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: env[n.name])
            env[node.name] = lower_node(low, node, tuple(args), dict(kwargs))
        elif node.op == "output":
            plain = [n for n in node.args[0] if not isinstance(n, torch.fx.Node)]
            if plain:
                raise TraceError(
                    f"{name}: the reference returns {plain[0]!r} beside tensors, which a generated kernel cannot"
                )
            returned = tuple(env[n.name] for n in node.args[0])
    if not all(isinstance(v, Value) for v in returned):
        raise TraceError(f"{name}: the reference returns something other than tensors, which a generated kernel cannot")
    outputs = [_output(low, v, i) for i, v in enumerate(returned)]
    spec_out = exported.call_spec.out_spec
    single = spec_out is not None and spec_out.is_leaf()
    return Program(name, low.buffers, tuple(low.steps), tuple(outputs), "tensor" if single else "tuple", len(flat))


def _add(low: Lowering, name: str, tensor: Any, role: Any, source: Any) -> Value:
    dtype = dtype_name(tensor.dtype)
    if dtype not in KIND_OF:
        raise TraceError(f"dtype {dtype} is not supported by the loop IR; supported: {', '.join(KIND_OF)}")
    low.buffers[name] = Buffer(name, tuple(tensor.shape), dtype, role, source)
    return low.buffer_value(low.buffers[name])


def _output(low: Lowering, value: Value, position: int) -> str:
    """Give a returned value a buffer of its own role; an input returned as it is gets a copy."""
    from evaluators.ir.fuse import realize

    before = set(low.buffers)
    name = buffer_of(low, value)
    held = low.buffers[name]
    if name in before and (held.role in ("input", "param", "constant") or held.role == "output"):
        fresh = low.fresh("y")
        low.buffers[fresh] = Buffer(fresh, held.shape, held.dtype, "output", position)
        realize(low, value, low.buffers[fresh])
        return fresh
    low.buffers[name] = Buffer(name, held.shape, held.dtype, "output", position)
    return name
