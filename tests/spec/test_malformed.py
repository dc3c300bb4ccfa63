"""Every malformed spec gives its own one line: file, field, what is wrong, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from malformed import CASES, GOOD

from evaluators.errors import SpecError
from evaluators.spec import load


@pytest.mark.parametrize("case", CASES)
def test_message(case: str, tmp_path: Path) -> None:
    content, message = CASES[case]
    file = tmp_path / "spec.yaml"
    file.write_text(content)
    with pytest.raises(SpecError) as caught:
        load(str(file))
    assert str(caught.value) == message.replace("FILE", str(file))
    assert "\n" not in message


def test_the_good_one_loads(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(GOOD)
    assert load(str(file)).dims["M"].value == 8
    assert load(str(file), profile="gpu").dims["M"].value == 16


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("no/such.yaml", "no/such.yaml: no such file; give the path of a YAML spec or KernelBench file"),
        ("layernrm", "layernrm: no such spec or file; did you mean 'layernorm'?"),
        ("starter/layernrm", "starter/layernrm: no such spec or file; did you mean 'starter/layernorm'?"),
        ("aten::sofmax.int", "aten::sofmax.int: aten: no operator 'aten::sofmax.int'; did you mean aten::softmax.int?"),
        ("aten::softmax", "aten::softmax: aten: no overload 'aten::softmax'; there is aten::softmax.int"),
        ("aten::relu_", "aten::relu_: aten: aten::relu_ writes into 'self'; use the functional overload"),
        (
            "aten::mul.Scalar",
            "aten::mul.Scalar: aten: argument 'other' (number) of aten::mul.Scalar cannot be guessed; write a YAML spec with "
            "'aten: aten::mul.Scalar' and 'other' under args",
        ),
    ],
)
def test_reference_to_nothing(ref: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(ref)
    assert str(caught.value) == message


def test_what_is_there_but_is_no_spec_is_called_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is a folder; `kernelevolve batch"):
        load(str(tmp_path))
    file = tmp_path / "spec.txt"
    file.write_text(GOOD)
    with pytest.raises(SpecError, match="a YAML spec ends in"):
        load(str(file))


def test_unknown_dtype_and_binary_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown floating type 'bf16'; did you mean 'bfloat16'"):
        load("softmax", dtype="bf16")
    file = tmp_path / "spec.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="cannot be read: it is not UTF-8 text"):
        load(str(file))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("inputs: {x: {shape: ['((2**64)**64)**64']}}", "inputs.x.shape: '((2**64)**64)**64' grows beyond 2^1000"),
        (f"inputs: {{x: {{shape: ['{'+'.join('1' * 5000)}']}}}}", "has 9999 characters; an expression has at most 400"),
        (f"inputs: {{x: {{shape: ['{'9' * 390}']}}}}", "outside 0 … 2^62"),
        ("[" * 5000 + "]" * 5000, "is nested too deeply"),
    ],
    ids=["towers of powers", "long sums", "digits", "deep YAML"],
)
def test_what_grows_without_bound_is_refused_at_once(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(f"{text}\nreference: |\n  def reference(x): return x\n")
    with pytest.raises(SpecError) as caught:
        load(str(file))
    assert says in str(caught.value)
