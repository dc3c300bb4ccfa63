"""Scalar operators of the loop IR in Triton: expression text, and the device functions it may call.

The functions are portable (NVIDIA, AMD, interpreter) and aim at the accuracy of PyTorch's own float32 operators: ``tl.exp`` alone loses
|x| units in the last place to the rounding of ``x * log2(e)``, ``tl.sqrt`` and ``/`` are approximate.
"""

from __future__ import annotations

from agent.errors import EmitError
from evaluators.ir.expr import Expr

FUNCTIONS: dict[str, str] = {
    "_exp": """
@triton.jit
def _exp(x):
    # exp2 of the product with log2(e), corrected for the product's rounding
    x = tl.where(x < -150.0, -150.0, tl.where(x > 150.0, 150.0, x))
    hi = x * 1.4426950408889634
    lo = tl.fma(x, 1.4426950408889634, -hi) + x * 1.9259629911e-08
    return tl.exp2(hi) * (1.0 + lo * 0.6931471805599453)
""",
    "_ex2": """
@triton.jit
def _ex2(x):
    # the bare instruction: without it, two more guard subnormal results
    if _ptx():
        return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        return tl.exp2(x)
""",
    "_rcp": """
@triton.jit
def _rcp(x):
    if _ptx():
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        return 1.0 / x
""",
    "_sealed": """
@triton.jit
def _sealed(x):
    # a float32 and the mark that it is there, in one word
    return (x.to(tl.float32).to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF) | 0x100000000
""",
    "_paired": """
@triton.jit
def _paired(x, y):
    # two float32 in one word; y is never zero where x is
    return (x.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (y.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF)
""",
    "_low": """
@triton.jit
def _low(word):
    return word.to(tl.int32).to(tl.float32, bitcast=True)
""",
    "_high": """
@triton.jit
def _high(word):
    return (word >> 32).to(tl.int32).to(tl.float32, bitcast=True)
""",
    "_arrived": """
@triton.jit
def _arrived(pointers):
    # adding zero reads a word from L2 once per program, and in one piece
    word = tl.atomic_add(pointers, tl.zeros(pointers.shape, tl.int64), sem="relaxed")
    while tl.min((word != 0).to(tl.int32), axis=0) == 0:
        word = tl.atomic_add(pointers, tl.zeros(pointers.shape, tl.int64), sem="relaxed")
    return word
""",
    "_exp_half": """
@triton.jit
def _exp_half(x):
    # within a few units of float32's last place near zero, and far inside 16-bit precision everywhere
    return _ex2(x * 1.4426950408889634)
""",
    "_sigmoid_half": """
@triton.jit
def _sigmoid_half(x):
    return _rcp(1.0 + _ex2(x * -1.4426950408889634))
""",
    "_tanh_half": """
@triton.jit
def _tanh_half(x):
    # exact to 1e-7 in absolute terms, so 1 + tanh keeps its digits; below 0.02 tanh(x) is x to 16 bits
    far = 1.0 - 2.0 * _rcp(1.0 + _ex2(x * 2.8853900817779268))
    return tl.where(tl.abs(x) < 0.02, x, far)
""",
    "_sigmoid_below": """
@triton.jit
def _sigmoid_below(x):
    # sigmoid(x) is 1 over this; bounded so that its product with the bounded value of a tanh is finite
    return 1.0 + _ex2(tl.minimum(x * -1.4426950408889634, 90.0, propagate_nan=tl.PropagateNan.ALL))
""",
    "_sigmoid_above": """
@triton.jit
def _sigmoid_above(x, below):
    return 1.0
""",
    "_tanh_below": """
@triton.jit
def _tanh_below(x):
    return 1.0 + _ex2(tl.minimum(x * 2.8853900817779268, 30.0, propagate_nan=tl.PropagateNan.ALL))
""",
    "_tanh_above": """
@triton.jit
def _tanh_above(x, below):
    # below - 2 is exp(2x) - 1; under 0.02, where that cancels, tanh(x) is x to 16 bits
    return tl.where(tl.abs(x) < 0.02, x * below, below - 2.0)
""",
    "_sigmoid": """
@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + _exp(-x))
""",
    "_tanh": """
@triton.jit
def _tanh(x):
    # an odd polynomial near zero, where 1 - 2 / (exp(2x) + 1) would cancel
    a = tl.abs(x)
    far = 1.0 - 2.0 / (_exp(2.0 * a) + 1.0)
    s = x * x
    p = tl.fma(s, tl.fma(s, tl.fma(s, 0.01641472, -0.05266173), 0.13320605), -0.33332944)
    near = tl.fma(x * s, p, x)
    return tl.where(a < 0.55, near, tl.where(x < 0, -far, far))
""",
    "_expm1": """
@triton.jit
def _expm1(x):
    u = _exp(x)
    small = tl.where(u == 1.0, x, (u - 1.0) * x / tl.log(u))
    return tl.where(tl.abs(x) < 0.5, small, u - 1.0)
""",
    "_log1p": """
@triton.jit
def _log1p(x):
    u = 1.0 + x
    near = tl.abs(x) < 0.5
    return tl.where(near, tl.where(u == 1.0, x, tl.log(u) * x / (u - 1.0)), tl.log(u))
""",
    "_round": """
@triton.jit
def _round(x):
    # adding and taking away 1.5 * 2^23 rounds half to even
    return tl.where(tl.abs(x) < 4194304.0, (x + 12582912.0) - 12582912.0, x)
""",
    "_trunc": """
@triton.jit
def _trunc(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))
""",
    "_pow": """
@triton.jit
def _pow(x, y):
    whole = tl.floor(y) == y
    odd = whole & (tl.floor(y * 0.5) * 2.0 != y)
    size = tl.exp2(y * tl.log2(tl.abs(x)))
    value = tl.where(x < 0, tl.where(whole, tl.where(odd, -size, size), float("nan")), size)
    return tl.where(y == 0, 1.0, value)
""",
    "_nanmax": """
@triton.jit
def _nanmax(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
""",
    "_nanmin": """
@triton.jit
def _nanmin(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
""",
    "_mul": """
@triton.jit
def _mul(a, b):
    return a * b
""",
    "_fold_max": """
@triton.jit
def _fold_max(a, b):
    return tl.maximum(a, b)
""",
    "_fold_min": """
@triton.jit
def _fold_min(a, b):
    return tl.minimum(a, b)
""",
}

_UNARY_FLOAT = {
    "neg": "-{0}", "abs": "tl.abs({0})", "exp": "_exp({0})", "exp2": "tl.exp2({0})", "expm1": "_expm1({0})",
    "log": "tl.log({0})", "log1p": "_log1p({0})", "log2": "tl.log2({0})", "sqrt": "tl.sqrt_rn({0})",
    "rsqrt": "tl.rsqrt({0})", "tanh": "_tanh({0})", "sigmoid": "_sigmoid({0})", "erf": "tl.erf({0})",
    "sin": "tl.sin({0})", "cos": "tl.cos({0})", "tan": "(tl.sin({0}) / tl.cos({0}))", "reciprocal": "(1.0 / {0})",
    "floor": "tl.floor({0})", "ceil": "tl.ceil({0})", "round": "_round({0})", "trunc": "_trunc({0})",
    "sign": "tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, 0.0))", "isnan": "({0} != {0})",
    "isinf": '(tl.abs({0}) == float("inf"))', "not": "({0} == 0)",
}  # fmt: skip
_UNARY_INT = {
    "neg": "-{0}", "abs": "tl.abs({0})", "floor": "{0}", "ceil": "{0}", "round": "{0}", "trunc": "{0}",
    "sign": "tl.where({0} > 0, 1, tl.where({0} < 0, -1, 0))", "isnan": "({0} != {0})", "isinf": "({0} != {0})",
    "not": "(~{0})",
}  # fmt: skip
_BINARY = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})",
    "lt": "({0} < {1})", "le": "({0} <= {1})", "gt": "({0} > {1})", "ge": "({0} >= {1})", "eq": "({0} == {1})",
    "ne": "({0} != {1})", "and": "({0} & {1})", "or": "({0} | {1})", "xor": "({0} ^ {1})", "pow": "_pow({0}, {1})",
}  # fmt: skip
_MIN_MAX = {
    "min": "tl.minimum({0}, {1}{2})",
    "max": "tl.maximum({0}, {1}{2})",
}


_HALF = ("exp", "sigmoid", "tanh")
PTX = """
@triton.constexpr_function
def _ptx():
    # whether bare PTX instructions can be used: compiling for an NVIDIA device, present or not, and not interpreting
    return not triton.knobs.runtime.interpret and tl.target_info.is_cuda()

"""


def apply(op: str, kind: str, args: list[str], nonnegative: bool = False, half: bool = False) -> str:
    """Text of one operator applied to argument texts; ``kind`` is that of the arguments.

    ``half`` says the results end in 16 bits, so that shorter forms do.

    ``nonnegative`` says both integer arguments are, which lets ``floordiv`` and ``mod`` use the hardware's truncating forms.
    Raises :class:`agent.errors.EmitError` for an operator with no portable Triton form.
    """
    floating = kind in ("f32", "f64")
    if half and kind == "f32" and op in _HALF:
        return f"_{op}_half({args[0]})"
    if len(args) == 1:
        table = _UNARY_FLOAT if floating else _UNARY_INT
        if op in table:
            if op == "not" and kind == "bool":
                return f"({args[0]} == 0)"
            return table[op].format(*args)
    elif op in _MIN_MAX:
        return _MIN_MAX[op].format(*args, ", propagate_nan=tl.PropagateNan.ALL" if floating else "")
    elif op in ("floordiv", "mod", "fmod"):
        return _division(op, floating, args[0], args[1], nonnegative)
    elif op in _BINARY:
        return _BINARY[op].format(*args)
    raise EmitError(f"operator {op!r} on {kind} has no Triton form here; keep it as a library call or write it by hand")


def _division(op: str, floating: bool, a: str, b: str, nonnegative: bool) -> str:
    if floating:
        quotient = f"_trunc({a} / {b})" if op == "fmod" else f"tl.floor({a} / {b})"
        return quotient if op == "floordiv" else f"({a} - {b} * {quotient})"
    if op == "fmod":
        return f"({a} % {b})"
    if nonnegative:
        return f"({a} // {b})" if op == "floordiv" else f"({a} % {b})"
    # the hardware truncates towards zero; Python floors
    wrong = f"(({a} % {b} != 0) & (({a} < 0) != ({b} < 0)))"
    if op == "floordiv":
        return f"({a} // {b} - {wrong}.to(tl.int32))"
    return f"({a} % {b} + tl.where({wrong}, {b}, 0))"


def one_reciprocal(node: Expr) -> bool:
    """Whether a node is a product of two values that each end in a reciprocal."""
    return node.op == "mul" and all(a.op in ("sigmoid", "tanh") for a in node.args)


def used(text: str) -> str:
    """Source of every function above that ``text`` calls, directly or through another."""
    wanted: list[str] = []

    def visit(body: str) -> None:
        for name, source in FUNCTIONS.items():
            called = f"{name}(" in body or f", {name})" in body or f", {name}," in body
            if called and name not in wanted and source is not body:
                visit(source)
                wanted.append(name)

    visit(text)
    return (PTX if any("_ptx()" in body for body in (text, *(FUNCTIONS[name] for name in wanted))) else "") + "\n".join(
        FUNCTIONS[name] for name in wanted
    )
