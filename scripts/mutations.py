"""Small faults that can be put into a module: what ``scripts/mutants.py`` breaks the source with.

``mutations`` reads a module's text and lists every mutation it knows how to make there, each as one
replaced span of the text, so that line numbers stay and a mutation can be shown as a diff.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import pairwise

# Every operator as it is written, and what to write instead.
COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<=", ">="),
    ast.LtE: ("<=", "<", ">"),
    ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
# What these say is for people: no rule of a specification depends on it.
PROSE_FUNCTIONS = {"__repr__", "__str__"}
PROSE_CALLS = {"debug", "info", "warning", "error", "exception", "log"}


@dataclass(frozen=True)
class Mutation:
    """One replaced span of a module's text."""

    start: int
    end: int
    new: str
    line: int
    function: str
    """The function that holds it; empty in the bodies of classes and of the module."""
    entry: str
    """The text of the statement that holds it, or of the entry of a table."""

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


def mutations(text: str) -> list[Mutation]:
    """Every mutation of a module, in the order of the text."""
    finder = _Finder(text)
    finder.visit(ast.parse(text))
    return sorted(set(finder.found), key=lambda m: (m.start, m.end, m.new))


class _Finder(ast.NodeVisitor):
    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = text.splitlines()
        self.functions: list[str] = []
        self.entry = (0, 0)
        self.found: list[Mutation] = []

    def offset(self, line: int, column: int) -> int:
        """The place of a node in the text; the syntax tree counts columns in bytes."""
        before = self.lines[line - 1].encode()[:column].decode()
        return self.starts[line - 1] + len(before)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def replace(self, start: int, end: int, new: str) -> None:
        """Record a mutation. One line stays one line: the rest of the text keeps its numbers."""
        old = self.text[start:end]
        first, last = self.entry
        self.found.append(
            Mutation(
                start,
                end,
                new + "\n" * (old.count("\n") - new.count("\n")),
                self.text.count("\n", 0, start) + 1,
                ".".join(self.functions),
                self.text[first:last],
            )
        )

    def visit(self, node: ast.AST) -> None:
        before = self.entry
        if isinstance(node, ast.stmt | ast.Call):
            self.entry = self.span(node)
        super().visit(node)
        self.entry = before

    def visit_Dict(self, node: ast.Dict) -> None:
        before = self.entry
        for key, value in zip(node.keys, node.values, strict=True):
            if key:
                self.entry = self.span(key)[0], self.span(value)[1]
                super().visit(key)
            super().visit(value)
        self.entry = before

    def visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in PROSE_FUNCTIONS:
            return
        self.functions.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.functions.pop()

    visit_FunctionDef = visit_function  # noqa: N815
    visit_AsyncFunctionDef = visit_function  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.drop_assignment(node)
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.drop_assignment(node)
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.replace(*self.span(node), "pass")
        self.visit(node.value)

    def drop_assignment(self, node: ast.Assign | ast.AnnAssign) -> None:
        """Leave an attribute or an item as it was; without a name the code would only fail to run, and so it would
        without an attribute that is made here."""
        if self.functions[-1:] == ["__init__"]:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if self.functions and all(isinstance(t, ast.Attribute | ast.Subscript) for t in targets):
            self.replace(*self.span(node), "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Constant) or _is_prose(call):
            return
        if self.functions and isinstance(call, ast.Call) and not _is_initializing(call):
            self.replace(*self.span(node), "pass")
        self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.replace(*self.span(node), "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """Our own faults are no rules."""

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self.replace(*self.span(node), "pass")
        else:
            self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.replace(*self.span(node), "pass")

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.negate(node.test)
        self.generic_visit(node)

    def negate(self, test: ast.expr) -> None:
        start, end = self.span(test)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            start, _ = self.span(test.operand)
            self.replace(self.span(test)[0], end, self.text[start:end])
        elif not isinstance(test, ast.Compare):
            self.replace(start, end, f"not ({self.text[start:end]})")

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            self.replace_between(left, right, old, new)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for (left, right), op in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
            old, *others = COMPARISONS[type(op)]
            for new in others:
                self.replace_between(left, right, old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and not isinstance(node.left, ast.JoinedStr):
            self.replace_between(node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def replace_between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Replace an operator, which stands somewhere between its two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        at = self.text.find(old, start, end)
        if at >= 0:
            self.replace(at, at + len(old), new)

    def visit_Call(self, node: ast.Call) -> None:
        if not _is_prose(node):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Formatted text is for people."""

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.replace(*self.span(node), str(not value))
        elif isinstance(value, int):
            self.replace(*self.span(node), str(value + 1) if value < 256 else hex(value + 1))
        elif isinstance(value, str) and value and len(value) < 40 and " " not in value:
            self.replace(*self.span(node), repr(value + "X"))


def _is_prose(call: ast.expr) -> bool:
    """Whether a call writes a log line."""
    return (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in PROSE_CALLS
    )


def _is_initializing(call: ast.Call) -> bool:
    """Whether a call is that of the base class's ``__init__``."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
