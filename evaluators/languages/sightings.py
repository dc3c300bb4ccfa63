"""What a source is seen to use that a plain kernel does without: evidence, shown with the verdict, and a reason to look more closely.

Nothing here accepts or rejects. Much of it has honest uses (a table built once, a thread pool), and what is not spelled out is not seen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from evaluators.languages.base import Sighting
from evaluators.languages.review import dotted, imported

MOST = 40
"""Sightings kept of one source."""
CLOSER = frozenset({"caching", "introspection", "streams", "threads", "timing"})
"""Kinds by which a candidate could win without work: what its calls leave behind is looked at more often."""

_NAMES: tuple[tuple[str, str], ...] = (
    ("streams", r"torch\.cuda\.(Stream|stream|ExternalStream|graph|graphs|CUDAGraph|make_graphed_callables)\b"),
    ("threads", r"(threading|_thread|concurrent|asyncio|multiprocessing|torch\.futures|torch\.jit\.fork)\b"),
    ("threads", r"torch\.(set_num_threads|set_num_interop_threads)$"),
    ("timing", r"(time\b|torch\.cuda\.Event\b|torch\.cuda\.synchronize$|triton\.testing\b)"),
    (
        "files",
        r"(os|pathlib|shutil|tempfile|io|pickle|mmap)\b|torch\.(save|load|from_file|os)\b|numpy\.(load|save|fromfile|memmap)\b",
    ),
    ("network", r"(socket|urllib|http|requests|ssl)\b"),
    (
        "introspection",
        r"(sys|gc|inspect|ctypes|importlib|builtins|weakref|traceback)\b|torch\.(sys|ctypes|inspect|gc)\b",
    ),
    ("introspection", r"evaluators\b"),
    (
        "precision",
        r"torch\.backends\.|torch\.(set_float32_matmul_precision|set_default_dtype|autocast|use_deterministic_algorithms)\b",
    ),
    ("dispatch", r"torch\.(overrides|library|_C|_dynamo|fx|_python_dispatch|utils\._python_dispatch)\b"),
    ("caching", r"functools\.(lru_cache|cache|cached_property)$"),
)
_ATTRIBUTES = {
    "data_ptr": "addresses",
    "untyped_storage": "addresses",
    "_version": "introspection",
    "__dict__": "introspection",
    "__class__": "introspection",
    "allow_tf32": "precision",
}
_BY_NAME = ("getattr", "setattr", "delattr")
_TOKENS: tuple[tuple[str, str], ...] = (
    ("threads", r"\b(std::(thread|async|jthread|future)|pthread_\w+|thrd_create|clone|omp_set_num_threads)\b"),
    ("processes", r"\b(fork|vfork|exec[lv]p?e?|posix_spawn\w*|system|popen|kill|waitpid|prctl)\s*\("),
    (
        "files",
        r"\b(std::[io]?fstream|std::filesystem|fopen|freopen|open(at)?|mmap|shm_open|memfd_create|unlink|mkdir)\b\s*[(<{ ]?",
    ),
    ("network", r"\b(socket|connect|bind|listen|getaddrinfo)\s*\("),
    (
        "introspection",
        r"\b(dlopen|dlsym|dl_iterate_phdr|ptrace|process_vm_\w+|backtrace|mprotect|mincore|getenv|environ)\b",
    ),
    ("timing", r"\b(clock_gettime|gettimeofday|std::chrono|__rdtscp?|nanosleep|usleep|sched_\w+|setpriority|nice)\b"),
    ("signals", r"\b(signal|sigaction|raise|abort|longjmp|setjmp|_?_?exit|atexit)\s*\("),
    (
        "caching",
        r"\bstatic\s+(?!inline|constexpr|const\b|_?_?(?:always_)?inline|(?:[\w:<>,\s*&]+\([^;{]*\)\s*\{))|\bthread_local\b",
    ),
    ("hooks", r"__attribute__\s*\(\(\s*(constructor|destructor|weak|alias)|\b(asm|__asm__)\b"),
    ("library", r"\b(cblas_\w+|sgemm_?|dgemm_?|mkl_\w+|dnnl\w*|at::\w+|torch::\w+)\b"),
)
_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def in_python(tree: ast.Module) -> tuple[Sighting, ...]:
    """Sightings in a module's syntax tree, in the order of its lines, each kind of words once."""
    names = imported(tree)
    found: list[Sighting] = []
    for node in ast.walk(tree):
        for kind, what in _of(node, names):
            found.append(Sighting(kind, getattr(node, "lineno", 0), what))
    found += _kept(tree)
    return _once(found)


def in_cpp(text: str) -> tuple[Sighting, ...]:
    """Sightings in the text of one C++ file."""
    bare = _NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    found = [
        Sighting(kind, bare.count("\n", 0, match.start()) + 1, " ".join(match[0].split()).rstrip("(<{ "))
        for kind, pattern in _TOKENS
        for match in re.finditer(pattern, bare)
    ]
    return _once(found)


def _of(node: ast.AST, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            full = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            yield from _named(full)
    elif isinstance(node, (ast.Attribute, ast.Name)):
        root, _, rest = dotted(node).partition(".")
        if root in names:
            yield from _named(names[root] + ("." + rest if rest else ""))
        if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
            yield _ATTRIBUTES[node.attr], "." + node.attr
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            full = dotted(target)
            if "." in full and full.partition(".")[0] in names:
                yield "dispatch", f"{full} = …"
    elif isinstance(node, ast.Try):
        yield "fallback", "try"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BY_NAME:
        if len(node.args) < 2 or isinstance(node.args[1], ast.Constant):
            return
        yield "names", f"{node.func.id} of a name that is computed"


def _named(full: str) -> Iterator[tuple[str, str]]:
    for kind, pattern in _NAMES:
        if re.match(pattern, full):
            yield kind, full
            return


def _kept(tree: ast.Module) -> Iterator[Sighting]:
    """What functions leave behind for later calls: attributes of the model set in ``forward``, and containers of the module filled."""
    globals_ = {t.id for n in tree.body if isinstance(n, (ast.Assign, ast.AnnAssign))
                for t in (n.targets if isinstance(n, ast.Assign) else [n.target]) if isinstance(t, ast.Name)}  # fmt: skip
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name == "__init__":
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield Sighting("caching", node.lineno, f"global {', '.join(node.names)}")
            stored = (
                node if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store) else None
            )
            if stored is None:
                continue
            owner = dotted(stored.value) if isinstance(stored, ast.Subscript) else dotted(stored)
            root = owner.partition(".")[0]
            if root == "self" or (isinstance(stored, ast.Subscript) and root in globals_):
                yield Sighting("caching", stored.lineno, f"{owner} is set in {function.name}")


def _once(found: list[Sighting]) -> tuple[Sighting, ...]:
    kept: dict[tuple[str, str], Sighting] = {}
    for seen in sorted(found, key=lambda s: (s.line, s.kind)):
        kept.setdefault((seen.kind, seen.what), seen)
    return tuple(kept.values())[:MOST]
