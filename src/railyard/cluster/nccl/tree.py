"""XML as a tree of elements that know where they stand: what NCCL's files are read into and written from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST = 64
"""Elements within elements; NCCL's parser knows fewer."""


@dataclass
class Element:
    """An element.

    Attributes:
        tag: Its name.
        given: Attributes as they stand there, in their order.
        children: In their order.
        line: Where it begins; 0: it was not read.
    """

    tag: str
    given: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    line: int = 0

    def all(self, tag: str) -> Iterator[Element]:
        """Children of a kind."""
        return (child for child in self.children if child.tag == tag)

    def same(self, other: Element) -> bool:
        """Whether two say the same, whatever the order of attributes and blanks between elements."""
        if self.tag != other.tag or self.given != other.given or len(self.children) != len(other.children):
            return False
        return all(one.same(two) for one, two in zip(self.children, other.children, strict=True))

    def text(self, indent: str = "") -> str:
        """As NCCL writes it."""
        words = " ".join([self.tag, *(f"{name}={quoteattr(value)}" for name, value in self.given.items())])
        if not self.children:
            return f"{indent}<{words}/>\n"
        inside = "".join(child.text(indent + "  ") for child in self.children)
        return f"{indent}<{words}>\n{inside}{indent}</{self.tag}>\n"


def read(text: str, file: str, root: str) -> Element:
    """The tree of a file.

    Args:
        text: Of the file.
        file: Its name.
        root: What its outermost element has to be.

    Raises:
        InputError: It is no XML, declares entities, or is another file.
    """
    top: list[Element] = []
    open_: list[Element] = []
    parser = expat.ParserCreate()

    def begin(tag: str, given: dict[str, str]) -> None:
        if len(open_) >= DEEPEST:
            raise InputError("elements are nested too deep", file=file, line=parser.CurrentLineNumber)
        element = Element(tag, dict(given), [], parser.CurrentLineNumber)
        (open_[-1].children if open_ else top).append(element)
        open_.append(element)

    def declared(*_: object) -> None:
        raise InputError("a file of NCCL declares no document type", file=file, line=parser.CurrentLineNumber)

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: open_.pop()
    parser.StartDoctypeDeclHandler = declared
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        words = expat.errors.messages[error.code]
        raise InputError(f"the file is no XML: {words}", file=file, line=error.lineno) from None
    if top[0].tag != root:
        raise InputError("another file of XML", file=file, line=top[0].line, found=top[0].tag, allowed=root)
    return top[0]
