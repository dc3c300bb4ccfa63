"""Malformed specs, each with the one line a person should read. ``FILE`` stands for the path of the file."""

GOOD = """
dims:
  M: {cpu: 8, gpu: 16, range: [1, 64]}
inputs:
  x: {shape: [M, 4]}
reference: |
  def reference(x):
      return x * 2
"""

# name: (content, message)
CASES: dict[str, tuple[str, str]] = {
    "unknown key": (
        GOOD + "tolerence: {atol: 1e-3, rtol: 1e-3}\n",
        "FILE: tolerence: unknown key; did you mean 'tolerance'?",
    ),
    "unknown input key": (
        GOOD.replace("{shape: [M, 4]}", "{shape: [M, 4], dtyp: int64}"),
        "FILE: inputs.x.dtyp: unknown key; did you mean 'dtype'?",
    ),
    "repeated key": (
        GOOD + "dims: {M: 4}\n",
        "FILE: line 9: key 'dims' appears twice; fix the YAML there",
    ),
    "YAML syntax": (
        "inputs: {x: [1, 2\nreference: f\n",
        "FILE: line 2: expected ',' or ']', but got ':'; fix the YAML there",
    ),
    "not a mapping": (
        "- 1\n- 2\n",
        "FILE: the file holds a list; write a mapping with 'reference' and 'inputs'",
    ),
    "empty file": (
        "",
        "FILE: the file is empty; write a mapping with 'reference' and 'inputs'",
    ),
    "no reference": (
        GOOD.split("reference", maxsplit=1)[0],
        "FILE: reference: is missing; add Python code ('reference: |'), module:attr, or 'aten'",
    ),
    "dim not declared": (
        GOOD.replace("[M, 4]", "[N, 4]"),
        "FILE: inputs.x.shape: dim 'N' is not declared; declared dims are M",
    ),
    "dim misspelt, none declared": (
        "inputs: {x: [B]}\nreference: |\n  def f(x): return x\n",
        "FILE: inputs.x.shape: dim 'B' is not declared; declare it under dims",
    ),
    "shape is not arithmetic": (
        GOOD.replace("[M, 4]", "['M.real', 4]"),
        "FILE: inputs.x.shape: 'M.real' may use only dims, numbers and + - * / // ** ( ); declared dims are M",
    ),
    "shape has a fraction": (
        GOOD.replace("[M, 4]", "['M/3', 4]"),
        "FILE: inputs.x.shape: size 'M/3' is 2.6666666666666665, not an integer; use // for division; declared dims are M",
    ),
    "shape is negative": (
        GOOD.replace("[M, 4]", "['M-9', 4]"),
        "FILE: inputs.x.shape: size 'M-9' is -1, outside 0 … 2^62; declared dims are M",
    ),
    "shape is text": (
        GOOD.replace("[M, 4]", "M"),
        "FILE: inputs.x.shape: is text ('M'); write a list of sizes such as [M, 1024]",
    ),
    "shape holds a float": (
        GOOD.replace("[M, 4]", "[M, 4.5]"),
        "FILE: inputs.x.shape.1: is a number (4.5); write a list of sizes such as [M, 1024]",
    ),
    "dtype unknown": (
        GOOD.replace("[M, 4]", "[M, 4], dtype: flot32"),
        "FILE: inputs.x.dtype: unknown dtype 'flot32'; did you mean 'float32'?",
    ),
    "spec dtype unknown": (
        GOOD + "dtype: fp16\n",
        "FILE: dtype: 'fp16' is not accepted; did you mean 'float16'?",
    ),
    "mode unknown": (
        GOOD + "mode: training\n",
        "FILE: mode: 'training' is not accepted; did you mean 'train'?",
    ),
    "dist unknown": (
        GOOD.replace("[M, 4]", "[M, 4], dist: nomal"),
        "FILE: inputs.x.dist: unknown distribution 'nomal'; did you mean 'normal'?",
    ),
    "dist of another dtype": (
        GOOD.replace("[M, 4]", "[M, 4], dtype: int64, dist: normal"),
        "FILE: inputs.x.dist: 'normal' does not make int64; these do: zeros, ones, constant, randint, permutation, "
        "bool, offsets, class_indices, sorted_uniform",
    ),
    "integer without dist": (
        GOOD.replace("[M, 4]", "[M, 4], dtype: int64"),
        "FILE: inputs.x.dist: is missing; int64 has no usual distribution, say which (randint, offsets, …)",
    ),
    "dist argument unknown": (
        GOOD.replace("[M, 4]", "[M, 4], args: {sigma: 1}"),
        "FILE: inputs.x.args.sigma: 'normal' takes no 'sigma'; known are mean, std",
    ),
    "dist argument missing": (
        GOOD.replace("[M, 4]", "[M, 4], dtype: int64, dist: randint"),
        "FILE: inputs.x.args.high: 'randint' needs it; add it",
    ),
    "range empty": (
        GOOD.replace("[M, 4]", "[M, 4], dist: uniform, args: {low: 1, high: 1}"),
        "FILE: inputs.x.args: low 1 is not below high 1; widen the range",
    ),
    "range infinite": (
        GOOD.replace("[M, 4]", "[M, 4], dist: uniform, args: {low: 0, high: .inf}"),
        "FILE: inputs.x.args.high: inf is not a finite number; write a finite one",
    ),
    "range not a number": (
        GOOD.replace("[M, 4]", "[M, 4], args: {std: .nan}"),
        "FILE: inputs.x.args.std: nan is not a finite number; write a finite one",
    ),
    "argument of an unknown dim": (
        GOOD.replace("[M, 4]", "[M, 4], args: {std: K**-0.5}"),
        "FILE: inputs.x.args: dim 'K' in 'K**-0.5' is not declared; declared dims are M",
    ),
    "fraction beyond one": (
        GOOD.replace("[M, 4]", "[M, 4], dtype: int64, dist: class_indices, args: {classes: 3, ignore_fraction: 2}"),
        "FILE: inputs.x.args: ignore_fraction is 2; it is a fraction between 0 and 1",
    ),
    "offsets of two axes": (
        GOOD.replace("[M, 4]", "[M, 4], dtype: int64, dist: offsets, args: {total: 5}"),
        "FILE: inputs.x.args: offsets need a shape [segments + 1], not [8, 4]; write one size",
    ),
    "dim range reversed": (
        GOOD.replace("[1, 64]", "[64, 1]"),
        "FILE: dims.M.range: [64, 1] is empty; write [low, high] with low ≤ high",
    ),
    "dim outside its range": (
        GOOD.replace("[1, 64]", "[1, 4]"),
        "FILE: dims.M: 8 lies outside its range [1, 4]; widen the range or change the value",
    ),
    "dim without this profile": (
        GOOD.replace("cpu: 8, ", ""),
        "FILE: dims.M: has no value for profile 'cpu'; add 'cpu: …' or 'value: …'",
    ),
    "dim in two forms": (
        GOOD.replace("cpu: 8", "cpu: 8, value: 8"),
        "FILE: dims.M: has a value and profile values; keep one form",
    ),
    "dim is text": (
        GOOD.replace("cpu: 8", "cpu: eight"),
        "FILE: dims.M.cpu: is text ('eight'); write an integer",
    ),
    "range of one": (
        GOOD.replace("[1, 64]", "[1]"),
        "FILE: dims.M.range.1: is missing; add it",
    ),
    "tolerance negative": (
        GOOD + "tolerance: {atol: -1.0, rtol: 0.0}\n",
        "FILE: tolerance.atol: is -1.0; it must be at least 0",
    ),
    "tolerance incomplete": (
        GOOD + "tolerance: {atol: 1e-5}\n",
        "FILE: tolerance.rtol: is missing; add it",
    ),
    "reference syntax": (
        GOOD.replace("return x * 2", "return x *"),
        "FILE: reference: line 2: invalid syntax; fix the Python there",
    ),
    "reference is a number": (
        GOOD.split("reference", maxsplit=1)[0] + "reference: 4\n",
        "FILE: reference: is an integer (4); write Python source as text ('reference: |') or module:attr",
    ),
    "reference defines nothing": (
        GOOD.split("reference", maxsplit=1)[0] + "reference: |\n  y = 3\n",
        "FILE: reference: defines no function; write 'def reference(…): …' or 'class Model(nn.Module)'",
    ),
    "reference ambiguous": (
        GOOD.split("reference", maxsplit=1)[0] + "reference: |\n  def f(x): return x\n  def g(x): return x\n",
        "FILE: reference: defines f, g; name the one to compute 'reference'",
    ),
    "input not taken": (
        GOOD.replace("inputs:", "inputs:\n  y: [M]"),
        "FILE: inputs.y: reference takes no 'y'; it takes x",
    ),
    "input not described": (
        GOOD.replace("reference(x)", "reference(x, z)"),
        "FILE: inputs.z: reference needs 'z'; describe it under inputs or parameters",
    ),
    "star arguments": (
        GOOD.replace("reference(x)", "reference(*x)"),
        "FILE: reference: reference takes *args or **kwargs; name its arguments",
    ),
    "input is a parameter too": (
        GOOD + "parameters: {x: [M]}\n",
        "FILE: parameters.x: is an input too; keep one",
    ),
    "module missing": (
        GOOD.split("reference", maxsplit=1)[0] + "reference: no_such_module:f\n",
        "FILE: reference: no Python module 'no_such_module'; put no_such_module.py beside the spec or install it",
    ),
    "args without aten": (
        GOOD + "args: {dim: 1}\n",
        "FILE: args: only an 'aten' spec has them; write values into the reference",
    ),
    "reference and aten": (
        GOOD + "aten: aten::relu\n",
        "FILE: aten: the file has a reference too; keep one",
    ),
    "inputs are a list": (
        "inputs: [x]\nreference: |\n  def f(x): return x\n",
        "FILE: inputs: is a list; write a mapping from input names to {shape, dtype, dist, args}",
    ),
    "input name": (
        GOOD.replace("x: {shape", "x-1: {shape"),
        "FILE: inputs.x-1: 'x-1' is no Python identifier; rename it",
    ),
}
