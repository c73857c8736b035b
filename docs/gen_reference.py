"""MkDocs hook: makes pages from the code: one per public module, an index of them all, the state diagrams."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from msmq.transfer import diagrams

SRC = Path(__file__).resolve().parent.parent / "src"
SECTION = "Code"
INDEX = "reference/index.md"


@dataclass(frozen=True)
class Module:
    """One public module of the package and the page it gets."""

    name: str
    path: Path

    @property
    def page(self) -> str:
        inner = self.name.split(".")[1:]
        return "/".join(["reference", *inner]) + ".md"

    @property
    def summary(self) -> str:
        docstring = ast.get_docstring(ast.parse(self.path.read_text(encoding="utf-8"))) or ""
        return docstring.split("\n\n")[0].replace("\n", " ").rstrip(":")

    def text(self) -> str:
        return f"# {self.name}\n\n::: {self.name}\n"


def modules() -> Iterator[Module]:
    for path in sorted((SRC / "msmq").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        is_private = any(part.startswith("_") for part in parts)
        if len(parts) > 1 and not is_private:
            yield Module(".".join(parts), path)


def index_text() -> str:
    lines = [
        "# The code",
        "",
        "Made from the code, one page per module.",
        "",
        "| module | what it is |",
        "| --- | --- |",
    ]
    for module in modules():
        link = module.page.removeprefix("reference/")
        lines.append(f"| [`{module.name}`]({link}) | {module.summary.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the generated pages into the navigation, grouped by room."""
    rooms: dict[str, list[dict[str, str]]] = {}
    for module in modules():
        room = ".".join(module.name.split(".")[:2])
        rooms.setdefault(room, []).append({module.name.removeprefix("msmq."): module.page})
    pages: list[Any] = [{"Overview": INDEX}, *({room: members} for room, members in rooms.items())]
    assert config.nav is not None
    config.nav = [{SECTION: pages} if SECTION in entry else entry for entry in config.nav]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages to those of this directory."""
    files.append(File.generated(config, INDEX, content=index_text()))
    for module in modules():
        files.append(File.generated(config, module.page, content=module.text()))
    files.append(File.generated(config, "explanation/states.md", content=diagrams.page()))
    return files
