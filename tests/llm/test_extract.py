"""Whatever is written around a module, the module comes out as it was; what is no module becomes a candidate that says why."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.proposers.extract import blocks, extract, without_thoughts
from evaluators.errors import SourceRejected
from evaluators.languages import cpp, get

TRITON = ("triton",)
CPP = ("cpp",)

NATIVE = 'extern "C" void f(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = x[i]; }\n'
BODY = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _native().f(_address(x), _address(y), x.numel())
        return y
"""
MODULE = f'SOURCES = {{\n    "kernel.cpp": r"""{NATIVE}""",\n}}\n\n{BODY}'

# Modules of many shapes: fences inside strings and comments, helpers before and after, every kind of literal.

names = st.sampled_from(["a", "kernel", "Helper", "x1"])
words = st.text(
    st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=30
)
inner = (
    st.lists(st.one_of(words, st.sampled_from(["```", "```python", "~~~", "# class ModelNew", "</b>"])), max_size=5)
    .map("\n".join)
    .filter(
        lambda text: not re.search(r"^[ \t]*class[ \t]+ModelNew", text, re.MULTILINE)
    )  # nobody could tell which is meant
)
literals = inner.filter(lambda t: '"""' not in t and not t.endswith(('"', "\\"))).map(lambda t: f'TEXT = r"""{t}"""')
comments = words.map(lambda t: f"# {t}")
definitions = st.one_of(
    literals,
    comments,
    names.map(lambda n: f"def {n}(x):\n    return x"),
    names.map(lambda n: f"@jit\ndef {n}(p):\n    pass"),
    st.integers().map(lambda i: f"VALUE = {i}"),
)
model = inner.filter(lambda t: '"""' not in t and not t.endswith(('"', "\\"))).map(
    lambda t: f'class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        s = r"""{t}"""\n        return x'
)
modules = st.tuples(st.lists(definitions, max_size=4), model, st.lists(definitions, max_size=2)).map(
    lambda parts: "\n\n".join(["import torch", *parts[0], parts[1], *parts[2]]).rstrip() + "\n"
)
prose = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "Here is the kernel.",
                "# Heading",
                "- a list",
                "It's faster; don't worry.",
                "Idea: fuse it all",
                "",
                "`x = 1`",
                "1. step",
            ]
        ),
        st.text("abcdefg .,:'()", max_size=40),
    ),
    max_size=5,
).map("\n".join)
other_blocks = st.sampled_from(
    [
        "",
        "```\nsome output\n```",
        "```bash\npip install triton\n```",
        "```python\nimport torch\nprint(1)\n```",
        "```python\nx = ModelNew()\n```",
        "~~~\nlog\n~~~",
    ]
)
fences = st.sampled_from(
    [
        ("```python", "```"),
        ("```py", "```"),
        ("```", "```"),
        ("~~~python", "~~~"),
        ("````python", "````"),
        ("```Python title=a.py", "```"),
    ]
)
thoughts = st.sampled_from(
    [
        "",
        "<think>\nmaybe ```python\nclass ModelNew:\n  oops\n</think>\n",
        "hm, let me see\n</think>\n",
        "<thinking>ok</thinking>\n",
    ]
)


@settings(max_examples=150)
@given(modules, fences, thoughts, prose, other_blocks, other_blocks, prose, st.booleans())
def test_a_fenced_module_is_recovered_exactly(
    module: str, fence: tuple[str, str], thought: str, before: str, first: str, second: str, after: str, closed: bool
) -> None:
    end = [fence[1], second, after] if closed else []
    reply = thought + "\n".join([before, first, fence[0], module.rstrip("\n"), *end])
    found = extract(reply, TRITON)
    assert found.problem == ""
    assert found.source == module


@settings(max_examples=60)
@given(
    modules.filter(lambda m: "```" not in m and "~~~" not in m),
    st.sampled_from(["", "Sure, here it is.\n", "The kernel:\n\n"]),
    st.sampled_from(["", "Hope this helps!\n", "\nDone\n", "\nIt's 2x faster.\n"]),
)
def test_a_module_without_fences_is_recovered(module: str, before: str, after: str) -> None:
    assert extract(before + module + after, TRITON).source == module


@settings(max_examples=60)
@given(modules, prose)
def test_a_reply_wrapped_in_a_fence_of_its_own_gives_the_inner_module(module: str, before: str) -> None:
    reply = f"````markdown\n{before}\n```python\n{module}```\n````\n"
    assert extract(reply, TRITON).source == module


@settings(max_examples=200)
@given(
    st.text(max_size=400)
    | st.lists(
        st.sampled_from(["```", "~~~", "# class ModelNew", '"""', "import x", "<think>", "\x00", "(", "\\"])
    ).map("\n".join)
)
def test_any_text_becomes_a_candidate_in_an_asked_language(reply: str) -> None:
    for languages in (TRITON, CPP, ("cpp", "triton")):
        found = extract(reply, languages)
        assert found.source.strip()
        assert found.language in ("cpp", "triton")


@pytest.mark.parametrize("languages", [TRITON, CPP])
@pytest.mark.parametrize(
    "reply", ["", "I cannot do that.", "```python\nprint(1)\n```", "```python\nclass Model:\n    pass\n```"]
)
def test_a_reply_without_a_module_is_refused_by_the_judge_with_the_reason(
    reply: str, languages: tuple[str, ...]
) -> None:
    found = extract(reply, languages)
    assert "ModelNew" in found.problem
    with pytest.raises(SourceRejected, match="no class ModelNew"):
        get(found.language).check(found.source)


def test_a_truncated_module_is_refused_with_its_line() -> None:
    found = extract(f"Idea: x\n```python\n{MODULE[: len(MODULE) - 40]}(", CPP)
    assert found.problem
    with pytest.raises(SourceRejected, match="line"):
        get(found.language).check(found.source)


def test_the_last_of_several_modules_counts() -> None:
    first, second = MODULE.replace("f(", "g("), MODULE
    found = extract(
        f"Draft:\n```python\n{first}```\nBetter:\n```python\n{second}```\nUse it so:\n```python\nm = ModelNew()\n```",
        CPP,
    )
    assert found.source.startswith(second.rstrip())


def test_a_block_in_a_list_loses_the_lists_indentation() -> None:
    indented = "".join(f"   {line}\n" if line else "\n" for line in MODULE.splitlines())
    assert extract(f"1. the kernel:\n\n   ```python\n{indented}   ```\n", CPP).source.startswith(MODULE.rstrip())


@pytest.mark.parametrize(
    "reply",
    [
        f"```python\n{MODULE}```",
        f"```python\n{MODULE}\n{cpp.LOADER}```",
        f"```python\n{MODULE}\ndef _native():\n    return 1\n\n\ndef _address(t):\n    return t.data_ptr()\n```",
        f"```cpp\n{NATIVE}```\nand\n```python\n{BODY}```",
        f"```python\n{BODY}```\n```c++\n{NATIVE}```",
        f"```python\r\n{MODULE.replace(chr(10), chr(13) + chr(10))}```",
        f"```cpp\n{MODULE}```",
    ],
)
def test_cpp_passes_the_judges_check_with_or_without_loader_or_with_the_source_beside(reply: str) -> None:
    found = extract(reply, CPP)
    assert (found.language, found.problem) == ("cpp", "")
    get("cpp").check(found.source)
    assert cpp.sources(cpp.split_loader(found.source)) == {"kernel.cpp": NATIVE}


def test_the_language_is_that_of_the_code() -> None:
    both = ("triton", "cpp")
    kernel = f"import triton\n\n\n@triton.jit\ndef k(p):\n    pass\n\n\n{BODY}"
    assert extract(f"```python\n{MODULE}```", both).language == "cpp"
    assert extract(f"```python\n{kernel}```", ("cpp", "triton")).language == "triton"


def test_the_idea_is_one_short_line() -> None:
    assert extract(f"**Idea:** keep the row\n in cache\n```python\n{MODULE}```", CPP).idea == "keep the row"
    assert len(extract(f"Idea: {'x' * 5000}\n```python\n{MODULE}```", CPP).idea) <= 160


def test_thoughts_and_blocks_are_told_apart() -> None:
    assert without_thoughts("<think>a</think>b<think>c</think>d") == "bd"
    assert without_thoughts("a</think>b") == "b"
    assert without_thoughts("<think>never ends") == "<think>never ends"
    assert blocks("```cpp x\na\n```\n~~~\nb\n```\n~~~\n````\nc") == [("cpp", "a"), ("", "b\n```"), ("", "c")]


@pytest.mark.parametrize(
    "piece",
    [
        "```python\nclass ModelNew\n",
        "<think>",
        "class ModelNew:\n",
        "(",
        "```\n",
        '"""\n```\nclass ModelNew:\n  x = 1\n',
    ],
)
def test_a_huge_reply_is_read_in_bounded_work(piece: str) -> None:
    begin = time.process_time()
    extract(piece * (4_000_000 // len(piece)), CPP)
    assert time.process_time() - begin < 60  # a bound on runaway work, far above what it takes
