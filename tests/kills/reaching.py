"""Which handler comes to which named point, read from the code: from a handler's module on, along what is mentioned.

A name is followed to what it is there: a function or class of the module, or an imported one. A member is followed by
the name it is asked of: to the class of `self`, or to each class with which a field or a parameter of that name is
annotated anywhere (`services.slots.free` is `Slots.free`). Mentioned counts as called: a thread or a callback calls.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from fetcher.core.faults import Point
from infra.local.places import ROOT

SOURCES = (ROOT / "functions", ROOT / "layers" / "engine")
REACH = "reach"

Unit = tuple[str, str]
"""A module and what it defines: `name` of a function or class, or `Class.name`."""


@dataclass(slots=True)
class Module:
    """One module: what it imports, by the names it has here, and what it defines."""

    name: str
    tree: ast.Module
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    units: dict[str, ast.AST] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)
    """What somebody calls once the module is imported: the routes of a router."""

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (node.module, alias.name)
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.units[node.name] = node
            if isinstance(node, ast.FunctionDef) and any(isinstance(each, ast.Call) for each in node.decorator_list):
                self.roots.append(node.name)
            if isinstance(node, ast.ClassDef):
                members = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                self.units.update({f"{node.name}.{each.name}": each for each in members})


class Code:
    """All modules of the functions and of the layer."""

    def __init__(self) -> None:
        found = {
            ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
            for source in SOURCES
            for path in source.rglob("*.py")
        }
        self._modules = {name: Module(name, ast.parse(path.read_text())) for name, path in found.items()}

    def points(self, handler: str) -> set[Point]:
        """Every point to which a handler such as `submit.app.handler` can come."""
        entry, _, function = handler.rpartition(".")
        waiting = [
            (entry, function),
            *((name, root) for name in self._imported(entry) for root in self._modules[name].roots),
        ]
        seen: set[Unit] = set()
        while waiting:
            unit = waiting.pop()
            if unit not in seen:
                seen.add(unit)
                waiting += self._mentioned(unit)
        return {point for unit in seen for point in self._own(unit)}

    def _imported(self, entry: str) -> set[str]:
        """A module and all that its import brings in, of our own."""
        seen: set[str] = set()
        waiting = [entry]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += [found[0] for alias in self._modules[name].imports if (found := self._of(name, alias))]
        return seen

    def _own(self, unit: Unit) -> Iterator[Point]:
        """The points that stand in a function itself."""
        whole = self._node(unit)
        for node in () if isinstance(whole, ast.ClassDef) else ast.walk(whole):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == REACH:
                [point] = node.args
                assert isinstance(point, ast.Attribute), ast.unparse(node)
                yield Point[point.attr]

    def _mentioned(self, unit: Unit) -> Iterator[Unit]:
        module, name = unit
        node = self._node(unit)
        if isinstance(node, ast.ClassDef):  # made, and perhaps entered; its other members are asked for by name
            for member in ("__init__", "__post_init__", "__enter__", "__exit__"):
                yield from self._member(module, name, member)
            return
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and (found := self._of(module, each.id)) and found[1]:
                yield found[0], found[1]
            if isinstance(each, ast.Attribute):
                yield from self._attribute(module, name, each)

    def _attribute(self, module: str, name: str, node: ast.Attribute) -> Iterator[Unit]:
        asked = node.value.func if isinstance(node.value, ast.Call) else node.value
        if isinstance(asked, ast.Name) and asked.id == "self":
            yield from self._member(module, name.partition(".")[0], node.attr)
        elif isinstance(asked, ast.Name) and (found := self._of(module, asked.id)):
            of, made = found
            yield from self._member(of, made, node.attr) if made else self._function(of, node.attr)
        last = asked.attr if isinstance(asked, ast.Attribute) else asked.id if isinstance(asked, ast.Name) else ""
        for of, made in self._annotated.get(last.lstrip("_"), ()):
            yield from self._member(of, made, node.attr)

    @cached_property
    def _annotated(self) -> dict[str, set[Unit]]:
        """The classes with which fields and parameters are annotated, by name; a private field's without its `_`."""
        found: dict[str, set[Unit]] = {}
        for module in self._modules.values():
            for node in ast.walk(module.tree):
                name = node.arg if isinstance(node, ast.arg) else None
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    name = node.target.id
                if name is None or not isinstance(node, ast.arg | ast.AnnAssign) or node.annotation is None:
                    continue
                for each in ast.walk(node.annotation):
                    of = self._of(module.name, each.id) if isinstance(each, ast.Name) else None
                    if of and of[1] and isinstance(self._modules[of[0]].units[of[1]], ast.ClassDef):
                        found.setdefault(name.lstrip("_"), set()).add((of[0], of[1]))
        return found

    def _of(self, module: str, name: str) -> tuple[str, str | None] | None:
        """What a name is in a module: one of our own modules, or what it defines; None for all else."""
        at = self._modules[module]
        if name in at.units:
            return module, name
        of, what = at.imports.get(name, ("", None))
        if f"{of}.{what}" in self._modules:
            return f"{of}.{what}", None
        if of in self._modules and what in self._modules[of].units:
            return of, what
        return None

    def _member(self, module: str, made: str, member: str) -> Iterator[Unit]:
        yield from self._function(module, f"{made}.{member}")

    def _function(self, module: str, name: str) -> Iterator[Unit]:
        if name in self._modules[module].units:
            yield module, name

    def _node(self, unit: Unit) -> ast.AST:
        return self._modules[unit[0]].units[unit[1]]
