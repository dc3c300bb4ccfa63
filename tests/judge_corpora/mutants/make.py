"""From correct kernels to mutants that compile: which kernels, which of their mutations, and which of those are no change at all."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evaluators.errors import CompileFailed, SourceRejected, ToolMissing
from evaluators.languages import cpp
from tests.judge_corpora.entry import Entry, read, read_all
from tests.judge_corpora.honest import FOLDER as HONEST
from tests.judge_corpora.mutants import cpp_text, python_text
from tests.judge_corpora.mutants.mutation import Mutation

BUILTIN = Path(__file__).parent / "builtin"
"""Kernels that the built-in proposer wrote, kept as text so that their mutants stay the same."""
CHOSEN = (
    "argmin_middle_axis attention_online bmm_transposed_scaled conv2d_direct cross_entropy_ignore cumsum_blocks "
    "embedding_bag_mean floor_divide_int32 gemm_bf16_k256 gemm_fp64_tiled gemm_splitk_bias_relu layernorm_shifted "
    "linear_repacked_once max_with_indices maxpool_negative quantize_int8 rope_lazy_tables scatter_add_atomic "
    "softmax_online strided_inputs triton_argmax_ties triton_colsum_fp16 triton_cross_entropy triton_cumsum "
    "triton_gather_rows triton_gemm_bias_gelu triton_layernorm_bf16 triton_matmul_splitk triton_softmax"
).split()
"""The honest kernels that mutants are made of."""


@dataclass(frozen=True)
class Mutant:
    """A mutation of a kernel, and the kernel so changed."""

    mutation: Mutation
    entry: Entry


def originals() -> list[Entry]:
    """The kernels that mutants are made of."""
    return [read(HONEST / f"{name}.md") for name in CHOSEN] + read_all(BUILTIN)


def mutations(entry: Entry) -> list[Mutation]:
    """Every mutation of a kernel, kinds in turn and, within a kind, in an order that a change elsewhere does not disturb."""
    if entry.native is not None:
        written = entry.name.startswith("builtin_")  # these begin with a general prelude, most of it unused
        found = cpp_text.mutations(entry.native, entry.spec.dtype, 'extern "C"' if written else "")
    else:
        found = python_text.mutations(entry.python, entry.spec.dtype)
    kinds: dict[str, list[Mutation]] = defaultdict(list)
    for mutation in sorted(found, key=lambda m: m.digest):
        kinds[mutation.kind].append(mutation)
    rounds = itertools.zip_longest(*(kinds[k] for k in sorted(kinds)))
    return [m for group in rounds for m in group if m is not None]


def changed(entry: Entry, mutation: Mutation) -> Entry:
    """The kernel with a mutation applied."""
    if mutation.part == "cpp":
        return replace(entry, native=mutation.text)
    return replace(entry, python=mutation.text)


def mutants(entry: Entry, limit: int) -> Iterator[Mutant]:
    """At most ``limit`` mutants (0: all) that compile; none has the machine code of the original or of an earlier one.

    Triton kernels compile only when they are launched, so there the caller drops what does not.
    """
    codes = {machine_code(entry)} if entry.native is not None else set()
    count = 0
    for mutation in mutations(entry):
        if limit and count == limit:
            return
        mutant = Mutant(mutation, changed(entry, mutation))
        if entry.native is not None:
            code = machine_code(mutant.entry)
            if code is None or code in codes:
                continue
            codes.add(code)
        count += 1
        yield mutant


def machine_code(entry: Entry) -> str | None:
    """Hash of the code and constants a C++ kernel compiles to; ``None`` where it does not compile.

    Two texts with the same machine code are one program, whatever their inputs.
    """
    tool = shutil.which("objcopy")
    if tool is None:
        raise ToolMissing("objcopy was not found: install binutils to tell mutants from their originals")
    try:
        library = cpp.build(entry.source(), entry.target()).native
    except (CompileFailed, SourceRejected):
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "code"
        sections: Sequence[str] = [f"--only-section={s}" for s in (".text", ".rodata*", ".data", ".init_array")]
        subprocess.run([tool, "-O", "binary", *sections, str(library), str(out)], check=True, capture_output=True)
        return hashlib.sha256(out.read_bytes()).hexdigest()
