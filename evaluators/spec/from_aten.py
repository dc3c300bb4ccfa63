"""An ATen overload (``aten::softmax.int``) to the normal form, with inputs chosen from its schema."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from evaluators.errors import SpecError
from evaluators.spec.kernel_spec import FloatType, InputSpec, KernelSpec

SIZE = 1024
_MATRIX = (SIZE, SIZE)
# Operators whose tensors are not all the same matrix.
_SHAPES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "bmm": {"self": (16, SIZE, SIZE), "mat2": (16, SIZE, SIZE)},
    "baddbmm": {"self": (16, SIZE, SIZE), "batch1": (16, SIZE, SIZE), "batch2": (16, SIZE, SIZE)},
    "mv": {"self": _MATRIX, "vec": (SIZE,)},
    "addmv": {"self": (SIZE,), "mat": _MATRIX, "vec": (SIZE,)},
    "dot": {"self": (SIZE * SIZE,), "tensor": (SIZE * SIZE,)},
    "linear": {"input": _MATRIX, "weight": _MATRIX, "bias": (SIZE,)},
    "addmm": {"self": (SIZE,), "mat1": _MATRIX, "mat2": _MATRIX},
    "outer": {"self": (SIZE,), "vec2": (SIZE,)},
}
_IMAGE = (16, 64, 56, 56)
_IMAGE_WORDS = ("pool2d", "upsample", "pixel_shuffle", "pixel_unshuffle", "instance_norm", "batch_norm", "group_norm")
# Integer arguments with one sensible reading.
_INTEGERS: Mapping[str, Any] = {
    "dim": -1, "dims": [-1], "diagonal": 0, "k": 16, "kernel_size": [2, 2], "output_size": [7, 7], "normalized_shape": [SIZE],
    "num_groups": 8, "chunks": 2, "start": 0, "axis": -1, "dim0": 0, "dim1": 1, "upscale_factor": 2, "downscale_factor": 2,
    "shifts": [1], "n": 1,
}  # fmt: skip
# Floating arguments with one sensible reading.
_FLOATS: Mapping[str, Any] = {
    "eps": 1e-5,
    "epsilon": 1e-5,
    "momentum": 0.1,
    "exponent": 2.0,
    "negative_slope": 0.01,
    "p": 0.5,
}
_POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt", "digamma", "lgamma", "xlogy")


def load_aten(name: str, dtype: FloatType | None = None) -> KernelSpec:
    """Normal form of ``aten::name`` or ``aten::name.overload`` on inputs of about a million elements.

    Raises SpecError for an unknown operator, one that changes its arguments, or an argument that cannot be guessed.
    """
    source, inputs = describe(name, name, {}, {}, {})
    label = name.removeprefix("aten::").replace(".", "_")
    return KernelSpec(label, "aten", source, inputs, dtype=dtype or "float32", description=name, origin=name)


def describe(
    name: str, file: str, tensors: Mapping[str, InputSpec], values: Mapping[str, Any], dims: Mapping[str, int]
) -> tuple[str, tuple[InputSpec, ...]]:
    """Source of ``Model`` around the operator, and its inputs. ``tensors`` and ``values`` replace guesses, by argument name."""
    overload = _find(name, file)
    schema = overload._schema
    packet = schema.name.removeprefix("aten::")
    known = [_argument_name(a) for a in schema.arguments]
    for given, part in ((tensors, "inputs"), (values, "args")):
        for key in given:
            if key not in known:
                raise SpecError(f"{file}: {part}.{key}: {name} takes no {key!r}; it takes {', '.join(known)}")
    inputs: list[InputSpec] = []
    call: list[str] = []
    for a in schema.arguments:
        if a.alias_info is not None and a.alias_info.is_write:
            raise SpecError(f"{file}: aten: {name} writes into {a.name!r}; use the functional overload")
        arg = _argument_name(a)
        if arg in values:
            value = repr(values[arg])
        elif arg in tensors or str(a.type) == "Tensor":
            inputs.append(tensors.get(arg) or _guess_tensor(packet, a.name, arg))
            value = arg
        elif a.has_default_value() or str(a.type).startswith("Optional"):
            if a.has_default_value():
                continue
            value = "[-1]" if arg == "dim" and "List" in str(a.type) else "None"
        else:
            value = repr(_guess_value(a, name, file))
        call.append(f"{arg if arg != 'input' else a.name}={value}")
    body = f"torch.ops.aten.{packet}.{schema.overload_name or 'default'}"
    arguments = ", ".join(_positional(schema, call))
    source = (
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        f"    def forward({', '.join(['self', *(i.name for i in inputs)])}):\n"
        f"        return {body}({arguments})\n"
    )
    _try_on_meta(source, tuple(inputs), name, file, dims)
    return source, tuple(inputs)


def _positional(schema: Any, call: list[str]) -> list[str]:
    """The leading arguments by position, the rest by name: ``self`` cannot be a keyword."""
    out: list[str] = []
    by_name = dict(c.split("=", 1) for c in call)
    leading = True
    for a in schema.arguments:
        if a.name not in by_name:
            leading = False
        elif leading and not a.kwarg_only:
            out.append(by_name[a.name])
        else:
            out.append(f"{a.name}={by_name[a.name]}")
    return out


def _argument_name(argument: Any) -> str:
    return "input" if argument.name == "self" else str(argument.name)


def _find(name: str, file: str) -> Any:
    import torch

    packet, _, overload = name.removeprefix("aten::").partition(".")
    operators = {n.removeprefix("aten::") for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")}
    packets = sorted({n.partition(".")[0] for n in operators})
    if not name.startswith("aten::") or packet not in packets:
        close = difflib.get_close_matches(packet, packets, n=1)
        hint = (
            f"did you mean {_either(_complete(close[0], overload))}?"
            if close
            else "write it as aten::name.overload, for example aten::softmax.int"
        )
        raise SpecError(f"{file}: aten: no operator {name!r}; {hint}")
    known = getattr(torch.ops.aten, packet)
    if (overload or "default") not in known.overloads():
        raise SpecError(f"{file}: aten: no overload {name!r}; there is {_either(_complete(packet))}")
    return getattr(known, overload or "default")


def _complete(packet: str, wished: str = "") -> list[str]:
    """Names of the operator's overloads that can be used as they stand: the one wished for where there is that, else all."""
    import torch

    overloads = [o for o in getattr(torch.ops.aten, packet).overloads() if not o.endswith("out")]
    if (wished or "default") in overloads:
        overloads = [wished or "default"]
    return [f"aten::{packet}.{o}" if o != "default" else f"aten::{packet}" for o in overloads]


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _guess_tensor(packet: str, schema_name: str, arg: str) -> InputSpec:
    shape = _SHAPES.get(packet, {}).get(schema_name)
    if shape is None:
        image = any(w in packet for w in _IMAGE_WORDS)
        shape = _IMAGE if image else _MATRIX
    if packet in _POSITIVE:
        return InputSpec(arg, shape, dist="uniform", args={"low": 0.01, "high": 10.0})
    if packet.startswith(("bitwise_", "gcd", "lcm")):
        return InputSpec(arg, shape, dtype="int64", dist="randint", args={"low": 0, "high": 1 << 20})
    if schema_name == "mask" or (packet == "where" and schema_name == "condition"):
        return InputSpec(arg, shape, dtype="bool", dist="bool", args={"p": 0.5})
    if schema_name in ("index", "indices"):
        return InputSpec(
            arg,
            (SIZE,) if packet in ("index_select", "embedding") else shape,
            "int64",
            "randint",
            {"low": 0, "high": SIZE},
        )
    return InputSpec(arg, shape)


def _guess_value(argument: Any, name: str, file: str) -> Any:
    kind = str(argument.type)
    table = (
        _INTEGERS
        if kind in ("int", "List[int]", "SymInt", "List[SymInt]")
        else _FLOATS
        if kind in ("float", "number")
        else {}
    )
    if argument.name in table:
        value = table[argument.name]
        return value if kind.startswith("List") == isinstance(value, list) or not isinstance(value, list) else value[0]
    if kind == "bool" and argument.name in ("keepdim", "half_to_float", "training", "train", "exclusive"):
        return False
    if "Tensor" in kind:
        raise SpecError(
            f"{file}: aten: argument {argument.name!r} of {name} is a list of tensors, which cannot be guessed; write a YAML spec "
            "with a reference that calls it"
        )
    raise SpecError(
        f"{file}: aten: argument {argument.name!r} ({kind}) of {name} cannot be guessed; write a YAML spec with 'aten: {name}' and "
        f"{argument.name!r} under args"
    )


def _try_on_meta(source: str, inputs: tuple[InputSpec, ...], name: str, file: str, dims: Mapping[str, int]) -> None:
    """Run shapes and dtypes only, so that arguments that do not fit are found here and not in a search."""
    from evaluators.spec.inputs import make_inputs
    from evaluators.spec.kernel_spec import Dim
    from evaluators.spec.model import build_model

    spec = KernelSpec(name, "aten", source, inputs, dims={k: Dim(v, v, v) for k, v in dims.items()}, origin=file)
    try:
        build_model(spec, "meta")(*make_inputs(spec, 0, "meta"))
    except NotImplementedError:
        return
    except Exception as e:  # operators and their meta kernels raise many kinds
        reason = str(e).strip().split("\n")[0][:200] or type(e).__name__
        raise SpecError(
            f"{file}: aten: {name} does not accept these arguments ({reason}); give inputs and args in a YAML spec with 'aten: {name}'"
        ) from e
