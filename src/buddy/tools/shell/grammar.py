"""What a shell command would run, proven or not.

Invariants: `plain` means that two independent readings (a real shell grammar, and a lexer that knows nothing but
literal words and four operators) agree on the same commands; whatever either of them does not know is not plain.
`found` errs the other way: every command that can be made out anywhere in the text, for rules that deny.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.characters import find_deceptive

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

    Nodes = tuple[Node, ...]

Words = tuple[str, ...]

MAX_BYTES = 64 * 1024
MAX_COMMANDS = 50
LONG = 4096
MAX_PIPES = 500


class Parsed(Struct, frozen=True):
    """`why` says what kept it from being plain.

    `files` are those that it redirects from or to, `values` what it assigns, `bodies` what it feeds to its commands.
    """

    plain: tuple[Words, ...] | None
    found: tuple[Words, ...]
    why: str = ""
    files: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()
    has_pipe: bool = False
    has_error: bool = False


@lru_cache(128)
def parse(command: str) -> Parsed:
    """Read a command line as a shell would, and say how sure that is."""
    data = command.encode(errors="surrogatepass")
    if len(data) > MAX_BYTES:
        return Parsed(None, (), f"it has {len(data)} bytes, more than anybody reads")
    if data.count(b"<<") > MAX_COMMANDS:  # each takes the grammar longer than the one before
        return Parsed(None, (), f"it has more than {MAX_COMMANDS} here-documents", has_error=True)
    read = _lex(command)
    if _is_costly(data, read):
        return Parsed(None, (), read if isinstance(read, str) else "its pipe is too long to examine", has_error=True)
    # A shell joins such lines before it reads words; the grammar does not.
    source = data.replace(b"\\\n", b"")
    root = _parser().parse(source.translate(_MASKED)).root_node
    nodes = tuple(_walk(root))
    found = tuple(_found(nodes, source))
    why = _doubt(read, nodes, found)
    if why or isinstance(read, str):
        return Parsed(None, found, why, *_beside(nodes, source), has_error=root.has_error)
    return Parsed(read, found, has_pipe=any(node.type == "|" for node in nodes))


def _is_costly(data: bytes, read: "tuple[Words, ...] | str") -> bool:
    """Whether the grammar could take seconds: it does for long texts that are no shell, and for long pipes.

    The time it takes to make something of a text with mistakes grows with the square of its length.
    """
    pipes = data.count(b"|") - 2 * data.count(b"||")
    return len(data) > LONG and (isinstance(read, str) or pipes > MAX_PIPES)


def _doubt(read: tuple[Words, ...] | str, nodes: "Nodes", found: tuple[Words, ...]) -> str:
    """Why the two readings do not prove it; empty where they do."""
    if isinstance(read, str):
        return read
    if problem := _unknown_node(nodes):
        return f"it contains {problem}"
    if read != found:
        return "it can be read in more than one way"
    return f"it runs {len(read)} commands, more than {MAX_COMMANDS}" if len(read) > MAX_COMMANDS else ""


# The grammar's scanner reads beyond its tables for characters outside Latin-1, and the process dies of it. To a shell,
# all of them are letters of a word; the words themselves are taken from the command as it is.
_MASKED = bytes(code if code < 0x80 else ord("x") for code in range(256))


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


def _unknown_node(nodes: "Nodes") -> str | None:
    """The first thing in the tree that a plain list of words does not have."""
    if nodes[0].has_error:
        return "something that is not shell"
    for node in nodes:
        known = node.type in _KNOWN if node.is_named else node.type in _OPERATORS
        if not known:
            return f"a {node.type.replace('_', ' ')}" if node.is_named else f"{node.type!r}"
    return None


def _found(nodes: "Nodes", source: bytes) -> Iterator[Words]:
    for node in (node for node in nodes if node.type == "command"):
        words = tuple(_literal(child, source) for child in node.named_children if child.type not in _NOT_WORDS)
        if words:
            yield words


def _beside(nodes: "Nodes", source: bytes) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The files, values and bodies that stand beside the words of commands."""
    return (
        tuple(
            _literal(node.named_children[-1], source)
            for node in nodes
            if node.type == "file_redirect" and node.named_children
        ),
        tuple(_literal(node.named_children[-1], source) for node in nodes if node.type == "variable_assignment"),
        tuple(_literal(node, source) for node in nodes if node.type in ("heredoc_body", "herestring_redirect")),
    )


_NOT_WORDS = frozenset({"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"})


def _walk(root: "Node") -> Iterator["Node"]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _literal(node: "Node", source: bytes) -> str:
    """A word without its quotes; what is expanded stays as it is written."""
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    if node.type == "command_name" and node.named_children:
        return _literal(node.named_children[0], source)
    if node.type == "concatenation":
        return "".join(_literal(child, source) for child in node.children)
    if node.type in ("raw_string", "string") and len(text) >= 2:
        return text[1:-1]
    if node.type == "ansi_c_string":
        return unescape(text[2:-1])
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text


def unescape(text: str) -> str:
    """A text in $'…' as a shell reads it."""
    return _ESCAPE.sub(_spelled, text)


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|[uU]([0-9a-fA-F]{1,6})|(.))", re.DOTALL)


_CONTROL = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}


def _spelled(found: re.Match[str]) -> str:
    """What an escape in $'…' stands for, as far as names of programs are made of it."""
    hexadecimal, octal, code, other = found.groups()
    if other is not None:
        return _CONTROL.get(other, other)
    number = int(octal, 8) if octal else int(hexadecimal or code, 16)
    return chr(number) if number < 0x110000 else ""


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
_RESERVED = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in", "function"}
    | {"select", "time", "coproc"}
)


def _lex(command: str) -> tuple[Words, ...] | str:
    """The commands of a line of literal words, or why it is not one."""
    text = command.strip(" \t")
    if why := find_deceptive(text.replace("\t", " ")):
        return why
    commands: list[Words] = []
    words: list[str] = []
    position, after_word = 0, False
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return f"it contains an unquoted {text[position]!r}"
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
