"""Find the candidate module in what a language model, or a person, wrote around it."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluators.languages import cpp, finished

_FENCE = re.compile(r"^[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<info>(?!.*(?:\"{3}|'{3}))[^`\n]*)$")
_MODEL = re.compile(r"^[ \t]*class[ \t]+ModelNew\b")
_CODE = re.compile(r'^(import |from |SOURCES\b|@|class |def |r?"""|r?\'\'\')')
_IDEA = re.compile(r"^[ \t>*_#-]*idea\b[*_]*[ \t]*:[*_]*[ \t]*(?P<text>\S.*)$", re.IGNORECASE | re.MULTILINE)
_NATIVE = ("c++", "cpp", "cc", "cxx", "c")
_OPENINGS, _ENDS, _CLASSES = 12, 24, 12  # how far around a class a module's first and last line are looked for
_LONGEST = 500_000  # characters of a reply that are read: many times any kernel
_WORK = 1_000_000  # characters given to the parser at most while looking for a module

THOUGHTS = ("think", "thinking", "reasoning", "thought")


@dataclass(frozen=True)
class Extracted:
    """A module's text with its language. ``problem`` is empty, or says why the reply holds no usable module: ``source`` then is what
    comes nearest to one, for the judge to refuse with its own message."""

    source: str
    language: str
    idea: str
    problem: str = ""


def extract(reply: str, languages: Sequence[str]) -> Extracted:
    """The module that defines ``ModelNew``: from a fenced block (also one that lacks its end), from several, or from bare text.

    ``languages`` are those a candidate may use; the first is assumed where the text does not tell. A C++ module gets the fixed loader.
    """
    text = reply[:_LONGEST].replace("\r\n", "\n").replace("\r", "\n")
    spoken = without_thoughts(text)
    found = _module(spoken) or (_module(text) if spoken != text else None)
    idea = _idea(spoken)
    if found is None:
        broken = _nearest(spoken) or _nearest(text)
        if broken:
            return _finished(broken, languages, idea, problem="the reply's module is not valid Python")
        quoted = "\n".join(f"# {line}".rstrip() for line in spoken.strip().splitlines()[:200]) or "# (empty)"
        reason = "the reply holds no code that defines class ModelNew"
        return _finished(f"# {reason}:\n{quoted}\n", languages, idea, problem=reason)
    source, outside = found
    if not _assigns_sources(source):
        native = [body for info, body in blocks(outside) if info in _NATIVE]
        if native and "cpp" in languages and "triton.jit" not in source:
            source = cpp.wrap({_unit(i): f"{body}\n" for i, body in enumerate(native)}, source)
    return _finished(source, languages, idea)


def without_thoughts(text: str) -> str:
    """The text without ``<think>…</think>`` parts; where only the end is marked, what comes after it."""
    for name in THOUGHTS:
        start, end = f"<{name}>", f"</{name}>"
        kept: list[str] = []
        position = 0
        if start not in text and end in text:
            position = text.index(end) + len(end)
        while (begin := text.find(start, position)) >= 0 and (close := text.find(end, begin)) >= 0:
            kept.append(text[position:begin])
            position = close + len(end)
        text = "".join([*kept, text[position:]])
    return text


def blocks(text: str) -> list[tuple[str, str]]:
    """(info word in lower case, body) of the fenced blocks, read from the top; one that is not closed ends with the text."""
    out: list[tuple[str, str]] = []
    opening: re.Match[str] | None = None
    body: list[str] = []
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if opening is None:
            opening, body = fence, []
        elif fence and _closes(opening, fence):
            out.append((_word(opening), "\n".join(body)))
            opening = None
        else:
            body.append(line)
    return [*out, (_word(opening), "\n".join(body))] if opening else out


def _word(fence: re.Match[str]) -> str:
    return (fence["info"].split() or [""])[0].lower()


def _closes(opening: re.Match[str], fence: re.Match[str]) -> bool:
    marks = opening["marks"]
    return not fence["info"].strip() and fence["marks"].startswith(marks)


def _module(text: str) -> tuple[str, str] | None:
    """(module, the text around it). Among several the last one counts: drafts come before what is final."""
    lines = text.split("\n")
    work = _WORK
    classes = [i for i, line in enumerate(lines) if _MODEL.match(line)][-_CLASSES:]
    fences = [i for i, line in enumerate(lines) if _FENCE.match(line)]
    for at in reversed(classes):
        for begin, end in _fenced_ranges(at, fences, len(lines)):
            body = _dedented(lines[begin:end], lines[begin - 1])
            work -= len(body)
            if work < 0:
                return None
            if _defines_model(body):
                # A longer range that parses too holds the fences between in its strings: the module begins there.
                opening = begin - 1
                for longer in [f for f in fences if f < opening][-_OPENINGS:]:
                    whole = _dedented(lines[longer + 1 : end], lines[longer])
                    if _defines_model(whole) and not _starts_statement(whole, opening - longer):
                        opening, body = longer, whole
                        break
                return body, "\n".join([*lines[:opening], *lines[end + 1 :]])
    for at in reversed(classes):
        for body in _bare(lines, at, cut=not _inside_a_block(lines[:at])):
            work -= len(body)
            if work < 0:
                return None
            if _defines_model(body):
                return _without_last_words(body), ""
    return None


def _inside_a_block(above: Sequence[str]) -> bool:
    """Whether the line below these is in a fenced block."""
    opening: re.Match[str] | None = None
    for line in above:
        fence = _FENCE.match(line)
        if fence and opening is None:
            opening = fence
        elif fence and opening is not None and _closes(opening, fence):
            opening = None
    return opening is not None


def _fenced_ranges(at: int, fences: Sequence[int], total: int) -> Iterator[tuple[int, int]]:
    """Line ranges around line ``at`` that start below a fence and end above one, or at the end of the text; nearest first.

    A module may hold fences of its own, in strings: that a range is a whole module is for the parser to say.
    """
    ends = [*[f for f in fences if f > at][:_ENDS], total]
    for opening in [f for f in fences if f < at][-_OPENINGS:][::-1]:
        for end in ends:
            yield opening + 1, end


def _dedented(lines: Sequence[str], fence: str) -> str:
    """The block's text; where the fence is indented (in a list), without that indentation."""
    indent = fence[: len(fence) - len(fence.lstrip())]
    if indent and all(line.startswith(indent) or not line.strip() for line in lines):
        lines = [line[len(indent) :] for line in lines]
    return "\n".join(lines)


def _bare(lines: Sequence[str], at: int, cut: bool) -> Iterator[str]:
    """Texts that may be a module without fences: from a line that looks like code, with ``cut`` without the prose after it."""
    starts = [i for i in range(at + 1) if _CODE.match(lines[i])]
    for begin in [*starts[:_OPENINGS], *([at] if at not in starts[:_OPENINGS] else [])]:
        end = len(lines)
        for _ in range(_ENDS):
            body = "\n".join(lines[begin:end])
            yield body
            tree = _parsed(body)
            if isinstance(tree, SyntaxError):
                wrong = begin + (tree.lineno or 1) - 1
                if not cut or not at < wrong < end or lines[wrong][:1] in ("", " ", "\t"):
                    break  # not a line of prose: the module itself is broken
                end = wrong
                continue
            break


def _without_last_words(source: str) -> str:
    """Without expressions at the end of a module that stood there bare: a word of prose can be one, and would fail when run."""
    tree = ast.parse(source)
    lines = source.split("\n")
    for node in reversed(tree.body):
        if not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call):
            break
        lines = lines[: node.lineno - 1]
    return "\n".join(lines)


def _nearest(text: str) -> str:
    """The text of the last block with ``class ModelNew`` although it does not parse, else from the first line that looks like code."""
    lines = text.split("\n")
    classes = [i for i, line in enumerate(lines) if _MODEL.match(line)]
    if not classes:
        return ""
    for _, body in reversed(blocks(text)):
        if any(_MODEL.match(line) for line in body.split("\n")):
            return body
    begin = next((i for i in range(classes[-1] + 1) if _CODE.match(lines[i])), classes[-1])
    return "\n".join(lines[begin:])


def _parsed(source: str) -> ast.Module | SyntaxError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # prose holds escapes that Python warns about
            return ast.parse(source)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error))


def _defines_model(source: str) -> bool:
    tree = _parsed(source)
    return isinstance(tree, ast.Module) and any(isinstance(n, ast.ClassDef) and n.name == "ModelNew" for n in tree.body)


def _starts_statement(source: str, line: int) -> bool:
    """Whether a statement begins at a line (from 1): ``~~~python`` is an expression too."""
    return any(isinstance(n, ast.stmt) and n.lineno == line for n in ast.walk(ast.parse(source)))


def _assigns_sources(source: str) -> bool:
    tree = _parsed(source)
    if isinstance(tree, SyntaxError):
        return "SOURCES" in source
    targets = [t for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
    targets += [n.target for n in tree.body if isinstance(n, ast.AnnAssign)]
    return any(isinstance(t, ast.Name) and t.id == "SOURCES" for t in targets)


def _finished(source: str, languages: Sequence[str], idea: str, problem: str = "") -> Extracted:
    language = _language(source, languages)
    text = source.strip("\n").rstrip() + "\n"
    return Extracted(finished(text, language), language, idea, problem)


def _language(source: str, languages: Sequence[str]) -> str:
    if _assigns_sources(source):
        return "cpp"
    if re.search(r"^@(triton\.)?jit\b", source, re.MULTILINE):
        return "triton"
    return languages[0]


def _unit(number: int) -> str:
    return "kernel.cpp" if number == 0 else f"kernel{number + 1}.cpp"


def _idea(text: str) -> str:
    found = _IDEA.search(text)
    return " ".join(found["text"].split())[:160] if found else ""
