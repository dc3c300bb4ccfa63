"""What is seen in a candidate's source is named with its line; seeing decides nothing and never fails."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.languages import cpp, triton
from evaluators.languages.sightings import in_cpp, in_python

PYTHON = {
    "streams": [
        "import torch\ns = torch.cuda.Stream()",
        "from torch.cuda import stream\nwith stream(1): pass",
        "import torch.cuda as c\nc.CUDAGraph()",
    ],
    "threads": [
        "import threading",
        "from concurrent.futures import ThreadPoolExecutor",
        "import torch\ntorch.set_num_threads(1)",
    ],
    "timing": ["import time\ntime.sleep(1)", "import torch\ne = torch.cuda.Event(enable_timing=True)"],
    "files": ["import torch\ntorch.save(1, 'x')", "import numpy as np\nnp.memmap('x')", "import pathlib"],
    "network": ["import socket", "from urllib import request"],
    "introspection": [
        "import gc\ngc.get_objects()",
        "import torch\ntorch.sys.modules",
        "import evaluators.judge",
    ],
    "addresses": ["def f(x):\n    return x.data_ptr()"],
    "names": ["getattr(1, 'a' + 'b')"],
    "precision": [
        "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True",
        "import torch\ntorch.set_float32_matmul_precision('high')",
    ],
    "dispatch": ["import torch\ntorch.cuda.synchronize = print", "from torch.overrides import TorchFunctionMode"],
    "caching": [
        "import functools\n@functools.lru_cache\ndef f(): pass",
        "K = {}\ndef f(x):\n    K[x] = 1",
        "class M:\n    def forward(self, x):\n        self.y = x",
        "def f():\n    global k\n    k = 1",
    ],
    "fallback": ["try:\n    a\nexcept Exception:\n    b"],
}
NATIVE = {
    "threads": ["std::thread t(f);", "pthread_create(&t, 0, f, 0);"],
    "processes": ["if (fork()) return;", 'system ("ls");'],
    "files": ['std::ofstream out("x");', 'FILE* f = fopen("x", "r");'],
    "network": ["int s = socket(AF_INET, 1, 0);"],
    "introspection": ['void* h = dlopen("libc.so.6", 1);', "extern char** environ;"],
    "timing": ["clock_gettime(0, &t);", "auto t = std::chrono::steady_clock::now();", "__rdtsc()"],
    "signals": ["raise(11);", "_exit(0);"],
    "caching": ["void f() { static float table[64]; }", "thread_local int n;", "static std::vector<float> kept;"],
    "hooks": ["__attribute__((constructor)) void f();", 'asm("nop");'],
    "library": ["cblas_sgemm(1, 2);"],
}  # fmt: skip
PLAIN_PYTHON = """
import math

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""
PLAIN_CPP = """
#include <cmath>  // threads, fork() and sockets are only spoken of here
/* static int n; */
static inline float f(float x) { return std::exp(x); }
static void rows(const float* x, float* y, long n) { for (long i = 0; i < n; ++i) y[i] = f(x[i]); }
static constexpr int WIDTH = 16;
static const float SCALE = 2.0f;
extern "C" void kernel(const float* x, float* y, long n) { rows(x, y, n); const char* s = "system(1)"; (void)s; }
"""


@pytest.mark.parametrize(("kind", "text"), [(k, t) for k, texts in PYTHON.items() for t in texts])
def test_python_is_seen(kind: str, text: str) -> None:
    assert kind in {s.kind for s in in_python(ast.parse(text))}


@pytest.mark.parametrize(("kind", "text"), [(k, t) for k, texts in NATIVE.items() for t in texts])
def test_cpp_is_seen_with_its_line(kind: str, text: str) -> None:
    assert (kind, 3) in {(s.kind, s.line) for s in in_cpp("// one\n\n" + text)}


def test_a_plain_kernel_shows_nothing() -> None:
    assert triton.check(PLAIN_PYTHON).sightings == ()
    assert in_cpp(PLAIN_CPP) == ()


def test_a_candidate_in_cpp_shows_both_its_parts() -> None:
    body = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        self.n = 1\n        return x\n"
    found = cpp.check(cpp.wrap({"kernel.cpp": "static int calls;\n"}, body)).sightings
    assert [s.kind for s in found] == ["caching", "caching"]
    assert {s.what for s in found} == {"self.n is set in forward", "static"}


@given(st.text())
def test_any_text_can_be_looked_at(text: str) -> None:
    in_cpp(text)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    in_python(tree)
