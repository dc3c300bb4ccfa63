"""Mutations of C++ text, found among its tokens: no parser, so some of what comes out does not compile and is dropped later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.judge_corpora.mutants.mutation import Mutation, made

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<line>#(?:\\\n|[^\n])*)|(?P<string>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFuUlL]*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<op><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|.)",
    re.S,
)
TYPES = frozenset(
    "void bool char short int long float double unsigned signed auto int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t "
    "_Float16 size_t const static inline".split()
)
_NO_OPERAND = TYPES | {"return", "case", "else", "if", "for", "while", "sizeof", "template", "typename", "struct"}
_LOOSE = frozenset("+ - ; ) ] , } < > <= >= == != && || ? : << >> & | ^".split())
_FLIPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OPPOSITE = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "!=", "!=": "=="}
_OTHER = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "&&": "||", "||": "&&"}
_EXTREME = {"fmax": "fmin", "fmin": "fmax", "max": "min", "min": "max", "fmaxf": "fminf", "fminf": "fmaxf"}


@dataclass(frozen=True)
class Token:
    """A token that is neither space nor comment, and where it stands."""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """Tokens of C++ text; a preprocessor line is one token."""
    found = (Token(str(m.lastgroup), m[0], m.start(), m.end()) for m in _TOKEN.finditer(text))
    return [t for t in found if t.kind != "space"]


_NARROWER = {"float32": {"float": "_Float16"}, "float64": {"double": "float"}}


def mutations(text: str, dtype: str = "float32", after: str = "") -> list[Mutation]:
    """Every mutation of C++ text for a spec of floating type ``dtype``.

    With ``after``, what stands before that text's first occurrence is left as it is.
    """
    return list(Finder(text, dtype, text.find(after) if after else 0).all())


class Finder:
    """The tokens of one text, and the mutations that each rule finds among them."""

    def __init__(self, text: str, dtype: str, first: int = 0) -> None:
        self.text, self.dtype, self.first = text, dtype, first
        self.t = tokens(text)
        self.sizes = sorted(set(re.findall(r"\bint (\w+)(?=[,)])", text)))
        self.loops = [self._loop(i) for i, t in enumerate(self.t) if t.text == "for" and t.kind == "name"]
        self.steps = {k for _, _, third, end in self.loops for k in range(third, end)}

    def all(self) -> Iterator[Mutation]:
        """Mutations of every rule, in the order of the rules."""
        seen = {self.text}
        rules = (self._comparisons, self._operators, self._assignments, self._constants, self._sizes, self._terms)
        changes = [change for rule in rules for i in range(1, len(self.t) - 1) for change in rule(i)]
        for kind, start, end, new in (*changes, *self._loop_changes(), *self._lines(), *self._patterns()):
            after = self.text[:start] + new + self.text[end:]
            line = self.text[self.text.rfind("\n", 0, start) + 1 : start]
            if (
                start >= self.first and after not in seen and "constexpr" not in line
            ):  # those set widths, which are free
                seen.add(after)
                yield made(kind, "cpp", self.text, after)

    def _close(self, i: int, step: int = 1) -> int:
        """Index of the bracket that closes (or, backwards, opens) the one at ``i``."""
        depth = 0
        for k in range(i, len(self.t) if step > 0 else -1, step):
            if self.t[k].text in ("([{" if step > 0 else ")]}"):
                depth += 1
            elif self.t[k].text in (")]}" if step > 0 else "([{"):
                depth -= 1
                if depth == 0:
                    return k
        return i

    def _loop(self, i: int) -> tuple[int, int, int, int]:
        """Of a ``for`` at ``i``: where its three clauses begin, and where its header ends."""
        end, depth, starts = self._close(i + 1), 0, [i + 2]
        for k in range(i + 2, end):
            depth += self.t[k].text in "([{"
            depth -= self.t[k].text in ")]}"
            if self.t[k].text == ";" and depth == 0:
                starts.append(k + 1)
        return (starts[0], starts[1], starts[2], end) if len(starts) == 3 else (end, end, end, end)

    def _binary(self, i: int) -> bool:
        before, after = self.t[i - 1], self.t[i + 1]
        left = before.kind in ("number", "name") or before.text in ")]"
        right = after.kind in ("number", "name") or after.text in "(-"
        cast = before.text == ")" and self.t[i - 2].text in TYPES
        return left and right and before.text not in _NO_OPERAND and not cast and after.text not in TYPES

    def _left(self, i: int) -> int:
        """Index of the first token of the operand that ends just before ``i``."""
        k = i - 1
        while self.t[k].text in ")]" and k > 0:
            k = self._close(k, -1)
            if self.t[k - 1].kind == "name" and self.t[k - 1].text not in _NO_OPERAND:
                k -= 1
            elif self.t[k - 1].text not in ")]":
                break
            else:
                k -= 1
        while self.t[k - 1].text == "::":
            k -= 2
        if self.t[k - 1].text == ")" and self.t[k - 2].text in TYPES:
            k -= 3
        return k

    def _right(self, i: int) -> int:
        """Index of the last token of the operand that begins just after ``i``."""
        k = i + 1
        if self.t[k].text == "-":
            k += 1
        if self.t[k].text == "(" and self.t[k + 1].text in TYPES:
            k += 3
        while self.t[k + 1].text == "::":
            k += 2
        if self.t[k].text == "(":
            k = self._close(k)
        while self.t[k + 1].text in "([":
            k = self._close(k + 1)
        return k

    def _at(self, i: int, new: str, kind: str) -> tuple[str, int, int, str]:
        return kind, self.t[i].start, self.t[i].end, new

    def _comparisons(self, i: int) -> Iterator[tuple[str, int, int, str]]:
        text = self.t[i].text
        if text in _OPPOSITE and self._binary(i):
            if text in _FLIPPED and not self._chooses(i):
                yield self._at(i, _FLIPPED[text], "bound off by one")
            yield self._at(i, _OPPOSITE[text], "comparison turned round")
        if text in _EXTREME and self.t[i + 1].text == "(":
            yield self._at(i, _EXTREME[text], "max for min")
        if text in ("&&", "||"):
            yield self._at(i, _OTHER[text], "and for or")
            yield "condition dropped", self.t[i].start, self.t[self._right_condition(i)].end, ""

    def _chooses(self, i: int) -> bool:
        """Whether the comparison at ``i`` is that of ``a > b ? a : b``: where both are equal the choice does not matter."""
        before = re.split(r"[=(,;{}]|\breturn\b", self.text[: self.t[i].start])[-1]
        after, question, rest = self.text[self.t[i].end :].partition(";")[0].partition("?")
        return bool(question) and {before.strip(), after.strip()} == {p.strip() for p in rest.split(":")}

    def _right_condition(self, i: int) -> int:
        k = i + 1
        while self.t[k + 1].text not in ("&&", "||", ")", ";"):
            k = self._close(k + 1) if self.t[k + 1].text in "([" else k + 1
        return k

    def _operators(self, i: int) -> Iterator[tuple[str, int, int, str]]:
        text = self.t[i].text
        if text in "+-*/%" and len(text) == 1 and self._binary(i) and i not in self.steps:
            yield self._at(i, _OTHER[text], f"{_OTHER[text]} for {text}")
            if text in "-/%":
                low, high = self._left(i), self._right(i)
                left = self.text[self.t[low].start : self.t[i - 1].end]
                right = self.text[self.t[i + 1].start : self.t[high].end]
                yield "operands swapped", self.t[low].start, self.t[high].end, f"{right} {text} {left}"

    def _assignments(self, i: int) -> Iterator[tuple[str, int, int, str]]:
        text = self.t[i].text
        if text in ("+=", "*=", "-=", "/=") and i not in self.steps:
            other = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}[text]
            yield self._at(i, "=", "accumulation lost")
            yield self._at(i, other, f"{other} for {text}")
        if text in ("+=", "*=", "-=", "/=", "=") and i not in self.steps and self.t[i - 1].text != "]":
            low = self._left(i)
            if self.t[low - 1].text in (";", "{", "}", ")") and self.t[low - 1].kind == "op":
                end = next(k for k in range(i, len(self.t)) if self.t[k].text == ";")
                yield "statement left out", self.t[low].start, self.t[end].end, ";"

    def _constants(self, i: int) -> Iterator[tuple[str, int, int, str]]:
        t = self.t[i]
        if t.kind != "number":
            return
        digits = t.text.rstrip("fFuUlL")
        suffix = t.text[len(digits) :]
        if re.search(r"[.eE]", digits) and not digits.startswith("0x"):
            value = float(digits)
            for new in {0.0: (1.0,), 1.0: (0.0, 2.0)}.get(value, (value * 10, value * 0.5)):
                yield self._at(i, f"{new!r}{suffix}", "wrong constant")
        elif digits.isdigit() and int(digits) < 1000 and "memcpy" not in self._line(i):
            yield self._at(i, f"{int(digits) + 1}{suffix}", "wrong integer")

    def _line(self, i: int) -> str:
        begin = self.text.rfind("\n", 0, self.t[i].start) + 1
        return self.text[begin : self.t[i].start]

    def _sizes(self, i: int) -> Iterator[tuple[str, int, int, str]]:
        """One size or stride in the place of another, outside the list of parameters."""
        t = self.t[i]
        if t.text in self.sizes and self.t[i - 1].text not in ("int", "=") and self.t[i - 1].text not in TYPES:
            others = [s for s in self.sizes if s != t.text]
            for other in others[:1] + others[-1:]:
                yield self._at(i, other, "wrong size or stride")
        if t.text == "[" and self.t[i - 1].kind == "name" and self.t[i - 2].text not in TYPES:
            end = self._close(i)
            inner = self.text[t.end : self.t[end].start]
            if inner.strip() and not inner.strip().isdigit():
                yield "neighbour's element", t.end, self.t[end].start, f"{inner} + 1"

    def _terms(self, i: int) -> Iterator[tuple[str, int, int, str]]:
        """A term or factor left out: ``a + b`` becomes ``a``."""
        text = self.t[i].text
        if text in ("+", "-", "*", "/") and self._binary(i) and i not in self.steps:
            high = self._right(i)
            if text in "*/" or self.t[high + 1].text in _LOOSE:
                yield "term left out", self.t[i - 1].end, self.t[high].end, ""
            low = self._left(i)
            if self.t[low - 1].text in ("=", "(", "+=", "return", ","):
                yield "term left out", self.t[low].start, self.t[i].end, ""

    def _loop_changes(self) -> Iterator[tuple[str, int, int, str]]:
        for first, second, third, end in self.loops:
            if first == end:
                continue
            initial = self.text[self.t[first].start : self.t[second - 1].start]
            if re.search(r"=\s*0$", initial.strip()):
                yield "first element skipped", self.t[second - 2].start, self.t[second - 2].end, "1"
            elif not initial.strip():
                yield "tail left out", self.t[second].start, self.t[third - 2].end, "false"
            stop = next((k for k in range(second, third) if self.t[k].text in ("&&", ";")), third - 1)
            if any(t.text in _FLIPPED for t in self.t[second:stop]):
                step = self.text[self.t[third].start : self.t[end - 1].end]
                match = re.search(r"\+=\s*(\w+)", step)
                kind = "last block skipped" if match else "last element skipped"
                yield kind, self.t[stop - 1].end, self.t[stop - 1].end, f" - {match[1] if match else 1}"
            header, body = self.t[first - 2], self.t[end]
            yield "loop left out", header.start, body.end, "if (false)"

    def _lines(self) -> Iterator[tuple[str, int, int, str]]:
        for t in self.t:
            if t.kind == "line" and "pragma" in t.text:
                if re.search(r"\b(atomic|barrier|critical|single)\b", t.text):
                    yield "missing atomic or barrier", t.start, t.end, ""
                match = re.search(r"reduction\([^)]*\)", t.text)
                if match and "parallel" in t.text:
                    yield "missing reduction clause", t.start + match.start(), t.start + match.end(), ""

    def _patterns(self) -> Iterator[tuple[str, int, int, str]]:
        for m in re.finditer(r"-INFINITY", self.text):
            yield "wrong identity", m.start(), m.end(), "0.0f"
        for m in re.finditer(r"\b(float|double) (\w+) = (0|0\.0f?);", self.text):
            yield "uninitialised accumulator", m.start(), m.end(), f"static thread_local {m[1]} {m[2]};"
            # A float in place of a double is no bug for a float32 spec, nor half precision where the result is rounded to bfloat16.
            narrow = _NARROWER.get(self.dtype, {}).get(m[1])
            if narrow:
                yield "narrow accumulator", m.start(1), m.end(1), narrow
        for m in re.finditer(r"\(int64_t\)(\w+(?:\[\w+\])?) \* (\w+)", self.text):
            yield "narrow index", m.start(), m.end(), f"(int8_t)({m[1]} * {m[2]})"
        for m in re.finditer(r"\bif \(([^()]+(?:\([^()]*\)[^()]*)*)\) continue;", self.text):
            yield "condition dropped", m.start(), m.end(), ";"
