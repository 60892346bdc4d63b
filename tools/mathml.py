"""Markdown's $...$ and $$...$$ as MathML, which browsers draw without a script: an extension for the site."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

FORMULA = r"(?<!\\)\$(\$?)(?!\s*\$)((?:[^$\\]|\\.)+?)\$\1"


class Formula(InlineProcessor):
    """A formula between dollars; two dollars set it on a line of its own."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:
        display = "block" if m[1] else "inline"
        return self.md.htmlStash.store(convert(m[2].strip(), display=display)), m.start(0), m.end(0)


class MathML(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(Formula(FORMULA, md), "mathml", 185)  # after code, before backslashes


def makeExtension(**options: Any) -> MathML:
    return MathML(**options)
