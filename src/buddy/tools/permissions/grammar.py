"""What a shell command would run, proven or not.

What always holds: `plain` means that two independent readings (a real shell grammar, and a lexer that knows nothing but
literal words and four operators) agree on the same commands; whatever either of them does not know is not plain.
`found` errs the other way: every command that can be made out anywhere in the text, for rules that deny.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Words = tuple[str, ...]

MAX_BYTES = 64 * 1024
MAX_COMMANDS = 50
MAX_PARSED_COMMANDS = 10_000


class Parsed(Struct, frozen=True):
    """`files` are those that it redirects from or to; `why` says what kept it from being plain."""

    plain: tuple[Words, ...] | None
    found: tuple[Words, ...]
    why: str = ""
    files: tuple[str, ...] = ()
    has_pipe: bool = False


def parse(command: str) -> Parsed:
    """Read a command line as a shell would, and say how sure that is."""
    data = command.encode(errors="surrogatepass")
    if len(data) > MAX_BYTES:
        return Parsed(None, (), f"it has {len(data)} bytes, more than anybody reads")
    root = _parser().parse(data).root_node
    found = tuple(_found(root))
    read = _lex(command)
    why = _doubt(read, root, found)
    if why or isinstance(read, str):
        return Parsed(None, found, why, tuple(_files(root)))
    return Parsed(read, found, has_pipe=any(node.type == "|" for node in _walk(root)))


def _doubt(read: "tuple[Words, ...] | str", root: "Node", found: tuple[Words, ...]) -> str:
    """Why the two readings do not prove it; empty where they do."""
    if isinstance(read, str):
        return read
    if problem := _unknown_node(root):
        return f"it contains {problem}"
    if read != found:
        return "it can be read in more than one way"
    return f"it runs {len(read)} commands, more than {MAX_COMMANDS}" if len(read) > MAX_COMMANDS else ""


@cache
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


# --- the grammar's reading -------------------------------------------------------------------------------------------

_KNOWN = frozenset(
    {"program", "list", "pipeline", "command", "command_name", "word", "number"}
    | {"raw_string", "string", "string_content"}
)
_OPERATORS = frozenset({"&&", "||", ";", "|", '"'})


def _unknown_node(root: "Node") -> str | None:
    """The first thing in the tree that a plain list of words does not have."""
    if root.has_error:
        return "something that is not shell"
    for node in _walk(root):
        known = node.type in _KNOWN if node.is_named else node.type in _OPERATORS
        if not known:
            return f"a {node.type.replace('_', ' ')}" if node.is_named else f"{node.type!r}"
    return None


def _found(root: "Node") -> Iterator[Words]:
    for count, node in enumerate(node for node in _walk(root) if node.type == "command"):
        if count >= MAX_PARSED_COMMANDS:
            return
        words = tuple(_literal(child) for child in node.named_children if child.type not in _NOT_WORDS)
        if words:
            yield words


def _files(root: "Node") -> Iterator[str]:
    for node in _walk(root):
        if node.type == "file_redirect" and node.named_children:
            yield _literal(node.named_children[-1])


_NOT_WORDS = frozenset({"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"})


def _walk(root: "Node") -> Iterator["Node"]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _literal(node: "Node") -> str:
    """A word without its quotes; what is expanded stays as it is written."""
    text = (node.text or b"").decode(errors="replace")
    if node.type == "command_name" and node.named_children:
        return _literal(node.named_children[0])
    if node.type == "concatenation":
        return "".join(_literal(child) for child in node.children)
    if node.type in ("raw_string", "string") and len(text) >= 2:
        return text[1:-1]
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


# --- the lexer's reading ---------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+)
    |(?P<operator>&&|\|\||;|\|)
    |'(?P<single>[^'\x00-\x1f\x7f]*)'
    |"(?P<double>[^"$`\\!\x00-\x1f\x7f]*)"
    |(?P<bare>[A-Za-z0-9_./:,@%+=-]+)""",
    re.VERBOSE,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_NAME = re.compile(r"[A-Za-z0-9_./+-]*[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_INVISIBLE = re.compile(
    "[\x80-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)
_RESERVED = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in", "function"}
    | {"select", "time", "coproc"}
)


def _lex(command: str) -> tuple[Words, ...] | str:
    """The commands of a line of literal words, or why it is not one."""
    text = command.strip(" \t")
    if _INVISIBLE.search(text):
        return "it contains characters that cannot be seen"
    commands: list[Words] = []
    words: list[str] = []
    position, after_word = 0, False
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return f"it contains {text[position]!r} outside quotes"
        position = token.end()
        match token.lastgroup:
            case "space":
                after_word = False
            case "operator":
                if not words:
                    return "it has an operator without a command before it"
                commands.append(tuple(words))
                words, after_word = [], False
            case _:
                if after_word:
                    return "it joins quoted and unquoted parts into one word"
                words.append(token["single"] if token.lastgroup == "single" else token["double"] or token["bare"] or "")
                after_word = True
    return _ended(text, commands, words)


def _ended(text: str, commands: list[Words], words: list[str]) -> tuple[Words, ...] | str:
    if words:
        commands.append(tuple(words))
    elif not text.endswith(";") or not commands:
        return "it ends with an operator" if commands else "it is empty"
    for command in commands:
        if not _NAME.fullmatch(command[0]) or _ASSIGNMENT.match(command[0]) or command[0] in _RESERVED:
            return f"{command[0]!r} is not the name of a program"
    return tuple(commands)
